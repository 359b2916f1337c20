"""The operators that stay on the host's processor, on numpy arrays, to the bit as TFLite's."""

from __future__ import annotations

from .operators import KERNELS, Operand

__all__ = ["KERNELS", "Operand"]
