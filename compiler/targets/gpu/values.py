"""Operations on values in C that do what the loop IR's do, to the bit of integers."""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler.ir.printer import expr_text
from vdla.compiler.te.expr import Binary, Call, Cast, Const, Expr
from vdla.compiler.te.ranges import dtype_range, may_wrap, value_range
from vdla.errors import LoweringError

from .dialect import HALF, Dialect, constant_text
from .helpers import helper_name
from .ranks import RANK, UNARY, ranked

__all__ = ["Values", "check_exact"]

_WRAPPING = {"+": "plus", "-": "minus", "*": "times"}
_C = {"//": "/", "and": "&&"}
_EXACT = ("abs", "ceil", "floor", "rint")
"""Functions whose value of a half is one."""


class Values:
    """Writes operations and conversions.

    C computes with ``int`` what is narrower, and leaves open what becomes of a sum with a sign that
    has no room. So narrow results are cut to their dtype; sums of 32 and 64 bits are plain ones
    where the ranges of their operands show that they fit, and else calls of a function that wraps
    around.

    Parameters
    ----------
    dialect : Dialect
    helpers : set of (str, str)
        Takes the functions of `helper_texts` that were used.
    part : callable
        Returns an operand's text, in parentheses where it binds less than a rank.
    """

    def __init__(
        self,
        dialect: Dialect,
        helpers: set[tuple[str, str]],
        part: Callable[[Expr, int], str],
    ) -> None:
        self._dialect, self._helpers, self._part = dialect, helpers, part

    def binary(self, expr: Binary, rank: int) -> str:
        """Return an operation on values."""
        expr = _subtracting(expr)
        op, dtype = expr.op, expr.a.dtype
        if op in ("min", "max"):
            return self.extreme(op, self._part(expr.a, 0), self._part(expr.b, 0), dtype)
        check_exact(expr)
        if dtype.startswith("float") and op in (">>", "<<", "//", "%"):
            raise LoweringError(f"{op} must be of integers, not of {dtype}: {expr_text(expr)}.")
        if op in (">>", "<<"):
            return self._shifted(expr, rank)
        if op in ("//", "%") and dtype[0] != "u" and not _positive(expr):
            name, wide = "floor_div" if op == "//" else "floor_mod", _whole(dtype)
            text = self.call(name, wide, *self._both(expr))
            return text if wide == dtype else self._cut(text, dtype, rank)
        wraps = op in _WRAPPING and dtype[0] in "iu" and may_wrap(expr)
        if wraps and dtype in ("int32", "int64"):
            return self.call(_WRAPPING[op], dtype, *self._both(expr))
        if wraps and dtype == "uint16" and op == "*":  # as int it may have no room
            product = f"(unsigned int){self._part(expr.a, UNARY)} * {self._part(expr.b, UNARY)}"
            return self._cut(f"({product})", dtype, rank)
        own = RANK[op]
        text = f"{self._part(expr.a, own)} {_C.get(op, op)} {self._part(expr.b, own + 1)}"
        if wraps:
            return self._cut(f"({text})", dtype, rank)
        return ranked(text, own, rank)

    def extreme(self, kind: str, a: str, b: str, dtype: str) -> str:
        """Return the smaller or greater of two values; of floats, NaN where one is."""
        if dtype in ("int32", "uint32"):
            return f"{kind}({a}, {b})"
        if _whole(dtype) == "int32":
            return f"{kind}((int)({a}), (int)({b}))"
        wide = "float32" if dtype == HALF else dtype
        return self.call("least" if kind == "min" else "greatest", wide, a, b)

    def cast(self, expr: Cast, rank: int) -> str:
        """Return a conversion: integers saturate, floats are cut towards zero, NaN is 0."""
        value, dtype = expr.value, expr.dtype
        if dtype == HALF:
            return self._rounded(value)
        if dtype == "bool":
            zero = "0.0f" if value.dtype in ("float32", HALF) else "0"
            text = f"{self._part(value, RANK['=='] + 1)} != {zero}"
            return ranked(text, RANK["=="], rank)
        if (value.dtype, dtype) == (HALF, "float32"):
            return self._part(value, rank)
        if value.dtype.startswith("float") and not dtype.startswith("float"):
            given = "float32" if value.dtype == HALF else value.dtype
            self._dialect.type_of(given)
            self._helpers.add((given, dtype))
            return f"{given}_to_{dtype}({self._part(value, 0)})"
        if dtype.startswith("float") or value.dtype == "bool":
            return self.cut(value, dtype, rank)
        low, high = value_range(value)
        least, greatest = dtype_range(dtype)
        if least <= low and high <= greatest:
            return self.cut(value, dtype, rank)
        text, source = self._part(value, 0), value.dtype
        for kind, bound, needed in (
            ("max", least, low < least),
            ("min", greatest, greatest < high),
        ):
            if needed:
                limit = constant_text(bound, source, self._dialect)
                text = self.extreme(kind, text, limit, source)
        return self._cut(text, dtype, rank)

    def cut(self, value: Expr, dtype: str, rank: int) -> str:
        """Return an integer's low bits, or a number as a float."""
        return self._cut(self._part(value, UNARY), dtype, rank)

    def power(self, expr: Call, base: str, exponent: str) -> str:
        """Return an integer's power, modulo its range."""
        wide = _whole(expr.dtype)
        text = self.call("power", wide, base, exponent)
        return text if wide == expr.dtype else self._cut(text, expr.dtype, UNARY)

    def call(self, helper: str, dtype: str, *args: str) -> str:
        """Return a call of a helper."""
        self._helpers.add((helper, dtype))
        return f"{helper_name(helper, dtype)}({', '.join(args)})"

    def use(self, text: str) -> None:
        """Note the functions of the dialect that some source calls, and those that they call."""
        for name, function in self._dialect.functions.items():
            if f"{name}(" in text and (name, name) not in self._helpers:
                self._helpers.add((name, name))
                self.use(function)

    def _rounded(self, value: Expr) -> str:
        """Return a value as a float that is a half; a float64 is rounded to float32 before."""
        if value.dtype == "bool":
            return self.cut(value, "float32", UNARY)  # 0 and 1 are halves
        self.use("rounded(")
        wide = value.dtype == "float64"
        return f"rounded({self.cut(value, 'float32', 0) if wide else self._part(value, 0)})"

    def _cut(self, text: str, dtype: str, rank: int) -> str:
        return ranked(f"({self._dialect.type_of(dtype)}){text}", UNARY, rank)

    def _both(self, expr: Binary) -> tuple[str, str]:
        return self._part(expr.a, 0), self._part(expr.b, 0)

    def _shifted(self, expr: Binary, rank: int) -> str:
        dtype, low = expr.dtype, value_range(expr.b)[0]
        wide = _whole(dtype)
        if isinstance(expr.b, Const):
            places = expr.b.value if expr.op == ">>" else -expr.b.value
            if places >= 0:
                return ranked(f"{self._part(expr.a, UNARY)} >> {places}", RANK[">>"], rank)
            if not may_wrap(Binary("*", expr.a, Const(1 << -places, dtype))):
                factor = constant_text(1 << -places, dtype, self._dialect)
                return ranked(f"{self._part(expr.a, RANK['*'])} * {factor}", RANK["*"], rank)
            shifted = self.call("shift_left", wide, self._part(expr.a, 0), str(-places))
            return shifted if wide == dtype else self._cut(shifted, dtype, rank)
        a, b = self._both(expr)
        if low >= 0 and expr.op == ">>":
            text = f"{self._part(expr.a, UNARY)} >> {self._part(expr.b, UNARY)}"
            return ranked(text, RANK[">>"], rank)
        if expr.op == "<<":
            b = f"-{self._part(expr.b, UNARY)}"
        shifted = self.call("shift_right", wide, a, b)
        return shifted if wide == dtype else self._cut(shifted, dtype, rank)


