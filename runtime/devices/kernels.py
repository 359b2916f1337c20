"""Layers on a GPU as kernels, loaded for a session."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from vdla.errors import DeviceError, VdlaWarning
from vdla.module import Module
from vdla.runtime.gpu import GpuDevice, open_gpu
from vdla.runtime.gpu_network import PlacedRun, placed_runs

from .host_run import HostRun, Turn

__all__ = ["GpuLayers", "load_kernels"]

Array = NDArray[Any]


class GpuLayers(HostRun):
    """A run of layers whose weights and activations lie in the memory of a GPU."""

    def __init__(self, placed: PlacedRun, module: Module, turn: Turn) -> None:
        super().__init__(placed.code, module, turn)
        self._placed = placed
        self.device = placed.device.name

    def once(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs for one image."""
        return self._placed.run(values)


def load_kernels(module: Module, device: GpuDevice | None) -> tuple[GpuLayers, ...]:
    """Return a module's runs for a GPU ready to be called; none where it has none, or no GPU.

    Parameters
    ----------
    module : Module
    device : GpuDevice, optional
        By default the first that takes the module's kernels.

    Warns
    -----
    VdlaWarning
        No device was given, and there is none, so that the layers run in numpy.

    Raises
    ------
    DeviceError
        The device that is given takes other kernels or has no room.
    """
    code = module.gpu
    if code is None:
        return ()
    if device is None:
        try:
            device = open_gpu(code.target)
        except DeviceError as error:
            warnings.warn(
                f"{module.name} has kernels for a GPU, and their layers run in numpy, which is "
                f"slower: {error}",
                VdlaWarning,
                stacklevel=2,
            )
            return ()
    turn = Turn()
    placed = placed_runs(module.name, code, module.tensors, device)
    return tuple(GpuLayers(one, module, turn) for one in placed)
