"""Long reductions: the threads of a block share the terms, and then add up each other's results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from vdla.compiler.te import (
    Expr,
    IterVar,
    Schedule,
    Stage,
    Tensor,
    compute,
    create_schedule,
    reduce_axis,
    select,
)
from vdla.compiler.te.expr import Const, Read, Real, Reduce, binary
from vdla.compiler.te.traverse import map_expr, substitute, walk

__all__ = ["schedule_reduction"]

_THREADS = 128
"""Of a block, at the most."""
_LEAST_TERMS = 32
"""Below that, a thread is done with its own before it has waited for others."""
_MOST_OUTPUTS = 1 << 15
"""Above that, there are enough threads when each computes one."""
_TOGETHER = 32
"""Neighbours in memory that the threads of a warp read at a time."""
_COMBINED = {"sum": "+", "max": "max", "min": "min"}
_NOTHING = {"sum": 0.0, "max": -inf, "min": inf}


def schedule_reduction(output: Tensor) -> Schedule | None:
    """Share the terms of a long reduction among a block's threads; None where that is no help.

    Before: ``for o: for k in 1000: sums[o] += x[o, k]; out[o] = f(sums[o])``. After, for 128
    threads::

        for o (blockIdx.x):
          for t (threadIdx.x):
            for r in 8: own += x[o, 128 * r + t]                            # in a register
            part[t] = own                                                   # shared
          for t in 64 (threadIdx.x): half[t] = part[t] + part[t + 64]       # and so on, to 2
          out[o] = f(of_2[0] + of_2[1])                                     # by one thread

    Threads of a block follow each other along the reduction where its terms lie side by side, and
    along the output elsewhere, several outputs a block then. Source: Harris, Optimizing Parallel
    Reduction in CUDA (2007).

    Parameters
    ----------
    output : Tensor
        A reduction of floats, or of one that it reads element for element.
    """
    sums = _reduction(output)
    if sums is None:
        return None
    shared = _shared(output, sums)
    if shared is None:
        return None
    levels = [_partial(output, sums, shared)]
    while shared.places(levels[-1])[0] > 2:
        levels.append(_halved(levels[-1], shared, sums))
    final = _final(output, sums, levels[-1], shared)
    schedule = create_schedule(final)
    own = schedule.cache_write(levels[0], "register")
    stage = schedule[final]
    element = _fused(stage, stage.axis)
    block, thread = stage.split(element, factor=shared.outputs)
    stage.bind(block, "blockIdx.x")
    stage.bind(thread, "threadIdx.x")
    for level in levels:
        guest = schedule[level]
        guest.set_scope("shared")
        guest.compute_at(stage, thread)
        guest.bind(_fused(guest, guest.axis), "threadIdx.x")
    schedule[own].compute_at(schedule[levels[0]], schedule[levels[0]].leaves[0])
    return schedule


@dataclass(frozen=True)
class _Shared:
    """How a reduction is shared out.

    Attributes
    ----------
    threads : int
        Of those that share the terms of one output; a power of two.
    outputs : int
        Of a block.
    total : int
        Outputs of all blocks.
    along : bool
        Whether neighbours share an output, and not terms.
    """

    threads: int
    outputs: int
    total: int
    along: bool

    def shape(self, threads: int) -> tuple[int, int]:
        """Return the shape of what some threads found: the dimension of neighbours is the last."""
        return (self.total, threads) if self.along else (threads, self.total)

    def places(self, level: Tensor) -> tuple[int, int]:
        """Return how many threads found a level, and how many outputs it is of."""
        first, second = level.shape
        return (second, first) if self.along else (first, second)

    def read(self, level: Tensor, thread: Expr, output: Expr) -> Read:
        """Return what a thread found for an output."""
        return level[(output, thread) if self.along else (thread, output)]


def _reduction(output: Tensor) -> Reduce | None:
    """Return the one reduction that an output is made of, in terms of the output's own axes."""
    if isinstance(output.body, Reduce):
        return output.body
    assert output.body is not None
    own = tuple(axis.var for axis in output.axes)
    reads = {
        part
        for part in walk(output.body)
        if isinstance(part, Read) and part.tensor.body is not None
    }
    if len(reads) != 1:
        return None
    (read,) = reads
    body = read.tensor.body
    if not isinstance(body, Reduce) or read.indices != own:
        return None
    moved = {axis.var: var for axis, var in zip(read.tensor.axes, own, strict=True)}
    return Reduce(body.kind, substitute(body.source, moved), body.axes, body.start)


