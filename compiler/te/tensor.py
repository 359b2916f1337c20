"""Tensors and the functions that define them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vdla.errors import ScheduleError

from .expr import Call, Expr, ExprLike, Operators, Read, Reduce, Var, as_expr
from .traverse import walk

__all__ = [
    "IterVar",
    "Tensor",
    "compute",
    "max_over",
    "min_over",
    "placeholder",
    "reduce_axis",
    "requantize",
    "sum_over",
]


@dataclass(frozen=True, eq=False)
class IterVar(Operators):
    """An axis: a variable that runs over ``0 .. extent - 1``.

    ``kind`` is ``data`` or ``reduce``. The extent of an axis made by a split may depend on outer
    variables: the last tile of an axis that the factor does not divide is smaller.
    """

    var: Var
    extent: Expr
    kind: str = "data"

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.var.name

    def __repr__(self) -> str:
        return f"IterVar({self.name})"


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: an input (``body`` is None) or the values that an expression defines.

    Indexing with as many expressions as there are dimensions reads an element.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[IterVar, ...] = ()
    body: Expr | None = None

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Read:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise ScheduleError(
                f"Reading {self.name} takes {len(self.shape)} indices, one a dimension, "
                f"not {len(given)}."
            )
        return Read(self, tuple(as_expr(index) for index in given))

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}{list(self.shape)})"


def placeholder(shape: Sequence[int], dtype: str = "int8", name: str = "data") -> Tensor:
    """Declare an input tensor.

    Parameters
    ----------
    shape : sequence of int
        Positive extents.
    dtype : str
        ``bool``, ``int8`` to ``int64``, ``uint8`` to ``uint64``, ``float16``, ``float32`` or
        ``float64``.
    name : str
        Shown in listings and errors.
    """
    return Tensor(name, _shape(shape, name), dtype)


def compute(shape: Sequence[int], function: Callable[..., ExprLike], name: str = "out") -> Tensor:
    """Define a tensor by an expression of its indices.

    ``compute((4, 4), lambda i, j: a[i, j] + b[j, i])`` is the sum of ``a`` and ``b`` transposed.

    Parameters
    ----------
    shape : sequence of int
        Positive extents; the function gets one axis for each.
    function : callable
        Returns the element's expression; `sum_over`, `max_over` and `min_over` reduce.
    name : str
        Shown in listings and errors.
    """
    extents = _shape(shape, name)
    parameters = list(inspect.signature(function).parameters.values())
    names = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    if len(names) != len(extents):
        names = [f"i{k}" for k in range(len(extents))]
    axes = tuple(IterVar(Var(n), as_expr(extent)) for n, extent in zip(names, extents, strict=True))
    body = as_expr(function(*axes))
    for part in walk(body):
        if isinstance(part, Reduce) and part is not body:
            raise ScheduleError(
                f"A reduction must be the whole expression of its tensor; in {name} it is a part: "
                "compute the reduction first and read it from a second tensor."
            )
    return Tensor(name, extents, body.dtype, axes, body)


def reduce_axis(extent: ExprLike, name: str = "k") -> IterVar:
    """Declare an axis to reduce over.

    Parameters
    ----------
    extent : int or Expr
        At least 1; or an expression of the tensor's own axes, such as a `pick`: some elements then
        reduce over more than others, and over nothing where it is 0.
    name : str
        Shown in listings and errors.
    """
    if isinstance(extent, int):
        (extent,) = _shape((extent,), name)
    return IterVar(Var(name), as_expr(extent), "reduce")


def _reduce(
    kind: str, source: Expr, axis: IterVar | Sequence[IterVar], start: Expr | None = None
) -> Reduce:
    axes = (axis,) if isinstance(axis, IterVar) else tuple(axis)
    for item in axes:
        if item.kind != "reduce":
            raise ScheduleError(f"A reduction runs over reduce axes; {item.name} is a data axis.")
    if start is not None and start.dtype != source.dtype:
        raise ScheduleError(
            f"A reduction must start from its own dtype, {source.dtype}, not {start.dtype}: "
            "convert one with astype."
        )
    return Reduce(kind, source, axes, start)


def sum_over(source: Expr, axis: IterVar | Sequence[IterVar], start: Expr | None = None) -> Reduce:
    """Return the sum of ``source`` over reduce axes; it wraps at its dtype's width.

    With ``start``, another tensor's element, the sum goes on from there.
    """
    return _reduce("sum", source, axis, start)


def max_over(source: Expr, axis: IterVar | Sequence[IterVar]) -> Reduce:
    """Return the greatest ``source`` over reduce axes."""
    return _reduce("max", source, axis)


def min_over(source: Expr, axis: IterVar | Sequence[IterVar]) -> Reduce:
    """Return the smallest ``source`` over reduce axes."""
    return _reduce("min", source, axis)


def requantize(
    value: Expr, bias: Expr, multiplier: Expr, packed: Expr, low: int = 0, high: int = -1
) -> Expr:
    """Return bias, fixed-point rescaling, zero point and clip in one step, int32.

    Parameters
    ----------
    value, bias, multiplier : Expr
        int32 scalars; the multiplier is a fraction of 2^31.
    packed : Expr
        Shift, zero point and rounding mode as `vdla.isa.RQ_PACK` lays them out.
    low, high : int
        Clip range in -128..127; with ``low > high`` nothing is clipped.
    """
    for bound in (low, high):
        if not -128 <= bound <= 127:
            raise ScheduleError(f"A clip bound must lie in -128..127, not {bound}.")
    return Call(
        "requantize", (value, bias, multiplier, packed), "int32", (("low", low), ("high", high))
    )


def _shape(shape: Sequence[int], name: str) -> tuple[int, ...]:
    extents = tuple(int(extent) for extent in shape)
    if any(extent < 1 for extent in extents):
        raise ScheduleError(f"Every extent must be at least 1; {name} has shape {list(extents)}.")
    return extents
