"""A network tuned from end to end: its tasks searched, and their schedules chosen together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.arguments import whole_number
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.task import SIMULATED, WRONG
from vdla.config import PYNQ_Z1, Config
from vdla.errors import InputError, ProgramError
from vdla.processor import available_cores
from vdla.runtime import api
from vdla.runtime.devices import DRIVEN, HARDWARE, PROCESSOR
from vdla.runtime.gpu import open_gpu
from vdla.runtime.inputs import random_input
from vdla.runtime.progress import Progress

from .attempt import Measure
from .attempts import Attempts
from .jobs import accelerator_jobs, gpu_jobs, processor_jobs
from .log import Log
from .pool import Pool
from .runners import open_runner
from .together import Together, Whole, choose_together, fastest_of, whole_cycles
from .tuning import METHODS, Job, Tuning, search_jobs

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph
    from vdla.runtime.network import Network

__all__ = ["Settings", "Tuned", "tune"]

_SECONDS, _WHOLE_SECONDS = 60.0, 600.0
"""Longest time of a candidate and of a whole network, building included."""

_SAMPLES = 21
"""Of whole networks on the processor, with and without what was found, in turn."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a network is tuned.

    Attributes
    ----------
    device : str
        ``cycle``, ``rtl``, ``pynq``, ``pynq@HOST``, ``cpu``: this machine's processor; or a GPU,
        ``opencl`` or ``cuda``, with a part of its name ``opencl:NAME``.
    config : Config
        The accelerator's.
    bind, place : mapping, optional
    vthreads : int
        As `vdla.compile` takes them.
    threads : int
        That a network on the processor runs on.
    method : str
        Of `vdla.runtime.tune.tuning.METHODS`.
    trials : int
        Candidates of each task, at most.
    minutes : float, optional
        After which no batch begins.
    batch : int
        Candidates proposed at a time.
    together : int
        Schedules of a task that are tried in the whole network.
    workers : int, optional
        Processes of this machine, by default one a core; one on a GPU, which they would share.
    scheduler : str, optional
        A Dask scheduler's address instead.
    seed : int
    """

    device: str = "cycle"
    config: Config = PYNQ_Z1
    bind: Mapping[str, int] | None = None
    place: Mapping[str, str] | None = None
    vthreads: int = 2
    threads: int = 1
    method: str = "ranking"
    trials: int = 64
    minutes: float | None = None
    batch: int = 8
    together: int = 3
    workers: int | None = None
    scheduler: Any = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise InputError(
                f"method must be one of {', '.join(METHODS)}, not {self.method!r}: choose one."
            )
        if not isinstance(self.config, Config):
            raise InputError(
                f"config must be a vdla.Config, not {self.config!r}: give one, such as "
                "vdla.PYNQ_Z1."
            )
        for name in ("vthreads", "threads", "trials", "batch", "together"):
            whole_number(name, getattr(self, name), "leave it out for the default")
        if type(self.seed) is not int or self.seed < 0:
            raise InputError(f"seed must be an integer of at least 0, not {self.seed!r}: give one.")
        if self.workers is not None:
            whole_number("workers", self.workers, "leave it out for one a core")
        name, at, host = str(self.device).partition("@")
        remote = bool(host) and name in HARDWARE
        known = name in (*SIMULATED, *HARDWARE, PROCESSOR) or self.gpu is not None
        if not known or (at and not remote and self.gpu is None):
            raise InputError(
                "Candidates must be measured on cycle, rtl, pynq, pynq@HOST, cpu, opencl or cuda, "
                f"not {self.device!r}: name one of these."
            )
        number = type(self.minutes) in (int, float)
        if self.minutes is not None and not (number and self.minutes >= 0):
            raise InputError(
                f"minutes must be a number of at least 0, not {self.minutes!r}: leave it out for "
                "no limit."
            )
        if self.by_clock and self.place:
            where = "the processor" if self.device == PROCESSOR else "the GPU"
            raise InputError(
                f"place must be left out on the device {self.device}, where everything is on "
                f"{where}, and it is {dict(self.place)!r}."
            )

    @property
    def name(self) -> str:
        """The device's, as records have it: not which of several it is."""
        return self.device.partition("@")[0] if self.gpu is None else self.gpu[0]

    @property
    def by_clock(self) -> bool:
        """Whether there is no accelerator: costs are seconds, and kernels do not overlap."""
        return self.device == PROCESSOR or self.gpu is not None

    @property
    def gpu(self) -> tuple[str, str | None] | None:
        """The GPU that is measured on, as `open_gpu` takes it; None elsewhere."""
        kind, _, name = str(self.device).partition(":")
        return (kind, name or None) if kind in DRIVEN else None