def check_exact(expr: Binary | Call) -> None:
    """Refuse what would have to be rounded to a half.

    Raises
    ------
    LoweringError
        Names it.
    """
    if expr.dtype == HALF and (expr.op if isinstance(expr, Binary) else expr.name) not in _EXACT:
        raise LoweringError(
            f"A kernel computes with halves in float32, and {expr_text(expr)} is float16: convert "
            "what it is made of with astype, and the result back."
        )


def _subtracting(expr: Binary) -> Binary:
    """Return ``a + -1 * b`` as ``a - b``, and ``a + -3`` as ``a - 3``."""
    a, b = expr.a, expr.b
    if expr.op != "+" or not expr.dtype.startswith("int"):
        return expr
    if isinstance(b, Binary) and b.op == "*" and b.b == Const(-1, b.dtype):
        return Binary("-", a, b.a)
    if isinstance(b, Const) and dtype_range(b.dtype)[0] < b.value < 0:
        return Binary("-", a, Const(-b.value, b.dtype))
    return expr


def _whole(dtype: str) -> str:
    """Return the dtype that C computes with."""
    narrow = dtype == "bool" or dtype.endswith(("int8", "int16"))
    return "int32" if narrow else dtype


def _positive(expr: Binary) -> bool:
    return value_range(expr.a)[0] >= 0 and value_range(expr.b)[0] > 0
