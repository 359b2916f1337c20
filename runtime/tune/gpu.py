"""A candidate on a GPU: compiled there, timed against the tile by rules, its values checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from vdla.compiler.gpu import compile_network
from vdla.compiler.gpu.tuning import GpuMachine, GpuTemplate
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import Record
from vdla.errors import DeviceError
from vdla.runtime.gpu import GpuDevice, open_gpu
from vdla.runtime.gpu_network import place_network

from .expected import Expected, Kept
from .ratio import ratio

__all__ = ["OnGpu", "machine_of"]

_SAMPLE_SECONDS = 1e-3
"""Of a sample, at the least: a clock's steps and what it takes to wait are far less."""
_MOST_LAUNCHES = 1024
"""Of a sample."""


@dataclass(frozen=True)
class OnGpu:
    """Times candidates on a GPU.

    Parameters
    ----------
    kind : str
        ``opencl`` or ``cuda``.
    name : str, optional
        A part of the device's name, as `open_gpu` takes it.
    """

    kind: str
    name: str | None = None

    def prepare(self) -> None:
        """Open the device."""
        _opened(self)

    def __call__(self, template: GpuTemplate, point: Point, to_beat: float) -> float:
        """Return what a candidate takes.

        It runs in turn with the tile that is chosen by rules, and only the ratio of both is kept,
        as on a processor: `vdla.runtime.tune.processor.seconds`. A sample is as many launches as
        take a millisecond, with one wait after them. Weights and inputs stay in the device's
        caches as far as they fit.

        Parameters
        ----------
        template : GpuTemplate
        point : mapping
        to_beat : float
            Values are checked of what is faster; what is clearly slower is sampled less.

        Raises
        ------
        LoweringError
            No kernel can be made of the point.
        ProgramError
            Values differ from those of the reference interpreter.
        DeviceError
            The task is for another device, or the kernel has no room on it.
        """
        device = _opened(self)
        if machine_of(device) != template.machine:
            raise DeviceError(
                f"A candidate must be measured on the device of its task, "
                f"{template.machine.device}, and this is {device.name}: name that one with "
                "--device."
            )
        reference = _references.get(template.task.key, lambda: _Reference(template, device))
        nominal = template.prior(template.default)
        kernel = _Kernel(template, point, reference.expected, device)
        with device.failing(template.task.operator):
            cost = nominal * ratio(kernel.sample, reference.kernel.sample, to_beat / nominal)
        if cost < to_beat:
            reference.expected.check(kernel.output)
        return cost


def machine_of(device: GpuDevice) -> GpuMachine:
    """Return what a device is called in the keys of records."""
    return GpuMachine(device.target, device.name)


class _Kernel:
    """A point's kernels, on a device, with given inputs."""

    def __init__(
        self, template: GpuTemplate, point: Point, given: Expected, device: GpuDevice
    ) -> None:
        record = Record(template.task, point, 0.0, template.unit)
        network = compile_network(template.graph, Database([record]), template.machine)
        self._device, self._run = device, place_network(network, device)
        (self.output,) = self._run.run(given.inputs).values()

    def sample(self) -> float:
        """Return the seconds that the kernels take once, of many launches in a row."""
        return self._device.seconds(self._all, 1) / self._launches

    @cached_property
    def _all(self) -> Callable[[], None]:
        count = self._launches  # found out before anything is recorded

        def launch() -> None:
            for _ in range(count):
                self._run.enqueue()

        return self._device.recorded(launch)

    @cached_property
    def _launches(self) -> int:
        count = 1
        while count < _MOST_LAUNCHES:
            if count * self._device.seconds(self._run.enqueue, count) >= _SAMPLE_SECONDS:
                break
            count *= 2
        return count


class _Reference:
    """The kernel by rules, inputs, and the values that they lead to."""

    def __init__(self, template: GpuTemplate, device: GpuDevice) -> None:
        self.expected = Expected(template.graph)
        self.kernel = _Kernel(template, template.default, self.expected, device)
        self.expected.check(self.kernel.output)


_references: Kept[_Reference] = Kept()
_devices: dict[OnGpu, GpuDevice] = {}


def _opened(place: OnGpu) -> GpuDevice:
    """Return a device, opened once a process."""
    if place not in _devices:
        _devices[place] = open_gpu(place.kind, place.name)
    return _devices[place]
