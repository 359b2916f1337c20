"""A network in a device's memory, and its steps: programs there, other operators here.

Between the start of a program and its end the processor is free. `Session.stream` fills that time
with the pass before and the pass after: the first one's results are unpacked, the second one's
input is read and packed, so that the accelerator waits for neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import DeviceError, VdlaError
from vdla.module import Execute, Launch, Module, Pack, Relayout, Step, Unpack
from vdla.runtime.blocked import pack, unpack
from vdla.runtime.device import Bytes, Counters, Device
from vdla.runtime.devices.host import Host
from vdla.runtime.devices.host_run import HostRun
from vdla.runtime.gpu import GpuDevice
from vdla.runtime.inputs import images_in

__all__ = ["Outcome", "Session", "Timing", "groups_of", "memory_bytes"]

Array = NDArray[Any]
Inputs = Mapping[str, Array]
Progress = Callable[[str], None]
_Work = Step | HostRun


def _quiet(doing: str) -> None:
    """Tell nobody."""


@dataclass
class Timing:
    """Where the time of one pass went, in seconds on the clock.

    Attributes
    ----------
    processor : float
        Operators on the processor, packing and unpacking.
    transfers : float
        Copies into the device's memory and out of it.
    device : float
        From the start of each program to the end of the wait for it.
    begin, end : float
        When the work on the pass began and ended, of `time.perf_counter`. Passes of a stream
        overlap.
    """

    processor: float = 0.0
    transfers: float = 0.0
    device: float = 0.0
    begin: float = 0.0
    end: float = 0.0

    @contextmanager
    def spending(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to an attribute."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, name, getattr(self, name) + time.perf_counter() - begin)


@dataclass
class Outcome:
    """What one pass over the steps left.

    Attributes
    ----------
    values : dict of str to array
        Tensors in host memory.
    buffers : dict of int to array
        With `keep`, every buffer's tensor as it stands in the device's memory at the end.
    counters : list of Counters
        One a program.
    timing : Timing
    clock_mhz : float
        What the device counted its cycles at.
    """

    values: dict[str, Array]
    clock_mhz: float
    buffers: dict[int, Array] = field(default_factory=dict)
    counters: list[Counters] = field(default_factory=list)
    timing: Timing = field(default_factory=Timing)


def groups_of(images: int, module: Module) -> int:
    """Return how many memories some images take: the core's batch of them share one."""
    return -(-images // module.config.batch)


def memory_bytes(module: Module) -> int:
    """Return the bytes that one more memory costs a simulator: its arena and its scratchpads."""
    config = module.config
    buffers = config.inp_bytes + config.acc_bytes + config.acc_depth * config.out_elem_bytes
    host = sum(
        int(np.prod(t.shape)) * np.dtype(t.dtype).itemsize
        for t in module.tensors.values()
        if t.data is None
    )
    return module.arena_bytes + buffers + config.batch * host


class Session:
    """A network that stays in the memory of a device, its weights written once.

    Parameters
    ----------
    module : Module
    device : Device
        Closed with the session.
    threads : int, optional
        On how many threads the processor's machine code runs; by default one a core.
    pin : bool
        Bind each of them but the caller's to a CPU of its own.
    gpu, without_gpu
        As `vdla.runtime.devices.host.Host` takes them.

    Warns
    -----
    VdlaWarning
        The machine code is for another processor, or there is no GPU; numpy takes its place.

    Raises
    ------
    DeviceError
        The network does not fit the memory, or its kernels are not for the GPU that is given.
    InputError
        There is no such number of threads.
    ModuleError
        The machine code is damaged or of another network.
    """

    def __init__(
        self,
        module: Module,
        device: Device,
        *,
        threads: int | None = None,
        pin: bool = False,
        gpu: GpuDevice | None = None,
        without_gpu: bool = False,
    ) -> None:
        self.module = module
        self.device = device
        try:
            self.host = Host(module, threads=threads, pin=pin, gpu=gpu, without_gpu=without_gpu)
            self.base = device.allocate(module.arena_bytes)
            for segment in module.segments:
                device.write(self.base + segment.offset, segment.data)
        except BaseException:
            device.close()
            raise
        self.head, self.body, self.tail = _parts(self.host.steps())

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the device."""
        self.device.close()

    def run(self, inputs: Inputs, *, keep: bool = False, progress: Progress = _quiet) -> Outcome:
        """Run the network once.

        Parameters
        ----------
        inputs : mapping of str to array
            (n, ...) each, for at most as many images as the device's memories take; of the
            network's own shapes where images may not share a pass.
        keep : bool
            Return the buffers as well.
        progress : callable
            Called with the name of what runs next, once a step that computes.
        """
        once = _Pass(self, inputs, progress)
        once.prepare()
        once.compute()
        once.finish()
        if keep:
            once.keep()
        return once.outcome

    def stream(self, passes: Iterable[Inputs], progress: Progress = _quiet) -> Iterator[Outcome]:
        """Run the network on one input after another, the processor's work beside the device's.

        While the device computes, the next input is taken from `passes` and packed, and the last
        result unpacked. An error, of the device or of `passes`, is raised after the results that
        came before it.

        Parameters
        ----------
        passes : iterable of mapping of str to array
            As `run` takes them.
        progress : callable
            As for `run`.
        """
        source = iter(passes)
        failure: Exception | None = None

        def following() -> _Pass | None:
            nonlocal failure
            try:
                inputs = next(source, None)
                if inputs is None:
                    return None
                one = _Pass(self, inputs, progress)
                one.prepare()
            except Exception as error:  # raised below, after the passes before it
                failure = error
                return None
            return one

        last: _Pass | None = None
        ahead: _Pass | None = None
        current = following()
        while current is not None:

            def meanwhile(last: _Pass | None = last) -> None:
                nonlocal ahead
                if last is not None:
                    last.finish()
                ahead = following()

            try:
                current.compute(meanwhile)
            except VdlaError as error:
                failure, current, ahead = error, None, None
            if last is not None:
                last.finish()
                yield last.outcome
            last, current = current, ahead
        if last is not None:
            last.finish()
            yield last.outcome
        if failure is not None:
            raise failure


class _Pass:
    """One pass over the steps: prepared beside the pass before it, finished beside the next."""

    def __init__(self, session: Session, inputs: Inputs, progress: Progress) -> None:
        self._session = session
        self._progress = progress
        self._images = images_in(session.module, inputs)
        self._staged: list[tuple[int, Bytes]] = []
        self._fetched: dict[int, Bytes] = {}
        self._finished = False
        self.outcome = Outcome(dict(inputs), session.device.config.clock_mhz)
        self._timing = self.outcome.timing
        self._timing.begin = time.perf_counter()
        most = session.device.images * session.module.config.batch
        if session.module.per_image and self._images > most:
            raise DeviceError(
                f"A pass must hold at most the {most} images that the device has memory for, not "
                f"{self._images}: run them in several."
            )

    def prepare(self) -> None:
        """Do what comes before the first program, short of writing to the device's memory."""
        buffers = self._session.module.buffers
        for step in self._session.head:
            if isinstance(step, Pack):
                packed = self._packed(step.buffer, self.outcome.values[step.tensor])
                self._staged.append((buffers[step.buffer].offset, packed))
            else:
                self._execute(step)

    def compute(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Run the programs and what stands between them.

        Parameters
        ----------
        meanwhile : callable
            Called once, while the device computes if it does; the wait follows whatever it raises.
        """
        buffers = self._session.module.buffers
        for offset, packed in self._staged:
            self._write(offset, packed)
        self._staged.clear()
        for step in self._session.body:
            if isinstance(step, Launch):
                self._launch(step, meanwhile)
                meanwhile = _nothing
            elif isinstance(step, Pack):
                packed = self._packed(step.buffer, self.outcome.values[step.tensor])
                self._write(buffers[step.buffer].offset, packed)
            elif isinstance(step, Relayout):
                tensor = buffers[step.source].tensor
                values = self._unpacked(step.source, tensor, self._read(step.source))
                packed = self._packed(step.target, values)
                self._write(buffers[step.target].offset, packed)
            elif isinstance(step, Unpack):
                data = self._read(step.buffer)
                self.outcome.values[step.tensor] = self._unpacked(step.buffer, step.tensor, data)
            else:
                self._execute(step)
        meanwhile()  # beside nothing, where there is no program
        for step in self._session.tail:
            if isinstance(step, Unpack):
                self._fetched[step.buffer] = self._read(step.buffer)

    def finish(self) -> None:
        """Do what comes after the last program, once."""
        if self._finished:
            return
        for step in self._session.tail:
            if isinstance(step, Unpack):
                data = self._fetched[step.buffer]
                self.outcome.values[step.tensor] = self._unpacked(step.buffer, step.tensor, data)
            else:
                self._execute(step)
        self._fetched.clear()
        self._finished = True
        self._timing.end = time.perf_counter()

    def keep(self) -> None:
        """Read every buffer."""
        self.outcome.buffers = {
            index: self._unpacked(index, buffer.tensor, self._read(index))
            for index, buffer in enumerate(self._session.module.buffers)
        }

    def _launch(self, step: Launch, meanwhile: Callable[[], None]) -> None:
        session, module = self._session, self._session.module
        first, last = (module.layers[step.layers[k].layer].name for k in (0, -1))
        self._progress(first if first == last else f"{first} to {last}")
        with self._timing.spending("device"):
            session.device.launch(module.programs[step.program], session.base)
            try:
                meanwhile()
            finally:
                session.device.wait()
        self.outcome.counters.append(session.device.counters())

    def _execute(self, step: _Work) -> None:
        assert isinstance(step, (Execute, HostRun))
        for layer in step.layers if isinstance(step, HostRun) else (step.layer,):
            self._progress(self._session.module.layers[layer].name)
        with self._timing.spending("processor"):
            self.outcome.values |= self._session.host.execute(step, self.outcome.values)

    def _write(self, offset: int, data: Bytes) -> None:
        with self._timing.spending("transfers"):
            self._session.device.write(self._session.base + offset, data)

    def _read(self, index: int) -> Bytes:
        buffer = self._session.module.buffers[index]
        with self._timing.spending("transfers"):
            return self._session.device.read(self._session.base + buffer.offset, buffer.nbytes)

    def _packed(self, index: int, values: Array) -> Bytes:
        with self._timing.spending("processor"):
            return pack(values, self._session.module.buffers[index])

    def _unpacked(self, index: int, tensor: str, data: Bytes) -> Array:
        module = self._session.module
        info = module.tensors[tensor]
        with self._timing.spending("processor"):
            return unpack(data, module.buffers[index], info.shape, info.dtype, self._images)


def _nothing() -> None:
    pass


def _parts(
    steps: tuple[_Work, ...],
) -> tuple[tuple[_Work, ...], tuple[_Work, ...], tuple[_Work, ...]]:
    """Return what can be done before the device is free, what needs it, and what can follow it."""
    begin = 0
    while begin < len(steps) and isinstance(steps[begin], (Execute, HostRun, Pack)):
        begin += 1
    end = len(steps)
    while end > begin and isinstance(steps[end - 1], (Execute, HostRun, Unpack)):
        end -= 1
    return steps[:begin], steps[begin:end], steps[end:]
