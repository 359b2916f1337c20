"""What a kernel gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from vdla.module import Layer, TensorInfo

from .arithmetic import Array

__all__ = ["Kernel", "Operand"]


class Operand(NamedTuple):
    """An array and the tensor it is a value of; the array may hold several images."""

    info: TensorInfo
    array: Array

    @property
    def scale(self) -> np.float32:
        """The one scale, as TFLite keeps it."""
        assert self.info.scale is not None
        return np.float32(self.info.scale[0])

    @property
    def zero_point(self) -> int:
        """The one zero point."""
        assert self.info.zero_point is not None
        return int(self.info.zero_point[0])


Kernel = Callable[[Layer, Sequence[Operand], TensorInfo], Array]
