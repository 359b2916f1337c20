"""Matching a stage's inner loops against a declared intrinsic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vdla.compiler.ir.linear import lookup, simplify
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.te.expr import Binary, Call, Cast, Const, Expr, Read, Reduce, Var
from vdla.compiler.te.intrin import TensorIntrin
from vdla.compiler.te.stage import Stage
from vdla.compiler.te.tensor import IterVar, Tensor
from vdla.errors import LoweringError

from .regions import Region

__all__ = ["Match", "match_intrinsic"]

_COMMUTATIVE = frozenset({"+", "*", "min", "max"})
_COMBINE = {"sum": "+", "max": "max", "min": "min"}


@dataclass
class Match:
    """Operands of a matched intrinsic.

    Attributes
    ----------
    output : tuple of Expr
        Index of the result tile's first element, over the stage's original axes.
    operands : list of (Tensor, indices) or None
        First element of each operand, in loop variables; None is the result itself, which a
        reduction updates.
    scalars : tuple of int
        Constants, then the attributes of calls.
    start : (Tensor, indices) or None
        First element of the tile that a reduction goes on from.
    """

    output: tuple[Expr, ...]
    operands: list[tuple[Tensor, tuple[Expr, ...]] | None]
    scalars: tuple[int, ...]
    start: tuple[Tensor, tuple[Expr, ...]] | None = None


@dataclass
class _Unifier:
    stage: Stage
    region: Region
    intrin: TensorIntrin
    inner: dict[Var, Var]
    """Declaration's loop variable to the stage's."""
    operands: dict[Tensor, tuple[Tensor, tuple[Expr, ...]] | None] = field(default_factory=dict)
    scalars: dict[Var, int] = field(default_factory=dict)
    attributes: list[int] = field(default_factory=list)

    def unify(self, pattern: Expr, actual: Expr | None) -> bool:
        """Tell whether an expression has the declared form; None stands for the result."""
        if isinstance(pattern, Read):
            return self._operand(pattern, actual)
        if actual is None:
            return False
        if isinstance(pattern, Var) and pattern in self.intrin.scalars:
            if not isinstance(actual, Const):
                return False
            return self.scalars.setdefault(pattern, actual.value) == actual.value
        if type(pattern) is not type(actual):
            return False
        if isinstance(pattern, Binary) and isinstance(actual, Binary):
            return pattern.op == actual.op and self._pair(pattern, actual.op, actual.a, actual.b)
        if isinstance(pattern, Cast) and isinstance(actual, Cast):
            return pattern.dtype == actual.dtype and self.unify(pattern.value, actual.value)
        if isinstance(pattern, Const):
            return pattern == actual
        if isinstance(pattern, Call) and isinstance(actual, Call):
            if pattern.name != actual.name or len(pattern.args) != len(actual.args):
                return False
            self.attributes.extend(value for _, value in actual.attrs)
            return all(map(self.unify, pattern.args, actual.args))
        if isinstance(pattern, Reduce) and isinstance(actual, Reduce):
            return pattern.kind == actual.kind and self.unify(pattern.source, actual.source)
        return False

    def _pair(self, pattern: Binary, op: str, a: Expr | None, b: Expr | None) -> bool:
        orders = [(a, b), (b, a)] if op in _COMMUTATIVE else [(a, b)]
        saved = dict(self.operands), dict(self.scalars), list(self.attributes)
        for left, right in orders:
            if self.unify(pattern.a, left) and self.unify(pattern.b, right):
                return True
            self.operands, self.scalars = dict(saved[0]), dict(saved[1])
            self.attributes = list(saved[2])
        return False

    def _operand(self, pattern: Read, actual: Expr | None) -> bool:
        if actual is None:
            place: tuple[Tensor, tuple[Expr, ...]] | None = None
        elif isinstance(actual, Read):
            base = self._base(pattern, actual)
            if base is None or actual.dtype != pattern.dtype:
                return False
            place = actual.tensor, base
        else:
            return False
        if pattern.tensor in self.operands:
            return self.operands[pattern.tensor] == place
        self.operands[pattern.tensor] = place
        return True

    def _base(self, pattern: Read, actual: Read) -> tuple[Expr, ...] | None:
        """Check the tile's own indices and return the index of its first element."""
        zero = {var: Const(0) for var in self.inner.values()}
        lead = len(actual.indices) - len(pattern.indices)
        if lead < 0:
            return None
        base: list[Expr] = []
        for k, index in enumerate(actual.indices):
            value = lookup(index, self.region.values)
            start = lookup(value, zero)
            if k >= lead:
                wanted = pattern.indices[k - lead]
                own = self.inner.get(wanted) if isinstance(wanted, Var) else None
                step = simplify(value - start)
                if step != (own if own is not None else Const(0)):
                    return None
                low = pattern.tensor.shape[k - lead]
                if actual.tensor.shape[k] % low:
                    return None
            elif start != value:
                return None
            base.append(start)
        return tuple(base)


