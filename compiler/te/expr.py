"""Expressions of the tensor language and of the loop IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from vdla.errors import ScheduleError

if TYPE_CHECKING:
    from .tensor import IterVar, Tensor

__all__ = [
    "FOLD",
    "Binary",
    "Call",
    "Cast",
    "Const",
    "Expr",
    "ExprLike",
    "Operators",
    "Pick",
    "Read",
    "Real",
    "Reduce",
    "Select",
    "Var",
    "all_of",
    "as_expr",
    "binary",
    "call",
    "ceildiv",
    "maximum",
    "minimum",
    "pick",
    "power",
    "select",
]

FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    ">>": lambda a, b: a >> b if b >= 0 else a << -b,
    "<<": lambda a, b: a << b if b >= 0 else a >> -b,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "==": lambda a, b: int(a == b),
    "and": lambda a, b: int(bool(a) and bool(b)),
}
"""What each operation makes of two integers."""


class Operators:
    """Python's operators on expressions and axes; constants fold.

    Comparisons are the methods `lt`, `le`, `gt`, `ge` and `eq`, so that ``==`` stays identity of
    axes and structural equality of expressions.
    """

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("*", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, other)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("/", other, self)

    def __rshift__(self, other: ExprLike) -> Expr:
        return binary(">>", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return binary("<<", self, other)

    def __neg__(self) -> Expr:
        return binary("-", 0, self)

    def lt(self, other: ExprLike) -> Expr:
        """Return ``self < other`` as an expression."""
        return binary("<", self, other)

    def le(self, other: ExprLike) -> Expr:
        """Return ``self <= other`` as an expression."""
        return binary("<=", self, other)

    def gt(self, other: ExprLike) -> Expr:
        """Return ``self > other`` as an expression."""
        return binary("<", other, self)

    def ge(self, other: ExprLike) -> Expr:
        """Return ``self >= other`` as an expression."""
        return binary("<=", other, self)

    def eq(self, other: ExprLike) -> Expr:
        """Return whether the two values are equal, as an expression."""
        return binary("==", self, other)

    def astype(self, dtype: str) -> Expr:
        """Return the value converted to another dtype.

        A narrower integer dtype saturates; a float becomes an integer towards zero, and NaN 0.
        """
        expr = as_expr(self)
        return expr if expr.dtype == dtype else Cast(dtype, expr)

    def wrap(self, dtype: str) -> Expr:
        """Return an integer modulo the range of another integer dtype: its low bits."""
        expr = as_expr(self)
        return expr if expr.dtype == dtype else Call("wrap", (expr,), dtype)


class Expr(Operators):
    """An expression of one element; arithmetic wraps at the width of its dtype."""

    dtype: str

    def hash_once(self) -> int:
        """Return the hash of all fields, kept: passes look up the same large expressions often."""
        known = self.__dict__
        if "_hash" not in known:
            names: tuple[str, ...] = self.__match_args__  # type: ignore[attr-defined]
            known["_hash"] = hash((type(self), *map(known.__getitem__, names)))
        value: int = known["_hash"]
        return value


ExprLike: TypeAlias = Operators | int | float
"""An expression, an axis or a number."""


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

    __hash__ = Expr.hash_once

    value: int
    dtype: str = "int32"


@dataclass(frozen=True)
class Real(Expr):
    """A floating-point constant."""

    __hash__ = Expr.hash_once

    value: float
    dtype: str = "float32"


@dataclass(frozen=True, init=False)
class Binary(Expr):
    """``a op b``; op is one of ``+ - * / // % min max >> << < <= == and``.

    ``/`` is of floats; ``// % >> <<`` are of integers, and round down. min and max of a NaN are
    NaN. Its dtype is the first operand's, or bool for a comparison.
    """

    __hash__ = Expr.hash_once

    op: str
    a: Expr
    b: Expr

    def __init__(self, op: str, a: Expr, b: Expr) -> None:
        # At once: passes make more of these than of all others together.
        self.__dict__.update(op=op, a=a, b=b, dtype=_dtype(op, a.dtype))


@dataclass(frozen=True)
class Cast(Expr):
    """``value`` converted to ``dtype``."""

    __hash__ = Expr.hash_once

    dtype: str
    value: Expr


@dataclass(frozen=True)
class Select(Expr):
    """``then`` where ``condition`` holds, ``other`` elsewhere; only the chosen one is read."""

    __hash__ = Expr.hash_once

    condition: Expr
    then: Expr
    other: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Dtype of both values."""
        return self.then.dtype


@dataclass(frozen=True)
class Pick(Expr):
    """One of some integers, the ``index``-th: an index that follows no formula."""

    __hash__ = Expr.hash_once

    values: tuple[int, ...]
    index: Expr
    dtype: str = "int32"


