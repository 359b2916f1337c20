"""Tensors of a graph: shape, dtype and the meaning of their integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.errors import ModelError

__all__ = ["Array", "Quant", "Tensor"]

Array = npt.NDArray[Any]

_MOST_ELEMENTS = 1 << 30
"""Far beyond what the accelerator's addresses reach; larger sizes are mistakes."""


@dataclass(frozen=True, eq=False)
class Quant:
    """An affine map from integers to reals: ``real = scale * (q - zero_point)``.

    Parameters
    ----------
    scale : array (1,) or (C,), float32 or float64
        One scale for the tensor, or one per index along `axis`. A file's float32 stays float32:
        some multipliers are defined by the rounding of a float32 product.
    zero_point : array of the same shape, int64
        The integer that stands for zero.
    axis : int or None
        Dimension the scales run along; None for one scale.

    Raises
    ------
    ModelError
        A scale is not positive and finite, or the arrays differ in length.
    """

    scale: Array
    zero_point: Array
    axis: int | None = None

    def __post_init__(self) -> None:
        scale = np.atleast_1d(np.asarray(self.scale))
        if scale.dtype.kind != "f":
            scale = scale.astype(np.float64)
        zero_point = np.atleast_1d(np.asarray(self.zero_point)).astype(np.int64)
        if scale.ndim != 1 or scale.shape != zero_point.shape:
            raise ModelError(
                "Scales and zero points must be vectors of one length, not of shapes "
                f"{scale.shape} and {zero_point.shape}. Give one zero point for each scale."
            )
        if self.axis is None and scale.size != 1:
            raise ModelError(
                f"A quantization without an axis must have one scale, not {scale.size}. "
                "Name the axis that the scales run along."
            )
        if not (np.isfinite(scale) & (scale > 0)).all():
            bad = scale[~(np.isfinite(scale) & (scale > 0))][0]
            raise ModelError(
                f"A scale must be positive and finite, not {bad}. Quantize the model again."
            )
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "zero_point", zero_point)

    @property
    def per_tensor(self) -> bool:
        """Whether one scale serves the whole tensor."""
        return self.scale.size == 1

    def same_as(self, other: Quant) -> bool:
        """Whether both map every integer to the same real."""
        return (
            self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the graph.

    Parameters
    ----------
    name : str
        Unique in its graph.
    shape : tuple of int
        Static, () for a scalar; images are NHWC, convolution weights OHWI, depthwise ones 1HWC.
    dtype : numpy.dtype
        A float, an integer or bool.
    quant : Quant or None
        None for real numbers and plain integers.
    data : array or None
        The value of a constant, of `shape` and `dtype`; None for an activation.
    source : str
        The name in the file, for messages only: files repeat names.

    Raises
    ------
    ModelError
        A dimension is not a positive integer, `data` disagrees with `shape` or `dtype`, or the
        scales do not match the dimension they run along.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    quant: Quant | None = None
    data: Array | None = field(default=None, repr=False)
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        object.__setattr__(self, "shape", tuple(int(d) for d in self.shape))
        if any(d < 1 for d in self.shape):
            raise ModelError(
                f"Every dimension must be known and at least 1; tensor {self.name!r} has shape "
                f"{self.shape}. Export the model with static shapes."
            )
        if self.data is not None:
            object.__setattr__(self, "data", np.asarray(self.data))  # numpy's scalars are none
        if prod(self.shape) > _MOST_ELEMENTS:
            raise ModelError(
                f"A tensor must hold at most {_MOST_ELEMENTS:,} elements; {self.name!r} has shape "
                f"{self.shape}. Check the sizes it is made of."
            )
        if self.data is not None and (
            self.data.shape != self.shape or self.data.dtype != self.dtype
        ):
            raise ModelError(
                f"The data of a constant must have its shape and dtype; tensor {self.name!r} is "
                f"{self.dtype}{list(self.shape)} and its data {self.data.dtype}"
                f"{list(self.data.shape)}. Convert the data first."
            )
        self._check_axis()

    def _check_axis(self) -> None:
        if self.quant is None or self.quant.axis is None:
            return
        axis, count = self.quant.axis, self.quant.scale.size
        if not 0 <= axis < len(self.shape) or self.shape[axis] != count:
            raise ModelError(
                "Per-channel scales must match the dimension they run along; tensor "
                f"{self.name!r} has shape {self.shape}, axis {axis} and {count} scales. "
                "Quantize the model again."
            )

    @property
    def is_constant(self) -> bool:
        """Whether the value is part of the model."""
        return self.data is not None

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def label(self) -> str:
        """The name with the file's own name beside it, for messages."""
        return f"{self.name!r} ({self.source!r} in the file)" if self.source else repr(self.name)