def _shapes(axes: Sequence[IterVar], extents: Sequence[Expr]) -> str:
    loops = (f"{axis.kind} {expr_text(e)}" for axis, e in zip(axes, extents, strict=True))
    return ", ".join(loops)


def match_intrinsic(
    stage: Stage, region: Region, intrin: TensorIntrin, inner: list[IterVar]
) -> Match:
    """Match the loops from a tensorized one inwards against an intrinsic's declaration.

    Raises
    ------
    LoweringError
        States the loops and the body that the intrinsic declares and those found.
    """
    declared = intrin.declaration
    body = declared.body
    assert body is not None
    reduce_axes = body.axes if isinstance(body, Reduce) else ()
    wanted = (*declared.axes, *reduce_axes)
    have = [region.loop_extents[leaf] for leaf in inner]
    declared_extents = [axis.extent for axis in wanted]
    if len(wanted) != len(inner) or any(
        axis.extent != extent or axis.kind != leaf.kind
        for axis, leaf, extent in zip(wanted, inner, have, strict=True)
    ):
        raise LoweringError(
            f"Intrinsic {intrin.name} replaces loops of {_shapes(wanted, declared_extents)}, but "
            f"{stage.name} has {_shapes(inner, have)} from {inner[0].name} inwards: split or "
            "reorder them."
        )
    pairs = {
        axis.var: leaf.var
        for axis, leaf, extent in zip(wanted, inner, have, strict=True)
        if extent != Const(1)
    }
    unifier = _Unifier(stage, region, intrin, pairs)
    actual: Expr = stage.body
    if isinstance(actual, Reduce) and not isinstance(body, Reduce):
        # The reduction runs outside: each step combines the result with the source.
        ok = (
            isinstance(body, Binary)
            and body.op == _COMBINE[actual.kind]
            and unifier._pair(body, body.op, None, actual.source)
        )
    else:
        ok = unifier.unify(body, actual)
    if not ok:
        raise LoweringError(
            f"Intrinsic {intrin.name} computes {expr_text(body)} of "
            f"{', '.join(t.dtype for t in intrin.operands)}; the loops of {stage.name} from "
            f"{inner[0].name} inwards do not: {expr_text(stage.body)} of "
            f"{', '.join(t.dtype for t in stage.reads())}. Rewrite the stage in that form."
        )
    zero = {var: Const(0) for var in pairs.values()}
    values = {var: lookup(value, zero) for var, value in region.values.items()}
    output = tuple(values[axis.var] for axis in stage.axis)
    scalars = tuple(unifier.scalars[var] for var in intrin.scalars)
    start = None
    if isinstance(actual, Reduce) and actual.start is not None:
        if not isinstance(actual.start, Read):
            raise LoweringError(
                f"A reduction by intrinsic {intrin.name} must start from a tensor's elements, not "
                f"from {expr_text(actual.start)}, in stage {stage.name}: compute that in a stage "
                "of its own."
            )
        start = actual.start.tensor, tuple(lookup(i, values) for i in actual.start.indices)
    return Match(
        output,
        [unifier.operands[tensor] for tensor in intrin.operands],
        scalars + tuple(unifier.attributes),
        start,
    )
