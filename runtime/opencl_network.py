"""Whole networks on an OpenCL device: kernels in order on one queue, over arrays kept there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.gpu.network import GpuNetwork
from vdla.errors import InputError

from .opencl import OpenClDevice

__all__ = ["OpenClNetwork"]

Array = NDArray[Any]


class OpenClNetwork:
    """A network on a device: its kernels compiled, its weights copied there, its memory taken.

    Parameters
    ----------
    made : GpuNetwork
    device : OpenClDevice

    Raises
    ------
    DeviceError
        The device's compiler refuses a kernel, or the device has no room.
    """

    def __init__(self, made: GpuNetwork, device: OpenClDevice) -> None:
        self._graph = made.graph
        self._device = device
        built = {id(kernel): device.build(kernel) for kernel in made.kernels}
        with device.failing(made.graph.name):
            self._buffers = self._placed(made)
        self._calls = [
            (built[id(call.kernel)], [self._buffers[name] for name in call.arrays])
            for call in made.calls
        ]

    def _placed(self, made: GpuNetwork) -> dict[str, Any]:
        """Return the memory of every array of the network, by name."""
        device, graph = self._device, made.graph
        buffers = {name: device.copied(array) for name, array in made.constants.items()}
        for name in (*graph.inputs, *graph.outputs):
            tensor = graph.tensors[name]
            if name not in buffers:
                buffers[name] = device.memory(tensor.size * tensor.dtype.itemsize)
        if made.regions:
            arena = device.memory(made.arena_bytes)
            for name, region in made.regions.items():
                buffers[name] = arena.get_sub_region(region.offset, region.size)
        return buffers

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Copy the inputs to the device, run all kernels, and copy the outputs back.

        Parameters
        ----------
        inputs : mapping of str to array
            One for each input of the graph.

        Returns
        -------
        dict of str to array
            The graph's outputs.

        Raises
        ------
        InputError
            An input is missing, unknown, or not of its tensor's shape and dtype.
        DeviceError
            The device fails.
        """
        graph, device = self._graph, self._device
        if set(inputs) != set(graph.inputs):
            raise InputError(
                f"{graph.name} must be given {', '.join(graph.inputs)}, not "
                f"{', '.join(inputs) or 'nothing'}."
            )
        with device.failing(graph.name):
            for name, array in inputs.items():
                device.write(self._buffers[name], self._checked(name, array))
            for kernel, buffers in self._calls:
                kernel.enqueue(buffers)
            outputs = {}
            for name in graph.outputs:
                tensor = graph.tensors[name]
                if tensor.data is not None:
                    outputs[name] = tensor.data.copy()
                    continue
                outputs[name] = np.empty(tensor.shape, tensor.dtype)
                device.read(self._buffers[name], outputs[name])
        return outputs

    def _checked(self, name: str, array: Array) -> Array:
        tensor = self._graph.tensors[name]
        if array.shape != tensor.shape or array.dtype != tensor.dtype:
            raise InputError(
                f"{name} must be {tensor.dtype}{list(tensor.shape)}, not "
                f"{array.dtype}{list(array.shape)}."
            )
        return np.ascontiguousarray(array)
