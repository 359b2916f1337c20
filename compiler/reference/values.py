"""What the operators of the interpreter get and give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Node, Quant, Tensor
from vdla.errors import ModelError

__all__ = ["Array", "Operator", "Value", "images_of", "is_quantized", "is_real", "store", "wide"]

Array = npt.NDArray[Any]


class Value(NamedTuple):
    """An array with the tensor that it is a value of; the array may hold more images."""

    tensor: Tensor
    array: Array

    @property
    def quant(self) -> Quant:
        """Scale and zero point, which integer operators need."""
        if self.tensor.quant is None:
            raise ModelError(
                f"An integer operator needs scales and zero points; tensor {self.tensor.label} "
                "has none. Quantize the model."
            )
        return self.tensor.quant

    @property
    def scale(self) -> float:
        """The one scale."""
        return float(self.quant.scale[0])

    @property
    def centred(self) -> Array:
        """The integers less their zero point, int64."""
        return self.array.astype(np.int64) - self.quant.zero_point


Operator = Callable[[Node, Sequence[Value], Tensor], Array]


def is_real(output: Tensor) -> bool:
    """Whether an operator computes on floats."""
    return output.dtype.kind == "f"


def is_quantized(output: Tensor) -> bool:
    """Whether an operator computes on integers that stand for reals; others are plain."""
    return output.dtype.kind in "iu" and output.quant is not None


def store(x: Array, output: Tensor, clip: tuple[float, float] | None) -> Array:
    """Clip, to the dtype's range where `clip` is None, and narrow."""
    if output.dtype.kind in "iu":
        limits = np.iinfo(output.dtype)
        low, high = clip or (limits.min, limits.max)
        if not is_quantized(output):
            x = x.astype(output.dtype)  # plain integers wrap around
        return np.clip(x, int(max(low, limits.min)), int(min(high, limits.max))).astype(
            output.dtype
        )
    return (x if clip is None else np.clip(x, *clip)).astype(output.dtype)


def wide(array: Array) -> Array:
    """Return numbers in the widest type of their kind, bools as they are."""
    kinds = {"f": np.float64, "i": np.int64, "u": np.uint64}
    return array.astype(kinds[array.dtype.kind]) if array.dtype.kind in kinds else array


def images_of(value: Value) -> int:
    """Return how many images an array holds on axis 0; 1 where axis 0 is not for images."""
    one = value.tensor.shape[:1] == (1,)
    return value.array.shape[0] if one else 1
