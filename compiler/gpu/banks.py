"""Banks of shared memory: the passes that a warp's accesses take, counted thread by thread.

Shared memory lies in 32 banks, 4 bytes of each following those of the one before, and a bank gives
one word of 4 bytes to a pass (NVIDIA, CUDA C++ Programming Guide, shared memory, from compute
capability 5.0 on). Threads that want the same word share it. A warp of 32 threads that reads 32
bits each is served at once, one of 64 bits by halves, one of 128 bits by quarters. So a pass is a
half or a quarter as large there, and each takes as many passes as the bank that is asked for the
most words. NVIDIA's profilers call passes wavefronts. Hardware may join quarters that read the same
words; that is not documented, and not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from itertools import product
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.ir.linear import const_bounds, is_data, simplify, sum_of, variables
from vdla.compiler.ir.stmt import Access, Buffer, Intrinsic, Store
from vdla.compiler.lower.regions import SHARED
from vdla.compiler.targets.gpu import Kernel
from vdla.compiler.targets.gpu.conditions import differences
from vdla.compiler.targets.gpu.counting import evaluated
from vdla.compiler.targets.gpu.kernel import (
    BLOCK,
    THREAD,
    Barrier,
    Guard,
    Loop,
    Sequence,
    Statement,
    accesses,
    walk,
)
from vdla.compiler.te.expr import Const, Expr, Var
from vdla.compiler.te.traverse import substitute

from .network import GpuNetwork

__all__ = ["Passes", "Request", "network_passes", "passes_of", "passes_of_warp", "requests_of"]

BANKS, WORD_BYTES, WARP = 32, 4, 32
_WIDEST_BYTES = 16
"""That a thread reads or writes at a time."""

_Array = NDArray[np.int64]


@dataclass(frozen=True)
class Passes:
    """What the warps of a grid do with shared memory.

    Attributes
    ----------
    requests : int
        Instructions of warps that read or write it.
    wavefronts : int
        Passes over the banks that they take.
    conflicts : int
        Those of them that are there because threads want different words of a bank.
    """

    requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, count: int) -> Passes:
        return Passes(*(count * n for n in astuple(self)))


@dataclass(frozen=True)
class Request:
    """An access of all threads of a block, at every step of the loops around it.

    Attributes
    ----------
    buffer : Buffer
    offset : Expr
        Of the first element.
    size : int
        Bytes of a thread.
    loops : tuple of Loop
        Around it, outermost first.
    conditions : tuple of Expr
        Of the threads that take part.
    writes : bool
    """

    buffer: Buffer
    offset: Expr
    size: int
    loops: tuple[Loop, ...]
    conditions: tuple[Expr, ...]
    writes: bool = False


def passes_of(kernel: Kernel) -> Passes:
    """Return what a call of a kernel does with shared memory, each block doing as the first does.

    What warps load as matrices is left out: which thread reads what is the hardware's.
    """
    each = (_passes(request, kernel) for request in requests_of(kernel.body))
    return sum(each, Passes()) * prod(kernel.grid)


def network_passes(made: GpuNetwork) -> Passes:
    """Return what all calls of a network do with shared memory."""
    known = {id(kernel): passes_of(kernel) for kernel in made.kernels}
    return sum((known[id(call.kernel)] for call in made.calls), Passes())


def passes_of_warp(addresses: _Array, size: int) -> Passes:
    """Return what requests of warps take.

    Eight floats a thread, read four at a time: threads 0 to 7 of a quarter read from words 0, 8, 16
    and so on to 56, four words each, in banks 0 to 3, 8 to 11, 16 to 19, 24 to 27, and the same
    again: two passes. Four floats a thread, they read words 0 to 31: one pass.

    Parameters
    ----------
    addresses : array of int, (n, 32)
        Bytes from the start of shared memory, a multiple of `size`; below 0 for a thread that takes
        no part.
    size : int
        Bytes that each thread reads or writes: 1, 2, 4, 8 or 16.
    """
    words = max(1, size // WORD_BYTES)
    first = np.where(addresses < 0, -1, addresses // WORD_BYTES)[..., None]
    every = np.where(first < 0, -1, first + np.arange(words))
    groups = np.sort(every.reshape(-1, WARP), axis=-1)
    fresh = groups >= 0
    fresh[:, 1:] &= groups[:, 1:] != groups[:, :-1]
    wanted = np.zeros((len(groups), BANKS), np.int64)
    number, place = np.nonzero(fresh)
    np.add.at(wanted, (number, groups[number, place] % BANKS), 1)
    most = wanted.max(axis=-1)
    served = int((most > 0).sum())
    requests = int((addresses >= 0).any(axis=-1).sum())
    return Passes(requests, int(most.sum()), int(most.sum()) - served)


def requests_of(stmt: Statement) -> Iterator[Request]:
    """Yield the accesses of shared memory, as wide as a compiler makes them.

    In loops that are written out an element is read once, and up to four elements that follow each
    other are read at a time, 128 bits at the most, from multiples of their length on. What is
    written is as wide as the vectors of a kernel.
    """
    yield from _requests(stmt, (), (), ())


def _requests(
    stmt: Statement, loops: tuple[Loop, ...], out: tuple[Loop, ...], conditions: tuple[Expr, ...]
) -> Iterator[Request]:
    """Yield the accesses of a statement, inside loops of which the last ones are written out."""
    if isinstance(stmt, Sequence):
        for child in stmt.stmts:
            yield from _requests(child, loops, out, conditions)
    elif isinstance(stmt, Guard):
        yield from _requests(stmt.body, (*loops, *out), (), (*conditions, *stmt.conditions))
    elif isinstance(stmt, Loop):
        if _written_out(stmt):
            yield from _requests(stmt.body, loops, (*out, stmt), conditions)
        else:
            yield from _requests(stmt.body, (*loops, *out, stmt), (), conditions)
    elif isinstance(stmt, Store):
        reads = [(load, 1) for load in stmt.loads if load.buffer.scope == SHARED]
        yield from _read(reads, loops, out, conditions)
        if stmt.target.buffer.scope == SHARED:
            vector = [loop for loop in out if loop.vector]
            around = (*loops, *(loop for loop in out if not loop.vector))
            for one in _read([(stmt.target, 1)], around, tuple(vector), conditions):
                yield replace(one, writes=True)
    elif isinstance(stmt, Intrinsic):
        operands = zip(stmt.operands, stmt.intrin.operands, strict=True)
        reads = [(a, tensor.shape[-1]) for a, tensor in operands if a.buffer.scope == SHARED]
        yield from _read(reads, loops, out, conditions)


def _written_out(loop: Loop) -> bool:
    if not (loop.unroll or loop.vector) or not isinstance(loop.extent, Const):
        return False
    inside = any(isinstance(part, Barrier) for part in walk(loop.body))
    return loop.vector or not (inside or accesses(loop.body, SHARED)[1])


def _read(
    reads: list[tuple[Access, int]],
    loops: tuple[Loop, ...],
    out: tuple[Loop, ...],
    conditions: tuple[Expr, ...],
) -> Iterator[Request]:
    """Yield what is read in loops that are written out: some elements of an array each time."""
    found: dict[tuple[Buffer, Expr, int], set[int]] = defaultdict(set)
    for access, elements in reads:
        size = np.dtype(access.buffer.dtype).itemsize
        own = [loop for loop in out if loop.var in variables(access.offset)]
        steps = [range(loop.extent.value) for loop in own if isinstance(loop.extent, Const)]
        for at in product(*steps):
            values = {loop.var: Const(k) for loop, k in zip(own, at, strict=True)}
            offset = simplify(substitute(access.offset, values))
            constant = sum_of(offset)[1]
            start = simplify(offset - constant)
            found[access.buffer, start, elements * size].add(constant * size)
    for (buffer, start, size), places in found.items():
        element = np.dtype(buffer.dtype).itemsize
        aligned = gcd(*(factor * element for factor in sum_of(start)[0].values())) or _WIDEST_BYTES
        for place, taken in _joined(places, size, aligned):
            yield Request(buffer, simplify(start + place // element), taken, loops, conditions)


def _joined(places: set[int], size: int, aligned: int) -> Iterator[tuple[int, int]]:
    """Yield where to read and how many bytes, the widest first: four elements at the most.

    Of elements of 4 bytes at 0, 4, 8, 12, 16, 20 and 28, in an array that is aligned to 16 bytes:
    16 bytes at 0, 8 at 16, and 4 at 28.
    """
    left = set(places)
    wide = min(_WIDEST_BYTES, 4 * size)
    while wide > size:
        for place in sorted(left) if aligned % wide == 0 else ():
            parts = set(range(place, place + wide, size))
            if place % wide == 0 and parts <= left:
                left -= parts
                yield place, wide
        wide //= 2
    for place in sorted(left):
        yield place, size


def _passes(request: Request, kernel: Kernel) -> Passes:
    """Return what a block's warps take, at all steps of the loops around together."""
    size = np.dtype(request.buffer.dtype).itemsize
    loops = [(loop.var, loop.extent) for loop in request.loops]
    counts = {var: const_bounds(var, (*kernel.places, *loops))[1] + 1 for var, _ in loops}
    facts = [d for c in request.conditions for d in differences(c)]
    facts += [extent - var - 1 for var, extent in loops if not isinstance(extent, Const)]
    bound = frozenset[Var]().union(*map(variables, facts))
    offset = Const(0) if is_data(request.offset) else request.offset
    # A step that moves all threads alike, by whole words, turns the banks round.
    for atom, factor in sum_of(offset)[0].items():
        moved = simplify(offset - atom * factor)
        alike = isinstance(atom, Var) and atom in counts and atom not in bound
        if alike and factor * size % WORD_BYTES == 0 and atom not in variables(moved):
            offset = moved
    used = [var for var in counts if var in bound | variables(offset)]
    lanes, inside = _lanes(kernel.block)
    steps = np.ix_(*(np.arange(counts[var]) for var in used)) if used else ()
    values: dict[Var, Any] = {var: step[..., None] for var, step in zip(used, steps, strict=True)}
    values |= {**lanes, **dict.fromkeys(BLOCK, np.int64(0))}
    takes: Any = inside
    for fact in facts:
        takes = takes & (evaluated(fact, values) >= 0)
    shape = (*(counts[var] for var in used), len(inside))
    addresses = np.where(takes, evaluated(offset, values) * size, -1)
    passes = passes_of_warp(np.broadcast_to(addresses, shape).reshape(-1, WARP), request.size)
    return passes * prod(count for var, count in counts.items() if var not in used)


def _lanes(block: tuple[int, int, int]) -> tuple[Mapping[Var, _Array], NDArray[np.bool_]]:
    """Return where the threads of whole warps stand, x the fastest, and which of them there are."""
    x, y, z = block
    number = np.arange(-(-x * y * z // WARP) * WARP)
    places = (number % x, number // x % y, number // (x * y))
    return dict(zip(THREAD, places, strict=True)), number < x * y * z