@dataclass(frozen=True)
class Tuned:
    """What tuning a network came to.

    Attributes
    ----------
    search : Tuning
        Its tasks and what was found for each.
    records : Path
        Where all measurements are; `vdla.compile` takes them.
    known : int
        Records that were there before.
    before, after : float or None
        Cycles of the whole network, or seconds on a processor or a GPU, as it is compiled without
        and with the records; None where it was interrupted.
    whole : Together or None
        What was chosen by the cycles of the whole network.
    """

    search: Tuning
    records: Path
    known: int
    before: float | None = None
    after: float | None = None
    whole: Together | None = None

    @property
    def gain(self) -> float | None:
        """How many times as fast the network is."""
        return self.before / self.after if self.before and self.after else None


def tune(
    model: str | Path | Graph,
    records: str | Path,
    settings: Settings | None = None,
    *,
    resume: bool = False,
    told: Callable[[Tuning], None] = lambda tuning: None,
    progress: Progress = lambda done, total, doing: None,
) -> Tuned:
    """Search for faster schedules of a network's operators.

    Whatever is measured is in the file of records as soon as it is there. What is interrupted from
    the keyboard returns what it has found.

    Parameters
    ----------
    model : str, Path or Graph
        As `vdla.compile` takes it.
    records : str or Path
        A file, JSON lines.
    settings : Settings, optional
    resume : bool
        Whether a file with records is gone on with, or refused.
    told : callable
        Called with the state after each candidate.
    progress : callable
        Called with the steps done, the steps in all and what is being worked on, before and after
        the search.

    Raises
    ------
    InputError
        The file holds records and it is not to be gone on with, nothing of the network can be
        tuned, or there is no such device.
    DeviceError
        A batch fails whole; what was measured before is kept.
    ProgramError
        The tuned network computes something else than the interpreter.
    """
    how, log = settings or Settings(), Log(Path(records))
    known = _known(log, resume=resume)
    deadline = inf if how.minutes is None else time.monotonic() + 60 * how.minutes
    jobs, graph = _jobs(model, how, progress)
    with closing(_runner(how)) as runner:
        found = search_jobs(
            jobs,
            runner,
            log,
            device=how.name,
            method=how.method,
            trials=how.trials,
            batch=how.batch,
            deadline=deadline,
            seed=how.seed,
            told=told,
        )
        if not found.interrupted and not how.by_clock:
            _verify(found, runner, log, how)
    result = Tuned(found, log.path, known)
    if found.interrupted or not (found.trials or known):
        return result
    try:
        if how.by_clock:
            return _timed(result, graph, how)
        return _together(result, graph, how, log, deadline, progress)
    except KeyboardInterrupt:
        found.interrupted = True
        return result


def _known(log: Log, *, resume: bool) -> int:
    """Return how many records there are to go on from."""
    read = log.read()
    if not resume and (read.records or read.foreign):
        raise InputError(
            f"Records of a run are kept in a file of their own, and {log.path} holds "
            f"{len(read.records) + read.foreign:,} lines already: resume from them with --resume, "
            "or name another file with --records."
        )
    return len(read.records)


