"""What a cost model sees of a schedule: numbers from its loop nest, the same for all operators.

After Chen et al., Learning to Optimize Tensor Programs (2018), section 4: what matters of a loop is
how much each buffer's accesses touch inside it, how often, and how the loop is run. As an operator
has any number of loops, they are read off as curves: the bytes that would come from beyond a near
memory of each of some sizes. A model of such numbers transfers between operators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from math import log2, prod

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.ir.evaluate import Evaluator
from vdla.compiler.ir.linear import variables
from vdla.compiler.ir.stmt import (
    Access,
    Alloc,
    Block,
    Copy,
    For,
    If,
    Intrinsic,
    Move,
    Stmt,
    Store,
    children,
)
from vdla.compiler.te.expr import Const, Expr, Var

__all__ = ["NAMES", "Features", "features"]

Features = NDArray[np.float32]

NEAR_BYTES = tuple(1 << k for k in range(8, 25, 2))
"""Sizes of near memories that the curves are read at."""

_KINDS = ("vectorize", "unroll", "parallel", "vthread")
_SCOPES = ("inp", "wgt", "acc", "register", "global")

NAMES = (
    *(f"{way} beyond {size} B" for way in ("read", "written") for size in NEAR_BYTES),
    *(f"bytes in {scope}" for scope in _SCOPES),
    *(f"iterations {kind}" for kind in _KINDS),
    "stores",
    "intrinsics",
    "copies",
    "bytes copied",
    "bytes a copy",
    "bytes in a row of a copy",
    "hand-overs",
    "loops",
    "accesses of stride 0",
    "accesses of stride 1",
    "accesses of other strides",
)
"""What each feature is; all are binary logarithms of one more than their number."""


@dataclass
class _Loop:
    var: Var
    extent: float
    kind: str


@dataclass
class _Counts:
    numbers: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    read: list[float] = field(default_factory=lambda: [0.0] * len(NEAR_BYTES))
    written: list[float] = field(default_factory=lambda: [0.0] * len(NEAR_BYTES))
    values: Evaluator = field(default_factory=Evaluator)


def features(body: Stmt) -> Features:
    """Return the features of a loop nest, as `NAMES` names them, float32 of that length.

    Parameters
    ----------
    body : Stmt
        As `build_nests` leaves it: virtual threads are still loops.
    """
    counts = _Counts()
    _visit(body, [], counts)
    numbers = counts.numbers
    if numbers["copies"]:
        numbers["bytes a copy"] = numbers["bytes copied"] / numbers["copies"]
        numbers["bytes in a row of a copy"] /= numbers["copies"]
    ways = dict(zip(NAMES, (*counts.read, *counts.written), strict=False))
    values = [ways.get(name, numbers.get(name, 0.0)) for name in NAMES]
    return np.array([log2(1 + value) for value in values], np.float32)


def _visit(stmt: Stmt, loops: list[_Loop], counts: _Counts) -> None:
    numbers = counts.numbers
    if isinstance(stmt, For):
        extent = _mean(stmt.extent, loops, counts)
        numbers["loops"] += 1
        if stmt.kind in _KINDS:
            numbers[f"iterations {stmt.kind}"] += extent
        _visit(stmt.body, [*loops, _Loop(stmt.var, extent, stmt.kind)], counts)
        return
    if isinstance(stmt, Alloc):
        scope = stmt.buffer.scope if stmt.buffer.scope in _SCOPES else "global"
        numbers[f"bytes in {scope}"] += stmt.buffer.total * _bytes(stmt.buffer.dtype)
    if isinstance(stmt, Block) and len({type(one) for one in map(_first, stmt.stmts)}) > 1:
        numbers["hand-overs"] += _trips(loops)
    if isinstance(stmt, (Alloc, Block, If)):
        for child in children(stmt):
            _visit(child, loops, counts)
        return
    if isinstance(stmt, Copy):
        inner = [*loops, *(_Loop(v, _mean(e, loops, counts), "serial") for v, e in stmt.loops)]
        numbers["copies"] += _trips(loops)
        numbers["bytes copied"] += _trips(inner) * _bytes(stmt.target.buffer.dtype)
        row = prod(loop.extent for loop in _contiguous(stmt, inner[len(loops) :], counts))
        numbers["bytes in a row of a copy"] += (
            _trips(loops) * row * _bytes(stmt.target.buffer.dtype)
        )
        loops = inner
    elif isinstance(stmt, Store):
        numbers["stores"] += _trips(loops)
    else:
        numbers["intrinsics"] += _trips(loops)
    for access, scalars, write in _accesses(stmt):
        _touch(access, scalars, loops, counts, write=write)


def _first(stmt: Stmt) -> Stmt:
    while inside := children(stmt):
        stmt = inside[-1]
    return stmt


def _accesses(stmt: Stmt) -> Iterator[tuple[Access, int, bool]]:
    """Yield the places of a statement, the scalars from each on, and whether they are written."""
    if isinstance(stmt, Store):
        yield stmt.target, 1, True
        yield from ((load, 1, False) for load in stmt.loads)
    elif isinstance(stmt, Copy):
        yield stmt.target, 1, True
        yield stmt.source, 1, False
    elif isinstance(stmt, Move):
        yield stmt.output, stmt.size, True
        yield stmt.operand, stmt.size, False
    elif isinstance(stmt, Intrinsic):
        yield stmt.output, prod(stmt.intrin.declaration.shape), True
        for access, tensor in zip(stmt.operands, stmt.intrin.operands, strict=True):
            yield access, prod(tensor.shape), False


def _touch(
    access: Access, scalars: int, loops: list[_Loop], counts: _Counts, *, write: bool
) -> None:
    """Add what an access brings from beyond each near memory."""
    steps = _steps(access.offset, loops, counts)
    if loops:
        stride = steps[-1]
        kind = "0" if stride == 0 else "1" if abs(stride) == 1 else None
        name = f"accesses of stride {kind}" if kind else "accesses of other strides"
        counts.numbers[name] += _trips(loops)
    if access.buffer.scope != "global":
        return
    size = _bytes(access.buffer.dtype)
    inside, span, touched = [float(scalars * size)], float(scalars), float(scalars)
    for loop, step in zip(reversed(loops), reversed(steps), strict=True):
        if step:
            span += abs(step) * (loop.extent - 1)
            touched *= loop.extent
        inside.append(min(span, touched) * size)
    trips = _trips(loops)
    outside = [trips]
    for loop in reversed(loops):
        outside.append(outside[-1] / loop.extent)
    curve = counts.written if write else counts.read
    for k, near in enumerate(NEAR_BYTES):
        level = max((n for n, held in enumerate(inside) if held <= near), default=0)
        curve[k] += inside[level] * outside[level]


def _contiguous(copy: Copy, loops: list[_Loop], counts: _Counts) -> list[_Loop]:
    """Return the loops of a copy whose elements follow one another in memory."""
    far = copy.source if copy.source.buffer.scope == "global" else copy.target
    steps = _steps(far.offset, loops, counts)
    found, expected = [], 1.0
    for loop, step in zip(reversed(loops), reversed(steps), strict=True):
        if loop.extent == 1:
            continue
        if step != expected:
            break
        found.append(loop)
        expected *= loop.extent
    return found


def _trips(loops: list[_Loop]) -> float:
    return prod(loop.extent for loop in loops)


def _bytes(dtype: str) -> int:
    return np.dtype(dtype).itemsize


def _mean(extent: Expr, loops: list[_Loop], counts: _Counts) -> float:
    """Return an extent's mean over the iterations of the loops that it depends on."""
    if isinstance(extent, Const):
        return max(1.0, extent.value)
    used = variables(extent)
    function = counts.values.compile(extent)
    mine = [loop for loop in loops if loop.var in used]
    slots = [counts.values.slot(loop.var) for loop in mine]
    env = [0] * len(counts.values.env)
    total = count = 0
    for place in product(*(range(round(loop.extent)) for loop in mine)):
        for slot, at in zip(slots, place, strict=True):
            env[slot] = at
        total += function(env)
        count += 1
    return max(1.0, total / count)


def _steps(offset: Expr, loops: list[_Loop], counts: _Counts) -> list[float]:
    """Return by how much an offset moves with each loop, from where all begin."""
    used = variables(offset)
    function = counts.values.compile(offset)
    env = [0] * len(counts.values.env)
    start = function(env)

    def step(var: Var) -> int:
        slot = counts.values.slot(var)
        env[slot] = 1
        moved = function(env) - start
        env[slot] = 0
        return moved

    return [step(loop.var) if loop.var in used else 0 for loop in loops]