@dataclass(frozen=True)
class Read(Expr):
    """One element of a tensor."""

    __hash__ = Expr.hash_once

    tensor: Tensor
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Dtype of the tensor."""
        return self.tensor.dtype


@dataclass(frozen=True)
class Call(Expr):
    """A pure function known by name, such as ``requantize`` or ``exp``; ``attrs`` are static.

    ``load`` is an element that a store reads, ``wrap`` an integer's low bits, ``power`` an
    integer's power.
    """

    __hash__ = Expr.hash_once

    name: str
    args: tuple[Expr, ...]
    dtype: str
    attrs: tuple[tuple[str, int], ...] = field(default=())


@dataclass(frozen=True)
class Reduce(Expr):
    """``source`` combined over ``axes`` by ``kind``: ``sum``, ``max`` or ``min``.

    It begins with ``start``, or with nothing.
    """

    __hash__ = Expr.hash_once

    kind: str
    source: Expr
    axes: tuple[IterVar, ...]
    start: Expr | None = None

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """Dtype of the source."""
        return self.source.dtype


def as_expr(value: ExprLike, dtype: str = "int32") -> Expr:
    """Return an expression from a number, which takes ``dtype``, an axis or an expression.

    A number with a fraction takes float32 where ``dtype`` is an integer's.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, Operators):
        var: Expr = value.var  # type: ignore[attr-defined]
        return var
    if dtype.startswith("float"):
        return Real(float(value), dtype)
    return Real(value) if isinstance(value, float) else _integer(int(value), dtype)


@lru_cache(maxsize=1 << 12)
def _integer(number: int, dtype: str) -> Const:
    if dtype in _LIMITS and not _LIMITS[dtype][0] <= number <= _LIMITS[dtype][1]:
        raise ScheduleError(
            f"A constant must fit the dtype of the value it meets, {dtype}, not be {number}: "
            "convert the value with astype."
        )
    return Const(number, dtype)


_LIMITS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "uint8": (0, (1 << 8) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint64": (0, (1 << 64) - 1),
}


def _operands(op: str, left: ExprLike, right: ExprLike) -> tuple[Expr, Expr]:
    """Return both operands with one dtype: an integer takes the other's."""
    if not isinstance(left, Operators) and isinstance(right, Operators):
        b = as_expr(right)
        return as_expr(left, b.dtype), b
    a = left if isinstance(left, Expr) else as_expr(left)
    b = right if isinstance(right, Expr) else as_expr(right, a.dtype)
    if a.dtype != b.dtype:
        raise ScheduleError(
            f"Operands of {op} must have one dtype, not {a.dtype} and {b.dtype}: convert one with "
            "astype."
        )
    return a, b


def binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    """Return ``left op right``; what constants make of it at once, is made of it."""
    a, b = _operands(op, left, right)
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(FOLD[op](a.value, b.value), _dtype(op, a.dtype))
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


def _dtype(op: str, operands: str) -> str:
    return "bool" if op in ("<", "<=", "==", "and") else operands


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """Return the smaller of two values."""
    return binary("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """Return the greater of two values."""
    return binary("max", a, b)


def ceildiv(a: ExprLike, b: int) -> Expr:
    """Return ``a / b`` rounded up."""
    return (as_expr(a) + (b - 1)) // b


def all_of(*conditions: Expr) -> Expr:
    """Return the conjunction of conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = binary("and", result, condition)
    return result


def call(name: str, *args: ExprLike) -> Expr:
    """Return a function of floats by name, of its first argument's dtype.

    Names are ``abs``, ``ceil``, ``erf``, ``exp``, ``floor``, ``log``, ``pow``, ``rint`` (halves to
    even), ``sqrt`` and ``tanh``.
    """
    first = as_expr(args[0])
    if not first.dtype.startswith("float"):
        raise ScheduleError(
            f"{name} must be of a float, not of {first.dtype}: convert it with astype."
        )
    return Call(name, (first, *(as_expr(arg, first.dtype) for arg in args[1:])), first.dtype)


def power(base: ExprLike, exponent: ExprLike) -> Expr:
    """Return an integer to an integer power of at least 0, modulo the range of its dtype."""
    a, b = _operands("power", base, exponent)
    return Call("power", (a, b), a.dtype)


def pick(values: Sequence[int], index: ExprLike) -> Expr:
    """Return one of some integers: ``pick((5, 3, 8), k)`` is 5, 3 or 8."""
    table, at = tuple(int(value) for value in values), as_expr(index)
    if isinstance(at, Const) and 0 <= at.value < len(table):
        return Const(table[at.value])
    return Const(table[0]) if len(set(table)) == 1 else Pick(table, at)


def select(condition: Expr, then: ExprLike, other: ExprLike) -> Expr:
    """Return ``then`` where the condition holds and ``other`` elsewhere."""
    yes, no = _operands("select", then, other)
    return Select(condition, yes, no)
