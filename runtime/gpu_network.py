"""Networks on a GPU: kernels in order on one queue, over arrays that are kept there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError, InputError
from vdla.module import Gpu, GpuRun, TensorInfo
from vdla.runtime.gpu import GpuDevice, LoadedKernel

if TYPE_CHECKING:
    from vdla.compiler.gpu import GpuNetwork
    from vdla.compiler.graph import Tensor

__all__ = ["PlacedRun", "place_network", "placed_runs"]

Array = NDArray[Any]


class PlacedRun:
    """A run of layers on a device: its weights copied there, its memory taken.

    Parameters
    ----------
    name : str
        Of the network.
    run : GpuRun
    kernels : sequence of LoadedKernel
        Of the device, as the run's calls number them.
    tensors : mapping of str to TensorInfo or Tensor
        The network's.
    device : GpuDevice

    Raises
    ------
    DeviceError
        The device has no room.
    """

    def __init__(
        self,
        name: str,
        run: GpuRun,
        kernels: list[LoadedKernel],
        tensors: Mapping[str, TensorInfo | Tensor],
        device: GpuDevice,
    ) -> None:
        self.name, self.code = name, run
        self.device = device
        self._tensors = {name: tensors[name] for name in (*run.inputs, *run.outputs)}
        with device.failing(name):
            self._memories = self._taken()
        self._calls = [
            (kernels[call.kernel], [self._memories[name] for name in call.arrays])
            for call in run.calls
        ]

    def _taken(self) -> dict[str, Any]:
        """Return the memory of every array, by name."""
        device, run = self.device, self.code
        memories = {name: device.copied(array) for name, array in run.constants.items()}
        for name, tensor in self._tensors.items():
            if name not in memories:
                size = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
                memories[name] = device.memory(size)
        if run.regions:
            arena = device.memory(run.arena_bytes)
            for name, region in run.regions.items():
                memories[name] = device.part(arena, region.offset, region.size)
        return memories

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Copy the inputs to the device, run all kernels, and copy the outputs back.

        Parameters
        ----------
        inputs : mapping of str to array
            One for each input, of the network's own shapes.

        Returns
        -------
        dict of str to array
            The outputs.

        Raises
        ------
        InputError
            An input is missing, unknown, or not of its tensor's shape and dtype.
        DeviceError
            The device fails.
        """
        self.write(inputs)
        with self.device.failing(self.name):
            self.enqueue()
        return self.read()

    def write(self, inputs: Mapping[str, Array]) -> None:
        """Copy the inputs to the device, as `run` takes them."""
        if set(inputs) != set(self.code.inputs):
            raise InputError(
                f"{self.name} must be given {', '.join(self.code.inputs)}, not "
                f"{', '.join(inputs) or 'nothing'}."
            )
        checked = {name: self._checked(name, array) for name, array in inputs.items()}
        with self.device.failing(self.name):
            for name, array in checked.items():
                self.device.write(self._memories[name], array)

    def read(self) -> dict[str, Array]:
        """Copy the outputs back, once all is done that was asked."""
        outputs = {}
        with self.device.failing(self.name):
            for name in self.code.outputs:
                tensor = self._tensors[name]
                outputs[name] = np.empty(tensor.shape, tensor.dtype)
                self.device.read(self._memories[name], outputs[name])
        return outputs

    def enqueue(self) -> None:
        """Ask the device to run all kernels once more on the inputs that lie there."""
        for kernel, memories in self._calls:
            kernel.enqueue(memories)

    def _checked(self, name: str, array: Array) -> Array:
        tensor = self._tensors[name]
        if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
            raise InputError(
                f"{name} must be {tensor.dtype}{list(tensor.shape)}, not "
                f"{array.dtype}{list(array.shape)}."
            )
        return np.ascontiguousarray(array)


def placed_runs(
    name: str, code: Gpu, tensors: Mapping[str, TensorInfo | Tensor], device: GpuDevice
) -> tuple[PlacedRun, ...]:
    """Return the runs of a network on a device, which loads each kernel once.

    Raises
    ------
    DeviceError
        The kernels are in another language than the device's, it refuses one, or it has no room.
    """
    if code.target != device.target:
        raise DeviceError(
            f"Kernels must be in the language of the device, {device.target} on {device.name}, and "
            f"those of {name} are for {code.target}: compile the network with the target "
            f"{device.target}, or name another device."
        )
    kernels = [device.load(kernel) for kernel in code.kernels]
    return tuple(PlacedRun(name, run, kernels, tensors, device) for run in code.runs)


def place_network(made: GpuNetwork, device: GpuDevice) -> PlacedRun:
    """Return a whole network on a device.

    Raises
    ------
    DeviceError
        The device's compiler refuses a kernel, or the device has no room.
    """
    from vdla.compiler.gpu.code import network_code

    graph = made.graph
    (run,) = placed_runs(graph.name, network_code(made, device.target), graph.tensors, device)
    return run
