"""Which part of each tensor its readers need at the loop where it is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vdla.compiler.ir.linear import const_bounds, lookup, relax, simplify, uses
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.te.axes import THREAD_AXES
from vdla.compiler.te.expr import Const, Expr, Read, Var, as_expr, maximum, minimum
from vdla.compiler.te.relations import Fuse, Split
from vdla.compiler.te.schedule import Schedule
from vdla.compiler.te.stage import Attach, Stage
from vdla.compiler.te.tensor import IterVar, Tensor
from vdla.compiler.te.traverse import map_expr, substitute, walk
from vdla.errors import LoweringError

__all__ = ["SHARED", "Region", "Regions", "infer_regions", "inline_stages"]

SHARED = "shared"
"""Scope of what the threads of a block compute together."""


@dataclass(frozen=True)
class Region:
    """The box of one stage that is computed at a time, and its loops.

    Attributes
    ----------
    mins, extents : tuple of Expr
        One a dimension, in terms of the loops outside.
    loop_extents : dict of IterVar to Expr
        Extent of every loop of the stage, splits and fusions included.
    values : dict of Var to Expr
        Original axis variable to its value in terms of loop variables.
    outside : tuple of (Var, Expr)
        Enclosing loops of other stages with their extents, outermost first; those of threads that
        share the stage are left out.
    inside : tuple of Expr
        Which elements the tensor has, in terms of the stage's own axes, where whole tiles reach
        past its end.
    """

    mins: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    loop_extents: dict[IterVar, Expr]
    values: dict[Var, Expr]
    outside: tuple[tuple[Var, Expr], ...]
    inside: tuple[Expr, ...] = ()


Regions = dict[Stage, Region]


def inline_stages(schedule: Schedule) -> list[Stage]:
    """Put inlined bodies into their readers and return copies of the stages that remain.

    Before: ``b[i] = a[i] + 1`` (inlined), ``c[i] = b[i] * 2``. After: ``c[i] = (a[i] + 1) * 2``.

    Raises
    ------
    LoweringError
        An output is inlined or computed inside another stage, or a stage inside an inlined one.
    """
    inlined: dict[Tensor, Stage] = {}
    made: dict[Stage, Stage] = {}

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and expr.tensor in inlined:
            stage = inlined[expr.tensor]
            indices = [map_expr(index, visit) for index in expr.indices]
            return substitute(
                stage.body, {a.var: i for a, i in zip(stage.axis, indices, strict=True)}
            )
        return None

    for stage in schedule.stages:
        if stage.tensor in schedule.outputs and (stage.inlined or stage.attach is not None):
            raise LoweringError(
                f"{stage.name} is an output and must be computed whole: use compute_root."
            )
        made[stage] = replace(stage, body=map_expr(stage.body, visit))
        if stage.inlined:
            inlined[stage.tensor] = made[stage]
    kept = [stage for stage in made.values() if not stage.inlined]
    for stage in kept:
        if stage.attach is not None:
            stage.attach = _reattached(stage, made)
    return kept


def _reattached(stage: Stage, made: dict[Stage, Stage]) -> Attach:
    assert stage.attach is not None
    host = made.get(stage.attach.stage)
    if host is None or host.inlined:
        raise LoweringError(
            f"{stage.name} is computed at {stage.attach.axis.name} of {stage.attach.stage.name}, "
            "which is inlined or no longer a stage: attach it to a stage that is computed."
        )
    return Attach(host, stage.attach.axis)


def infer_regions(stages: list[Stage]) -> Regions:
    """Return the region of every stage, consumers before producers.

    Raises
    ------
    LoweringError
        A stage is attached where not all its readers are.
    """
    regions: Regions = {}
    reads = [(stage, stage.reads()) for stage in stages]
    for stage in reversed(stages):
        readers = [other for other, read in reads if stage.tensor in read]
        regions[stage] = _region(stage, readers, regions)
    return regions


def _outside(stage: Stage, regions: Regions) -> tuple[tuple[Var, Expr], ...]:
    if stage.attach is None:
        return ()
    host, axis = stage.attach.stage, stage.attach.axis
    if axis not in host.leaves:
        raise LoweringError(
            f"{stage.name} is attached at {axis.name}, which is no longer a loop of {host.name}: "
            "call compute_at after the last split, fuse or tensorize of the consumer."
        )
    region = regions[host]
    inner = host.leaves[: host.leaves.index(axis) + 1]
    loops = region.outside + tuple((leaf.var, region.loop_extents[leaf]) for leaf in inner)
    if stage.scope != SHARED:
        return loops
    threads = _threads_around(stage)
    shared = tuple((var, extent) for var, extent in loops if var not in threads)
    for var, extent in shared:
        if uses(extent, threads):
            raise LoweringError(
                f"{stage.name} is computed by all threads of a block, and loop {var.name} around "
                f"it takes {expr_text(extent)} steps, not as many in each: compute it further out, "
                "or split by a factor that divides."
            )
    return shared


def _threads_around(stage: Stage) -> set[Var]:
    """Return the loops around a stage that run as threads of one block, virtual ones too."""
    found: set[Var] = set()
    axes = (*THREAD_AXES, "vthread")
    while stage.attach is not None:
        stage = stage.attach.stage
        found.update(leaf.var for leaf in stage.leaves if stage.bound(leaf) in axes)
    return found


def _region(stage: Stage, readers: list[Stage], regions: Regions) -> Region:
    shape = tuple(as_expr(extent) for extent in stage.tensor.shape)
    zeros: tuple[Expr, ...] = tuple(Const(0) for _ in shape)
    if stage.attach is None:
        return _with_loops(stage, zeros, shape, ())
    if not readers:
        raise LoweringError(f"{stage.name} has no reader to be computed in; use compute_root.")
    outside = _outside(stage, regions)
    fixed = {var for var, _ in outside}
    boxes = [box for reader in readers for box in _needs(stage, reader, regions, fixed)]
    lows, highs = boxes[0]
    for low, high in boxes[1:]:
        lows = [_join(a, b, "min") for a, b in zip(lows, low, strict=True)]
        highs = [_join(a, b, "max") for a, b in zip(highs, high, strict=True)]
    mins, sizes, inside = [], [], []
    multiples = (*(1 for _ in stage.axis[len(stage.multiples) :]), *stage.multiples)
    for axis, least, greatest, size, multiple in zip(
        stage.axis, lows, highs, stage.tensor.shape, multiples, strict=True
    ):
        # A reader that pads by a select reaches past either end.
        if const_bounds(least, outside)[0] < 0:
            least = simplify(maximum(least, 0))
        if stage.whole:
            length = const_bounds(greatest - least + 1, outside)[1]
            length = -(-length // multiple) * multiple
            if const_bounds(least, outside)[1] + length > size:
                inside.append(axis.lt(size))
            mins.append(least)
            sizes.append(as_expr(length))
            continue
        if const_bounds(greatest, outside)[1] > size - 1:
            greatest = simplify(minimum(greatest, size - 1))
        mins.append(least)
        sizes.append(simplify(greatest - least + 1))
    region = _with_loops(stage, tuple(mins), tuple(sizes), outside)
    return replace(region, inside=tuple(inside))


def _join(a: Expr, b: Expr, op: str) -> Expr:
    difference = simplify(a - b)
    if isinstance(difference, Const):
        return a if (difference.value <= 0) == (op == "min") else b
    return simplify(minimum(a, b) if op == "min" else maximum(a, b))


def _needs(
    stage: Stage, reader: Stage, regions: Regions, fixed: set[Var]
) -> list[tuple[list[Expr], list[Expr]]]:
    """Return the index box of each read of ``stage`` in ``reader``, outside loops fixed."""
    region = regions[reader]
    loops = [*region.outside, *((leaf.var, region.loop_extents[leaf]) for leaf in reader.leaves)]
    if not fixed <= {var for var, _ in loops}:
        assert stage.attach is not None
        raise LoweringError(
            f"{stage.name} is computed inside {stage.attach.stage.name} at "
            f"{stage.attach.axis.name}, but {reader.name}, outside that loop, reads it too."
        )
    boxes = []
    reads = (part for part in walk(reader.body) if isinstance(part, Read))
    for part in dict.fromkeys(read for read in reads if read.tensor is stage.tensor):
        lows, highs = [], []
        for index in part.indices:
            low = high = lookup(index, region.values)
            for var, extent in reversed(loops):
                if var in fixed:
                    continue
                low = relax(low, var, extent)[0] if uses(low, (var,)) else low
                high = relax(high, var, extent)[1] if uses(high, (var,)) else high
            lows.append(low)
            highs.append(high)
        boxes.append((lows, highs))
    return boxes


def _with_loops(
    stage: Stage,
    mins: tuple[Expr, ...],
    extents: tuple[Expr, ...],
    outside: tuple[tuple[Var, Expr], ...],
) -> Region:
    loop_extents: dict[IterVar, Expr] = dict(zip(stage.axis, extents, strict=True))
    # The extent of a reduction may speak of the tensor's own axes.
    own = {axis.var: low + axis.var for axis, low in zip(stage.axis, mins, strict=True)}
    loop_extents.update({axis: lookup(axis.extent, own) for axis in stage.reduce_axis})
    lengths: dict[Split, int] = {}
    for relation in stage.relations:
        if isinstance(relation, Split):
            whole = stage.whole_terms and relation.parent.kind == "reduce"
            lengths[relation] = _split(relation, loop_extents, outside, whole=whole)
        else:
            _fuse(stage, relation, loop_extents)
    local: dict[IterVar, Expr] = {
        leaf: Const(0) if loop_extents[leaf] == Const(1) else leaf.var for leaf in stage.leaves
    }
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            start = local[relation.outer] * lengths[relation]
            local[relation.parent] = start + local[relation.inner]
        else:
            inner = loop_extents[relation.inner]
            loops = [*outside, *((axis.var, extent) for axis, extent in loop_extents.items())]
            if const_bounds(inner, loops)[0] < 1:  # nothing runs then, but nothing divides by 0
                inner = simplify(maximum(inner, 1))
            local[relation.outer] = local[relation.fused] // inner
            local[relation.inner] = local[relation.fused] % inner
    # Extents speak of loops that were split or fused since: put in what those are made of.
    inner_axes = [axis for axis in local if axis not in stage.leaves]
    for _ in stage.relations:
        names = {axis.var: local[axis] for axis in inner_axes}
        if not any(uses(value, names) for value in local.values()):
            break
        local = {axis: lookup(value, names) for axis, value in local.items()}
    names = {axis.var: value for axis, value in local.items()}
    loop_extents = {axis: lookup(extent, names) for axis, extent in loop_extents.items()}
    for k, leaf in enumerate(stage.leaves):
        for later in stage.leaves[k + 1 :]:
            if uses(loop_extents[leaf], (later.var,)):
                raise LoweringError(
                    f"Loop {leaf.name} of {stage.name} must be inside {later.name}: its last tile "
                    "is smaller. Reorder the two, or split by a factor that divides."
                )
    values = {
        axis.var: simplify(low + local[axis]) for axis, low in zip(stage.axis, mins, strict=True)
    }
    values.update({axis.var: simplify(local[axis]) for axis in stage.reduce_axis})
    return Region(mins, extents, loop_extents, values, outside)


def _split(
    split: Split,
    extents: dict[IterVar, Expr],
    outside: tuple[tuple[Var, Expr], ...],
    *,
    whole: bool,
) -> int:
    """Set the extents of both parts and return how far apart the outer loop's steps are."""
    parent, length = extents[split.parent], split.factor
    if length is None:
        assert split.nparts is not None
        loops = [*outside, *((axis.var, extent) for axis, extent in extents.items())]
        length = max(1, -(-const_bounds(parent, loops)[1] // split.nparts))
    count = simplify((parent + (length - 1)) // length)
    rest = parent if count == Const(1) else simplify(parent - split.outer.var * length)
    exact = whole or simplify(parent % length) == Const(0)
    extents[split.outer] = count
    extents[split.inner] = as_expr(length) if exact else simplify(minimum(length, rest))
    return length


def _fuse(stage: Stage, fuse: Fuse, extents: dict[IterVar, Expr]) -> None:
    inner = extents[fuse.inner]
    if uses(inner, (fuse.outer.var,)):
        raise LoweringError(
            f"Fused loops must form a rectangle, but in {stage.name} {fuse.inner.name} takes "
            f"{expr_text(inner)} steps: split by a factor that divides."
        )
    extents[fuse.fused] = simplify(extents[fuse.outer] * inner)
