"""The operators that stay on the host's processor, on numpy arrays, to the bit as TFLite's."""

from __future__ import annotations

from .operands import Operand
from .operators import KERNELS

__all__ = ["KERNELS", "Operand"]
