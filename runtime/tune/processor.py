"""A candidate on the processor: compiled, timed against the choice by rules, its values checked."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.cpu.pipeline import compile_runs
from vdla.compiler.cpu.template import CpuTemplate, processor_of
from vdla.compiler.reference import Interpreter
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.kept import MOST_KEPT
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import Record
from vdla.errors import DeviceError, ProgramError
from vdla.processor import model_name
from vdla.runtime.native import Library, aligned

__all__ = ["kept", "seconds"]

Array = NDArray[Any]

_FEW, _MANY = 3, 31
"""Samples of a candidate beside the reference: of one that is clearly behind, and of the best."""
_BEHIND = 1.25
"""A candidate whose fastest sample is so many times the best's is not sampled any further."""
_LOOKS = {5: 3.0, 11: 2.0}
"""Samples after which a candidate that is surely behind is sampled no further, and the standard
errors that then lie between its median and the best's."""
_OF_MEDIAN = 1.2533
"""A median's standard error in those of a mean, of a normal distribution: sqrt(pi / 2)."""
_APART = 1.5
"""Interquartile ranges beyond the quartiles from which a sample is discarded (Tukey's fences)."""
_ROUNDING = 3e-5
"""Of the largest value: what rounding float32 sums leaves, Winograd's transformations included."""
_HALF_ROUNDING = 2e-3
_LAST_LEVEL_BYTES = 32 << 20
"""Where the system does not tell."""
_MOST_FLUSHED_BYTES = 64 << 20


def seconds(template: CpuTemplate, point: Point, to_beat: float) -> float:
    """Return what a candidate takes.

    It runs in turn with the kernel that is chosen by rules, of which each process builds one for a
    task. Only the ratio of both is kept: whatever slows the machine down slows both. The ratio's
    median is multiplied by what the analytic estimate gives for the reference, a number that is
    the same in every process and on every day, so that costs of a task may be compared.

    Before each sample the caches are emptied by reading a buffer as large as the last level, and
    the inputs are read: within a network an operator's weights come from memory, as those of the
    others have been read since, and its inputs have just been written.

    Parameters
    ----------
    template : CpuTemplate
    point : mapping
    to_beat : float
        Values are checked of what is faster; what is clearly slower is sampled less.

    Raises
    ------
    ProgramError
        Values differ from those of the reference interpreter.
    DeviceError
        The task is for another processor.
    """
    here = processor_of(template.target)
    if here != template.processor or not here:
        raise DeviceError(
            f"A candidate must be measured on the processor of its task, "
            f"{template.processor or 'which runs no code of its target'}, and this is "
            f"{model_name()}: tune on a machine of that kind."
        )
    reference = _reference(template)
    nominal = template.prior(template.default)
    with _Kernel(template, point, reference.inputs) as kernel:
        cost = nominal * _ratio(kernel, reference.kernel, reference.inputs, to_beat / nominal)
        if cost < to_beat:
            reference.check(kernel.output)
    return cost


def kept(samples: Sequence[float]) -> NDArray[np.float64]:
    """Return samples less those far outside the middle half of them."""
    values: NDArray[np.float64] = np.asarray(samples, np.float64)
    low, high = np.quantile(values, (0.25, 0.75))
    reach = _APART * (high - low)
    inside: NDArray[np.float64] = values[(values >= low - reach) & (values <= high + reach)]
    return inside


class _Kernel:
    """A point's kernel, loaded, on given inputs."""

    def __init__(self, template: CpuTemplate, point: Point, inputs: Sequence[Array]) -> None:
        self.alone = template.threads == 1
        graph = template.graph
        record = Record(template.task, point, 0.0, template.unit)
        code = compile_runs(
            graph,
            [graph.nodes],
            template.target,
            records=Database([record]),
            threads=template.threads,
        )
        (run,) = code.runs
        tensor = graph.tensors[run.outputs[0]]
        self.output = aligned(tensor.shape, str(tensor.dtype))
        constants = aligned(code.constants.shape, "uint8")
        constants[:] = code.constants
        arena = aligned((run.memory.arena_bytes,), "uint8")
        self._library = Library(code.library, threads=template.threads)
        named = dict(zip(graph.inputs, inputs, strict=True))
        given = [named[name] for name in run.inputs]
        self.call = self._library.function(run.name).bind(*given, self.output, constants, arena)
        self.call()

    def __enter__(self) -> _Kernel:
        return self

    def __exit__(self, *error: object) -> None:
        self._library.close()


