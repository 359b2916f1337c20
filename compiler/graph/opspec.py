"""What a row of the operator table says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from . import dtypes, images
from .tensor import Tensor

__all__ = ["FusionClass", "OpSpec"]

ShapeRule = Callable[[Sequence[tuple[int, ...]], Mapping[str, Any]], tuple[int, ...]]
MacCount = Callable[[Sequence[Tensor], Sequence[Tensor]], int]
DtypeRule = Callable[[Sequence[Tensor], Tensor], "str | None"]
ImageRule = Callable[[Sequence[Tensor], Tensor, Mapping[str, Any]], bool]


class FusionClass(Enum):
    """How an operator may join its neighbours in one fused operator."""

    INJECTIVE = "injective"
    """One output element reads at most one element of each input: fuses with such neighbours."""
    REDUCTION = "reduction"
    """Reads many elements: injective producers fuse into it."""
    COMPLEX_OUT_FUSABLE = "complex-out-fusable"
    """A heavy operator: injective consumers fuse onto its output."""
    OPAQUE = "opaque"
    """Fuses with nothing."""


@dataclass(frozen=True)
class OpSpec:
    """One row of the operator table.

    Parameters
    ----------
    inputs : tuple of str
        Meaning of each input, in order.
    optional : int
        How many of the last inputs may be left out.
    variadic : bool
        Whether the last input may be given any number of times, at least once.
    attrs : tuple of str
        Attribute names; all are required and no other is allowed.
    shape : callable
        ``(input shapes, attrs) -> output shape``.
    fusion : FusionClass
    macs : callable or None
        ``(input tensors, output tensors) -> int``, for operators that multiply and accumulate.
    dtypes : callable
        ``(input tensors, output tensor) -> reason or None``: what their dtypes break.
    per_image : callable
        ``(input tensors, output tensor, attrs) -> bool``: whether n images may stand on axis 0 of
        the activations, where each has one, and come out on axis 0, each computed alone.
    """

    inputs: tuple[str, ...]
    attrs: tuple[str, ...]
    shape: ShapeRule
    fusion: FusionClass
    optional: int = 0
    macs: MacCount | None = None
    variadic: bool = False
    dtypes: DtypeRule = dtypes.one_dtype
    per_image: ImageRule = images.first_alone
