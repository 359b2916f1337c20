"""Which values an expression can take."""

from __future__ import annotations

from functools import lru_cache

from .expr import Binary, Call, Cast, Const, Expr, Pick, Read, Reduce, Select
from .tensor import Tensor

__all__ = ["dtype_range", "may_wrap", "value_range"]

Range = tuple[int, int]


def dtype_range(dtype: str) -> Range:
    """Return the least and greatest value of an integer dtype."""
    if dtype == "bool":
        return 0, 1
    bits = int(dtype.lstrip("uint"))
    half = 1 << bits - 1
    return (0, (1 << bits) - 1) if dtype[0] == "u" else (-half, half - 1)


def value_range(expr: Expr) -> Range:
    """Return bounds of an expression's value, through the definitions of the tensors it reads.

    ``maximum(a[i].astype("int32") * 3, 0)`` with int8 ``a`` lies in 0..381.
    """
    whole = dtype_range(expr.dtype)
    found = whole
    if isinstance(expr, Const):
        return expr.value, expr.value
    if isinstance(expr, Read):
        found = _tensor_range(expr.tensor)
    elif isinstance(expr, Pick):
        return min(expr.values), max(expr.values)
    elif isinstance(expr, Reduce) and expr.kind != "sum":
        found = value_range(expr.source)
        if expr.start is not None:
            start = value_range(expr.start)
            found = min(found[0], start[0]), max(found[1], start[1])
    elif isinstance(expr, Select):
        then, other = value_range(expr.then), value_range(expr.other)
        found = min(then[0], other[0]), max(then[1], other[1])
    elif isinstance(expr, Cast):
        if expr.value.dtype.startswith("float"):
            return whole
        low, high = value_range(expr.value)
        return max(whole[0], min(whole[1], low)), max(whole[0], min(whole[1], high))
    elif isinstance(expr, Call) and expr.name == "requantize":
        low, high = (value for _, value in expr.attrs)
        found = (low, high) if low <= high else whole
    elif isinstance(expr, Binary):
        found = _binary_range(expr, whole)
    # Arithmetic that may wrap can give anything.
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def may_wrap(expr: Binary) -> bool:
    """Tell whether an operation on integers may leave the range of its dtype, and so wrap around.

    ``a[i].astype("int32") * b[i].astype("int32")`` cannot with int8 ``a`` and ``b``.
    """
    low, high = dtype_range(expr.dtype)
    least, greatest = _binary_range(expr, (low - 1, high + 1))
    return least < low or high < greatest


@lru_cache(maxsize=256)
def _tensor_range(tensor: Tensor) -> Range:
    return value_range(tensor.body) if tensor.body is not None else dtype_range(tensor.dtype)


def _binary_range(expr: Binary, whole: Range) -> Range:
    (a, b), (c, d) = value_range(expr.a), value_range(expr.b)
    if expr.op == "+":
        return a + c, b + d
    if expr.op == "-":
        return a - d, b - c
    if expr.op == "*":
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    if expr.op == "min":
        return min(a, c), min(b, d)
    if expr.op == "max":
        return max(a, c), max(b, d)
    if expr.op in (">>", "<<") and c == d and 0 <= c < 64:
        return (a >> c, b >> c) if expr.op == ">>" else (a << c, b << c)
    return whole