def _jobs(model: str | Path | Graph, how: Settings, progress: Progress) -> tuple[list[Job], Graph]:
    """Return a network's tasks, and its graph."""
    if how.gpu is not None:
        from .gpu import machine_of

        return gpu_jobs(model, machine_of(open_gpu(*how.gpu)), bind=how.bind)
    if how.device == PROCESSOR:
        from vdla.compiler.targets.cpu import host_target

        return processor_jobs(model, host_target(), how.threads, bind=how.bind)
    return accelerator_jobs(
        model,
        how.config,
        bind=how.bind,
        place=how.place,
        vthreads=how.vthreads,
        progress=progress,
    )


def _runner(how: Settings) -> Attempts | Pool:
    if not how.by_clock:
        return open_runner(
            how.device,
            how.config,
            seconds=_SECONDS,
            workers=how.workers,
            scheduler=how.scheduler,
        )
    measure, workers = _measure(how)
    if how.scheduler is not None:
        return Pool(measure, _SECONDS, workers=how.workers, scheduler=how.scheduler)
    return Attempts(measure, how.workers or workers, _SECONDS)


def _measure(how: Settings) -> tuple[Measure, int]:
    """Return what measures candidates by the clock, and how many may be measured at a time."""
    if how.gpu is not None:
        from .gpu import OnGpu

        return OnGpu(*how.gpu), 1
    from .processor import seconds

    return seconds, max(1, available_cores() // how.threads)


def _verify(found: Tuning, runner: Attempts | Pool, log: Log, how: Settings) -> None:
    """Check the values of what may be chosen: the search has compared those of what led."""
    for job in found.jobs:
        if job.search is None:
            continue
        checked = fastest_of(job, how.together)
        for k, outcome in runner.run(job.template, [record.point for record in checked], inf):
            if outcome.status == WRONG:
                wrong = replace(checked[k], cost=None, status=WRONG, reason=outcome.reason)
                log.append([wrong])
                job.search.found.drop(wrong)


def _together(
    result: Tuned, graph: Graph, how: Settings, log: Log, deadline: float, progress: Progress
) -> Tuned:
    """Choose schedules by the cycles of the whole network, and check what it computes."""
    whole = Whole(graph, how.config, how.vthreads, dict(how.place or {}))
    with Attempts(whole_cycles, how.workers or available_cores(), _WHOLE_SECONDS) as runner:
        chosen = choose_together(
            whole,
            result.search.jobs,
            runner,
            earlier=log.read().records,
            most=how.together,
            deadline=deadline,
            told=progress,
        )
    progress(1, 1, "checking every layer")
    network = api.compile(
        graph,
        config=how.config,
        place=how.place,
        vthreads=how.vthreads,
        records=Database(chosen.chosen.values()),
        cache=False,
    )
    run = network.run(_images(network), device="cycle", check=True)
    if not run.bit_exact:
        raise ProgramError(
            f"A tuned network must compute what the interpreter does, and {run.first_difference} "
            f"differs: what {log.path} holds was not chosen for it; report this"
        )
    log.append(chosen.chosen.values())
    return Tuned(
        result.search, log.path, result.known, chosen.before, float(run.cycles or 0), chosen
    )


def _timed(result: Tuned, graph: Graph, how: Settings) -> Tuned:
    """Time the network without an accelerator, with and without the records, in turn."""
    from statistics import median

    target, device = how.gpu or (PROCESSOR, None)
    options: Any = {"target": target, "device": device, "threads": how.threads, "cache": False}
    both = [api.compile(graph, records=file, **options) for file in (None, result.records)]
    images = _images(both[0])
    ratios: list[float] = []
    plain: list[float] = []
    with ExitStack() as stack:
        for network in both:
            stack.enter_context(closing(network.to(how.device, threads=how.threads)))
            network(images)
        for _ in range(_SAMPLES):
            taken = [_seconds(network, images) for network in both]
            plain.append(taken[0])
            ratios.append(taken[1] / taken[0])
    seconds = median(plain)
    return Tuned(result.search, result.records, result.known, seconds, seconds * median(ratios))


def _seconds(network: Network, images: Any) -> float:
    begin = time.perf_counter()
    network(images)
    return time.perf_counter() - begin


def _images(network: Network) -> dict[str, Any]:
    return {name: random_input(info.shape, info.dtype) for name, info in network.inputs.items()}