def _shared(output: Tensor, sums: Reduce) -> _Shared | None:
    extents = [axis.extent for axis in sums.axes]
    constants = [extent.value for extent in extents if isinstance(extent, Const)]
    terms, total = prod(constants), prod(output.shape)
    plain = len(constants) == len(extents) and sums.dtype == "float32" and sums.start is None
    if not plain or terms < _LEAST_TERMS or total > _MOST_OUTPUTS:
        return None
    along = _side_by_side(sums)
    threads = 1 << (min(_THREADS, terms // 2).bit_length() - 1)
    if not along:
        together = _divisor(total, _TOGETHER)
        return _Shared(min(threads, _THREADS // _TOGETHER * 2), together, total, along)
    return _Shared(threads, _divisor(total, _THREADS // threads), total, along)


def _divisor(number: int, most: int) -> int:
    return max(one for one in range(1, most + 1) if number % one == 0)


def _side_by_side(sums: Reduce) -> bool:
    """Tell whether the terms of a reduction lie side by side in a tensor that it reads."""
    last = sums.axes[-1].var
    return any(
        isinstance(part, Read) and any(one is last for one in walk(part.indices[-1]))
        for part in walk(sums.source)
    )


def _partial(output: Tensor, sums: Reduce, shared: _Shared) -> Tensor:
    """Return what each thread makes of its terms, every so many of an output."""
    extents = [axis.extent.value for axis in sums.axes if isinstance(axis.extent, Const)]
    terms = prod(extents)
    step = reduce_axis(-(-terms // shared.threads), "step")

    def found(first: Expr, second: Expr) -> Expr:
        element, thread = (first, second) if shared.along else (second, first)
        term = step * shared.threads + thread
        places = (*_split(element + 0, output.shape), *_split(term, extents))
        axes = (axis.var for axis in (*output.axes, *sums.axes))
        source = substitute(sums.source, dict(zip(axes, places, strict=True)))
        if terms % shared.threads:
            source = select(term.lt(terms), source, Real(_NOTHING[sums.kind], sums.dtype))
        return Reduce(sums.kind, source, (step,))

    return compute(shared.shape(shared.threads), found, "partial")


def _split(flat: Expr, extents: Sequence[int]) -> list[Expr]:
    """Return the indices of an element by its number."""
    found: list[Expr] = []
    for extent in reversed(extents[1:]):
        found.insert(0, flat % extent)
        flat = flat // extent
    return [flat, *found]


def _halved(level: Tensor, shared: _Shared, sums: Reduce) -> Tensor:
    """Return what half as many threads find, each of two."""
    threads, _ = shared.places(level)
    half = threads // 2

    def found(first: Expr, second: Expr) -> Expr:
        element, thread = (first, second) if shared.along else (second, first)
        both = (shared.read(level, thread + more, element + 0) for more in (0, half))
        return binary(_COMBINED[sums.kind], *both)

    return compute(shared.shape(half), found, f"of_{half}")


def _final(output: Tensor, sums: Reduce, level: Tensor, shared: _Shared) -> Tensor:
    """Return the output in terms of what the last two threads found."""
    flat: Expr = Const(0)
    for axis, extent in zip(output.axes, output.shape, strict=True):
        flat = flat * extent + axis
    both = (shared.read(level, Const(k), flat) for k in (0, 1))
    combined = binary(_COMBINED[sums.kind], *both)
    assert output.body is not None

    def visit(part: Expr) -> Expr | None:
        made = isinstance(part, Reduce) or (isinstance(part, Read) and part.tensor.body is not None)
        return combined if made else None

    body = map_expr(output.body, visit)
    return Tensor(output.name, output.shape, output.dtype, output.axes, body)


def _fused(stage: Stage, axes: tuple[IterVar, ...]) -> IterVar:
    element, *rest = axes
    for axis in rest:
        element = stage.fuse(element, axis)
    return element
