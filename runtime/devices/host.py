"""What is beside the accelerator: operators that stay off it, as kernels, compiled or in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.module import Execute, Module, Step
from vdla.runtime.gpu import GpuDevice
from vdla.runtime.hostops import KERNELS, Operand

from .compiled import load_runs
from .host_run import HostRun
from .kernels import load_kernels

__all__ = ["Host"]

Array = NDArray[Any]


class Host:
    """Runs layers that are placed on the cpu or the gpu.

    Parameters
    ----------
    module : Module
        Its constants serve as operands.
    threads : int, optional
        On how many threads machine code runs; by default one a core.
    pin : bool
        Bind each of them but the caller's to a CPU of its own.
    gpu : GpuDevice, optional
        Where layers run that have kernels; by default the first that takes them.
    without_gpu : bool
        Leave kernels alone, whatever there is.

    Attributes
    ----------
    gpu : str or None
        The device that has loaded kernels.

    Warns
    -----
    VdlaWarning
        The module's machine code is for another processor, or there is no GPU for its kernels.

    Raises
    ------
    DeviceError
        The GPU that is given takes other kernels, or has no room for these.
    ModuleError
        The module's machine code is damaged or of another network.
    """

    def __init__(
        self,
        module: Module,
        *,
        threads: int | None = None,
        pin: bool = False,
        gpu: GpuDevice | None = None,
        without_gpu: bool = False,
    ) -> None:
        self._module = module
        kernels = () if without_gpu else load_kernels(module, gpu)
        self.gpu = next((run.device for run in kernels), None)
        self._runs = (*kernels, *load_runs(module, threads=threads, pin=pin))

    def steps(self) -> tuple[Step | HostRun, ...]:
        """Return the module's steps, those that something takes together replaced by it."""
        first = {run.layers[0]: run for run in self._runs}
        taken = {layer for run in self._runs for layer in run.layers}
        steps: list[Step | HostRun] = []
        for step in self._module.steps:
            if not isinstance(step, Execute) or step.layer not in taken:
                steps.append(step)
            elif step.layer in first:
                steps.append(first[step.layer])
        return tuple(steps)

    def execute(self, step: Execute | HostRun, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return what a step computes, by tensor.

        Parameters
        ----------
        step : Execute or HostRun
        values : mapping of str to array
            Activations in host memory by tensor, (N, ...) each for any N.
        """
        if isinstance(step, HostRun):
            return step.execute(values)
        spec, tensors = self._module.layers[step.layer], self._module.tensors
        operands = []
        for name in spec.inputs:
            info = tensors[name]
            operands.append(Operand(info, values[name] if info.data is None else info.data))
        output = KERNELS[spec.op](spec, operands, tensors[spec.outputs[0]])
        return {spec.outputs[0]: np.asarray(output)}
