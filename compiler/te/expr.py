"""Expressions of the tensor language and of the loop IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from .tensor import IterVar, Tensor

__all__ = [
    "Binary",
    "Call",
    "Cast",
    "Const",
    "Expr",
    "ExprLike",
    "Read",
    "Reduce",
    "Select",
    "Var",
    "all_of",
    "as_expr",
    "ceildiv",
    "map_expr",
    "maximum",
    "minimum",
    "select",
    "substitute",
    "walk",
]

_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    ">>": lambda a, b: a >> b,
    "<<": lambda a, b: a << b,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "and": lambda a, b: int(bool(a) and bool(b)),
}


class Expr:
    """An expression. Python's operators build larger ones and fold constants.

    Comparisons are the methods `lt`, `le` and `ge`, so that ``==`` stays structural equality.
    """

    dtype: str

    def __add__(self, other: ExprLike) -> Expr:
        return _binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return _binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return _binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return _binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return _binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return _binary("*", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return _binary("//", self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return _binary("%", self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return _binary(">>", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return _binary("<<", self, other)

    def __neg__(self) -> Expr:
        return _binary("-", 0, self)

    def lt(self, other: ExprLike) -> Expr:
        """Return ``self < other`` as an expression."""
        return _binary("<", self, other)

    def le(self, other: ExprLike) -> Expr:
        """Return ``self <= other`` as an expression."""
        return _binary("<=", self, other)

    def ge(self, other: ExprLike) -> Expr:
        """Return ``self >= other`` as an expression."""
        return _binary("<=", other, self)

    def astype(self, dtype: str) -> Expr:
        """Return the expression converted to another dtype."""
        return self if self.dtype == dtype else Cast(dtype, self)


ExprLike: TypeAlias = Union[Expr, int, "IterVar"]


@dataclass(frozen=True, eq=False)
class Var(Expr):
    """A loop variable; two variables are equal only if they are the same object."""

    name: str
    dtype: str = "int32"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Const(Expr):
    """An integer constant."""

    value: int
    dtype: str = "int32"


@dataclass(frozen=True)
class Binary(Expr):
    """``a op b``; op is one of ``+ - * // % min max >> << < <= and``."""

    op: str
    a: Expr
    b: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Dtype of the first operand, or bool for a comparison."""
        return "bool" if self.op in ("<", "<=", "and") else self.a.dtype


@dataclass(frozen=True)
class Cast(Expr):
    """``value`` converted to ``dtype``."""

    dtype: str
    value: Expr


@dataclass(frozen=True)
class Select(Expr):
    """``then`` where ``condition`` holds, ``other`` elsewhere; only the chosen one is read."""

    condition: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Dtype of both values."""
        return self.then.dtype


@dataclass(frozen=True)
class Read(Expr):
    """One element of a tensor."""

    tensor: Tensor
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Dtype of the tensor."""
        return self.tensor.dtype


@dataclass(frozen=True)
class Call(Expr):
    """A pure function known by name, such as ``requantize``; ``attrs`` are static."""

    name: str
    args: tuple[Expr, ...]
    dtype: str
    attrs: tuple[tuple[str, int], ...] = field(default=())


@dataclass(frozen=True)
class Reduce(Expr):
    """``source`` combined over ``axes`` by ``kind``: ``sum``, ``max`` or ``min``."""

    kind: str
    source: Expr
    axes: tuple[IterVar, ...]

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Dtype of the source."""
        return self.source.dtype


def as_expr(value: ExprLike) -> Expr:
    """Return an expression from an integer, an iteration variable or an expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        return Const(value)
    return value.var


def _binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    a, b = as_expr(left), as_expr(right)
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_FOLD[op](a.value, b.value), a.dtype)
    if isinstance(b, Const):
        if b.value == 0 and op in ("+", "-", ">>", "<<"):
            return a
        if b.value == 1 and op in ("*", "//"):
            return a
        if (b.value == 0 and op == "*") or (b.value == 1 and op == "%"):
            return Const(0, a.dtype)
    if isinstance(a, Const):
        if (a.value == 0 and op == "+") or (a.value == 1 and op == "*"):
            return b
        if a.value == 0 and op in ("*", "//", "%"):
            return a
    if op in ("min", "max") and a == b:
        return a
    return Binary(op, a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """Return the smaller of two values."""
    return _binary("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """Return the greater of two values."""
    return _binary("max", a, b)


def ceildiv(a: ExprLike, b: int) -> Expr:
    """Return ``a / b`` rounded up."""
    return (as_expr(a) + (b - 1)) // b


def all_of(*conditions: Expr) -> Expr:
    """Return the conjunction of conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = _binary("and", result, condition)
    return result


def select(condition: Expr, then: ExprLike, other: ExprLike) -> Expr:
    """Return ``then`` where the condition holds and ``other`` elsewhere."""
    yes = as_expr(then)
    no = Const(other, yes.dtype) if isinstance(other, int) else as_expr(other)
    return Select(condition, yes, no)


def map_expr(expr: Expr, visit: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild an expression bottom-up.

    ``visit`` sees each node before its children; a result other than None replaces the node and
    is not visited further.
    """
    replaced = visit(expr)
    if replaced is not None:
        return replaced
    if isinstance(expr, Binary):
        return _binary(expr.op, map_expr(expr.a, visit), map_expr(expr.b, visit))
    if isinstance(expr, Cast):
        return Cast(expr.dtype, map_expr(expr.value, visit))
    if isinstance(expr, Select):
        parts = (map_expr(part, visit) for part in (expr.condition, expr.then, expr.other))
        return Select(*parts)
    if isinstance(expr, Read):
        return Read(expr.tensor, tuple(map_expr(index, visit) for index in expr.indices))
    if isinstance(expr, Call):
        return Call(
            expr.name, tuple(map_expr(arg, visit) for arg in expr.args), expr.dtype, expr.attrs
        )
    if isinstance(expr, Reduce):
        return Reduce(expr.kind, map_expr(expr.source, visit), expr.axes)
    return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all its parts, parents first."""
    yield expr
    children: tuple[Expr, ...] = ()
    if isinstance(expr, Binary):
        children = (expr.a, expr.b)
    elif isinstance(expr, Cast):
        children = (expr.value,)
    elif isinstance(expr, Select):
        children = (expr.condition, expr.then, expr.other)
    elif isinstance(expr, Read):
        children = expr.indices
    elif isinstance(expr, Call):
        children = expr.args
    elif isinstance(expr, Reduce):
        children = (expr.source,)
    for child in children:
        yield from walk(child)


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Return an expression with variables replaced."""
    return map_expr(expr, lambda e: values.get(e) if isinstance(e, Var) else None)