class _Reference:
    """The kernel by rules, inputs, and the values that they lead to."""

    def __init__(self, template: CpuTemplate) -> None:
        graph = template.graph
        rng = np.random.default_rng(1)
        self.inputs = [
            _drawn(graph.tensors[n].shape, graph.tensors[n].dtype, rng) for n in graph.inputs
        ]
        self.kernel = _Kernel(template, template.default, self.inputs)
        self._graph = graph
        self._expected: Array | None = None
        self.check(self.kernel.output)

    def check(self, output: Array) -> None:
        """Hold values to those of the interpreter.

        Raises
        ------
        ProgramError
            They differ by more than rounding explains.
        """
        (name,) = self._graph.outputs
        if self._expected is None:
            given = dict(zip(self._graph.inputs, self.inputs, strict=True))
            self._expected = Interpreter(self._graph).run(given)[name]
        if output.dtype.kind != "f":
            wrong = int((output != self._expected).sum())
            if wrong:
                raise ProgramError(
                    f"{name} must be equal to the interpreter's, and {wrong} of its "
                    f"{output.size} values differ."
                )
            return
        scale = float(np.abs(self._expected).max())
        apart = float(np.abs(output - self._expected).max())
        most = (_HALF_ROUNDING if output.dtype == np.float16 else _ROUNDING) * scale
        if not apart <= most:
            raise ProgramError(
                f"{name} must be within {most:.2g} of the interpreter's, and it is {apart:.2g} "
                "apart."
            )


_references: dict[str, _Reference] = {}
"""Of the tasks that this process measured last, by their keys."""


def _reference(template: CpuTemplate) -> _Reference:
    """Return the reference of a template's task, built once a process."""
    key = template.task.key
    found = _references.pop(key, None) or _Reference(template)
    while len(_references) >= MOST_KEPT:
        del _references[next(iter(_references))]
    _references[key] = found
    return found


def _drawn(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Array:
    made = aligned(shape, str(dtype))
    if np.dtype(dtype).kind == "f":
        made[...] = rng.standard_normal(shape, np.float32)
    else:
        limits = np.iinfo(dtype)
        made[...] = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return made


def _ratio(kernel: _Kernel, other: _Kernel, inputs: Sequence[Array], to_beat: float) -> float:
    """Return the median of how many times the other's time a kernel takes."""
    ratios: list[float] = []
    while len(ratios) < _MANY:
        order = (kernel, other) if len(ratios) % 2 else (other, kernel)
        taken = {one: _sample(one, inputs) for one in order}
        ratios.append(taken[kernel] / taken[other])
        if len(ratios) == _FEW and min(ratios) > _BEHIND * to_beat:
            break
        if (sure := _LOOKS.get(len(ratios))) and _behind(kept(ratios), to_beat, sure):
            break
    return float(np.median(kept(ratios)))


def _behind(ratios: NDArray[np.float64], to_beat: float, errors: float) -> bool:
    """Tell whether a median lies so many of its standard errors above what is to beat."""
    error = _OF_MEDIAN * ratios.std(ddof=1) / sqrt(len(ratios))
    return bool(np.median(ratios) - errors * error > to_beat)


def _sample(kernel: _Kernel, inputs: Sequence[Array]) -> float:
    """Return the nanoseconds of a call whose weights are in memory and inputs in the cache.

    On one thread, time in which the processor runs others does not count.
    """
    clock = time.thread_time_ns if kernel.alone else time.perf_counter_ns
    _flushed().max()
    for array in inputs:
        array.max()
    begin = clock()
    kernel.call()
    return max(clock() - begin, 1)


@lru_cache(maxsize=1)
def _flushed() -> Array:
    """Return a buffer as large as the last-level cache."""
    sizes = [_LAST_LEVEL_BYTES]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found = re.fullmatch(r"(\d+)K", path.read_text("ascii").strip())
        if found:
            sizes.append(int(found[1]) << 10)
    return np.ones(min(max(sizes[1:] or sizes), _MOST_FLUSHED_BYTES) // 8, np.int64)
