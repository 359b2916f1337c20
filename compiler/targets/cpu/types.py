"""Types of the loop IR in LLVM."""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ll

from vdla.errors import LoweringError

__all__ = [
    "ALIGN_BYTES",
    "I1",
    "I8",
    "I32",
    "I64",
    "POINTER",
    "aligned",
    "element_type",
    "itemsize",
    "register_type",
]

ALIGN_BYTES = 64
"""Of every buffer: a cache line, and the widest vector."""


I1, I8, I32, I64 = (ll.IntType(bits) for bits in (1, 8, 32, 64))
POINTER = ll.PointerType()

_TYPES: dict[str, Any] = {
    "bool": I8,
    "int8": I8,
    "uint8": I8,
    "int16": ll.IntType(16),
    "uint16": ll.IntType(16),
    "int32": I32,
    "uint32": I32,
    "int64": I64,
    "uint64": I64,
    "float16": ll.HalfType(),
    "float32": ll.FloatType(),
    "float64": ll.DoubleType(),
}
_SIZES = {"bool": 1, "float16": 2, "float32": 4, "float64": 8}


def element_type(dtype: str) -> Any:
    """Return the type of an element in memory."""
    if dtype not in _TYPES:
        raise LoweringError(f"A dtype must be one of {', '.join(_TYPES)}, not {dtype}.")
    return _TYPES[dtype]


def register_type(dtype: str) -> Any:
    """Return the type of a value that is computed with: a bool is one bit."""
    return I1 if dtype == "bool" else element_type(dtype)


def itemsize(dtype: str) -> int:
    """Return the bytes of an element in memory."""
    return _SIZES.get(dtype) or element_type(dtype).width // 8


def aligned(size: int) -> int:
    """Return bytes rounded up to a multiple of `ALIGN_BYTES`."""
    return -(-size // ALIGN_BYTES) * ALIGN_BYTES
