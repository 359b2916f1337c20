"""A candidate on the processor: compiled, timed against the choice by rules, its values checked."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.cpu.pipeline import compile_runs
from vdla.compiler.cpu.template import CpuTemplate, processor_of
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import Record
from vdla.errors import DeviceError
from vdla.processor import model_name
from vdla.runtime.native import Library, aligned

from .expected import Expected, Kept
from .ratio import ratio

__all__ = ["seconds"]

Array = NDArray[Any]

_LAST_LEVEL_BYTES = 32 << 20
"""Where the system does not tell."""
_MOST_FLUSHED_BYTES = 64 << 20


def seconds(template: CpuTemplate, point: Point, to_beat: float) -> float:
    """Return what a candidate takes.

    It runs in turn with the kernel that is chosen by rules, of which each process builds one for a
    task. Only the ratio of both is kept: whatever slows the machine down slows both. The ratio's
    median is multiplied by what the analytic estimate gives for the reference, a number that is
    the same in every process and on every day, so that costs of a task may be compared. The
    reference's own ratio is 1, and it is not run for that.

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
    reference = _references.get(template.task.key, lambda: _Reference(template))
    nominal = template.prior(template.default)
    if point == template.default:  # itself, whose values were checked as it was built
        return nominal
    with _Kernel(template, point, reference.inputs) as kernel:
        cost = nominal * ratio(
            lambda: _sample(kernel, reference.inputs),
            lambda: _sample(reference.kernel, reference.inputs),
            to_beat / nominal,
        )
        if cost < to_beat:
            reference.expected.check(kernel.output)
    return cost


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
        self.expected = Expected(template.graph)
        self.inputs = list(self.expected.inputs.values())
        self.kernel = _Kernel(template, template.default, self.inputs)
        self.expected.check(self.kernel.output)


_references: Kept[_Reference] = Kept()


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
