"""The default schedule of tensors on a processor: right for any tensor expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from vdla.compiler.ir.linear import affine, is_data, simplify, uses
from vdla.compiler.lower.regions import inline_stages
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import IterVar, Schedule, Stage, Tensor, create_schedule
from vdla.compiler.te.expr import Call, Const, Expr, Read, Reduce, Select, Var
from vdla.compiler.te.ranges import value_range
from vdla.compiler.te.traverse import parts_of, walk

from .inlining import inline_cheap, work_of

__all__ = ["default_schedule", "host_of"]

_ROWS = 4
"""Rows of a tile: as many sums stay in registers for each vector of the last dimension."""
_VECTORS = 2
"""Vectors of a tile: eight sums with the rows, where the least processor has 16 registers."""
_FLAT_VECTORS = 4
"""Vectors of an element-wise step: their operations overlap. Measured on a Zen 3: 1.2 times the
speed of two, and no more with eight."""
_UNROLLED = 4
"""Most steps of a reduction that are repeated instead of looping."""
_PARALLEL_WORK = 1 << 16
"""Operations that are worth handing to other threads: about ten microseconds on one."""
_CHUNKS = 64
"""Iterations of a parallel loop that suffice for any number of threads."""


def default_schedule(outputs: Tensor | Iterable[Tensor], target: Target) -> Schedule:
    """Return loops for tensors and all that they are computed from.

    Cheap stages are computed where they are read. A reduction is computed a tile at a time, in
    registers, inside the loops of what reads its elements or copies them out. The last dimension
    fills vectors where elements that follow each other are read and written, or else the last
    dimension that is reduced over; the first dimensions run on several threads.

    A sum of floats that has a start is added up in the order of its axes; others may not be.

    Parameters
    ----------
    outputs : te.Tensor or iterable of te.Tensor
        What is computed.
    target : Target
        Whose vectors the innermost loops fill.
    """
    schedule = create_schedule(outputs)
    inline_cheap(schedule)
    bodies = {stage.tensor: stage.body for stage in inline_stages(schedule)}
    guests: dict[Tensor, list[Tensor]] = {}
    for tensor in bodies:
        if isinstance(bodies[tensor], Reduce):
            host = host_of(tensor, schedule, bodies)
            inner = tensor
            if host is None:
                inner, host = schedule.cache_write(tensor, "register"), tensor
            guests.setdefault(host, []).append(inner)
    for tensor, body in bodies.items():
        if isinstance(body, Reduce) and tensor not in guests:
            continue
        inside = [(schedule[guest], bodies.get(guest, body)) for guest in guests.get(tensor, ())]
        _arrange(schedule[tensor], None if isinstance(body, Reduce) else body, inside, target)
    return schedule


def host_of(tensor: Tensor, schedule: Schedule, bodies: Mapping[Tensor, Expr]) -> Tensor | None:
    """Return the one tensor that reads a reduction, element for element; None where none does.

    Parameters
    ----------
    tensor : Tensor
        The reduction.
    schedule : Schedule
    bodies : mapping of Tensor to Expr
        Of the schedule's stages, all that is inlined put in.
    """
    if tensor in schedule.outputs:
        return None
    readers = [t for t, body in bodies.items() if tensor in _read(body)]
    if len(readers) != 1 or isinstance(bodies[readers[0]], Reduce):
        return None
    (host,) = readers
    reads = [p for p in walk(bodies[host]) if isinstance(p, Read) and p.tensor is tensor]
    return host if all(_same_place(read, host) for read in reads) else None


def _read(body: Expr) -> set[Tensor]:
    return {part.tensor for part in walk(body) if isinstance(part, Read)}


def _same_place(read: Read, tensor: Tensor) -> bool:
    """Tell whether an element is read where an element of the same index is computed."""
    if read.tensor.shape != tensor.shape:
        return False
    return all(
        axis.extent == Const(1) or simplify(index) == axis.var
        for index, axis in zip(read.indices, tensor.axes, strict=True)
    )


Guest = tuple[Stage, Expr]
"""The stage of a reduction that is computed inside another, and its body with all inlined."""


def _arrange(stage: Stage, body: Expr | None, guests: list[Guest], target: Target) -> None:
    """Order, split and mark the loops of a stage and of the reductions inside it.

    The body is None where the stage copies its one guest.
    """
    places = [k for k, axis in enumerate(stage.axis) if axis.extent != Const(1)]
    if not places:
        if stage.leaves:
            _attach(stage, stage.leaves[-1], guests, target)
        return
    work = prod(stage.tensor.shape) * (1 if body is None else max(1, work_of(body)))
    work += sum(_work(guest, inner) for guest, inner in guests)
    if body is not None and not guests and _flat(stage, body):
        _flatten(stage, body, work, target)
        return
    last = places[-1]
    across = all(_follows(inner, guest.axis[last].var) for guest, inner in guests)
    wide = across and (body is None or _fills_vectors(body, stage.axis[last].var))
    outer = [stage.axis[k] for k in places]
    at: IterVar | None = None
    if wide:
        rows = places[-2] if guests and len(places) > 1 and _settled(guests) else None
        outer = [stage.axis[k] for k in places if k not in (last, rows)]
        outer, at = _tile(stage, body, outer, last, rows, guests, target)
    _parallel(stage, outer, at, work)
    if guests and not wide:
        _attach(stage, stage.leaves[-1], guests, target)
    elif guests:
        assert at is not None
        for guest, _ in guests:
            guest.set_scope("register")
            guest.compute_at(stage, at)


def _tile(
    stage: Stage,
    body: Expr | None,
    outer: list[IterVar],
    last: int,
    rows: int | None,
    guests: list[Guest],
    target: Target,
) -> tuple[list[IterVar], IterVar]:
    """Put a tile innermost; return the loops around it, and that of them which is innermost."""
    lanes = target.lanes(max(_widest(stage, body), *(_bits(g.tensor.dtype) for g, _ in guests), 0))
    length = _extent(stage.axis[last])
    most = lanes * _VECTORS
    column, lane = stage.split(stage.axis[last], factor=min(most, length))
    inner = [lane]
    stage.vectorize(lane)
    if rows is not None:
        row, step = stage.split(stage.axis[rows], factor=min(_ROWS, _extent(stage.axis[rows])))
        stage.unroll(step)
        outer, inner = [*outer, row], [step, lane]
    outer = [*outer, column]
    trivial = [leaf for leaf in stage.leaves if leaf not in outer and leaf not in inner]
    stage.reorder(*trivial, *outer, *inner)
    for guest, _ in guests:
        own = [guest.axis[rows]] if rows is not None else []
        for axis in own:
            guest.unroll(axis)
        guest.vectorize(guest.axis[last])
        free = [a for a in guest.axis if a not in own and a is not guest.axis[last]]
        guest.reorder(*free, *guest.reduce_axis, *own, guest.axis[last])
        _unroll_short(guest)
    return outer, column


def _unroll_short(guest: Stage) -> None:
    """Repeat the innermost steps of a reduction instead of looping, where they are few."""
    steps = 1
    for axis in reversed(guest.reduce_axis):
        if not isinstance(axis.extent, Const) or steps * axis.extent.value > _UNROLLED:
            return
        steps *= axis.extent.value
        guest.unroll(axis)


def _attach(stage: Stage, at: IterVar, guests: list[Guest], target: Target) -> None:
    """Compute reductions an element at a time, in lanes of what they reduce over if they can."""
    for guest, body in guests:
        guest.set_scope("register")
        guest.compute_at(stage, at)
        long = [axis for axis in guest.reduce_axis if axis.extent != Const(1)]
        assert isinstance(body, Reduce)
        ordered = body.dtype.startswith("float") and body.kind == "sum" and body.start is not None
        if not long or ordered or not isinstance(long[-1].extent, Const):
            continue
        if _follows(body, long[-1].var):
            lanes = 2 * _VECTORS * target.lanes(_bits(guest.tensor.dtype))
            _, lane = guest.split(long[-1], factor=min(lanes, _extent(long[-1])))
            guest.vectorize(lane)


def _flatten(stage: Stage, body: Expr, work: int, target: Target) -> None:
    """Make one loop of all dimensions, in vectors."""
    flat = stage.leaves[0]
    for axis in stage.leaves[1:]:
        flat = stage.fuse(flat, axis)
    lanes = _FLAT_VECTORS * target.lanes(_widest(stage, body))
    outer, lane = stage.split(flat, factor=min(lanes, prod(stage.tensor.shape)))
    stage.vectorize(lane)
    if work >= _PARALLEL_WORK:
        stage.parallel(outer)


def _parallel(stage: Stage, outer: list[IterVar], at: IterVar | None, work: int) -> None:
    """Run the first loops on several threads, as many of them as it takes, as one loop."""
    if work < _PARALLEL_WORK or not outer:
        return
    trivial = [leaf for leaf in stage.leaves if leaf not in outer and leaf.extent == Const(1)]
    rest = [leaf for leaf in stage.leaves if leaf not in outer and leaf not in trivial]
    stage.reorder(*trivial, *outer, *rest)
    joined = outer[0]
    for axis in outer[1:]:
        if axis is at or _extent(joined) >= _CHUNKS:
            break
        joined = stage.fuse(joined, axis)
    stage.parallel(joined)


def _flat(stage: Stage, body: Expr) -> bool:
    """Tell whether every element is read where it is written, so that all are one sequence."""
    variables = [axis.var for axis in stage.axis]
    apart = [p for p in walk(body) if isinstance(p, Read) and not _same_place(p, stage.tensor)]
    if any(uses(index, variables) for part in apart for index in part.indices):
        return False
    return not _uses_indices(body, variables)


def _uses_indices(body: Expr, variables: list[Var]) -> bool:
    """Tell whether a value is computed from an index itself."""
    if isinstance(body, Read):
        return False
    if isinstance(body, Var):
        return body in variables
    return any(_uses_indices(part, variables) for part in parts_of(body))


def _fills_vectors(body: Expr, var: Var) -> bool:
    """Tell whether elements along an axis are worth computing in lanes."""
    selects = [part for part in walk(body) if isinstance(part, Select)]
    if any(uses(s.condition, (var,)) and not is_data(s.condition) for s in selects):
        return False
    functions = any(isinstance(p, Call) and p.name != "wrap" for p in walk(body))
    return functions or _follows(body, var)


def _follows(body: Expr, var: Var) -> bool:
    """Tell whether steps along an axis read neighbouring elements, or the same one."""
    return all(_step(part, var) in (0, 1) for part in walk(body) if isinstance(part, Read))


def _step(read: Read, var: Var) -> int | None:
    if not any(uses(index, (var,)) for index in read.indices):
        return 0
    offset: Expr = Const(0)
    for index, extent in zip(read.indices, read.tensor.shape, strict=True):
        offset = offset * extent + index
    parts = affine(offset, (var,))
    step = parts[0].get(var, Const(0)) if parts is not None else None
    return step.value if isinstance(step, Const) else None


def _settled(guests: list[Guest]) -> bool:
    """Tell whether reductions take as many steps for every element."""
    return all(isinstance(a.extent, Const) for guest, _ in guests for a in guest.reduce_axis)


def _work(guest: Stage, body: Expr) -> int:
    steps = [value_range(axis.extent)[1] for axis in guest.reduce_axis]
    return prod(guest.tensor.shape) * prod(steps) * work_of(body)


def _extent(axis: IterVar) -> int:
    assert isinstance(axis.extent, Const)
    return axis.extent.value


def _widest(stage: Stage, body: Expr | None) -> int:
    """Return the bits of the widest values that an element takes, which fill a register's lanes.

    Products of 64 bits between others count as 32: they take two registers for a while.
    """
    own = _bits(stage.tensor.dtype)
    if body is None:
        return own
    return max(own, min(32, max(_bits(dtype) for dtype in _dtypes(body))))


def _dtypes(body: Expr) -> set[str]:
    """Return the dtypes of what a value is computed from, indices left out."""
    found = {body.dtype}
    for part in () if isinstance(body, Read) else parts_of(body):
        found |= _dtypes(part)
    return found


def _bits(dtype: str) -> int:
    return 8 if dtype == "bool" else int(dtype.lstrip("uintfloa"))
