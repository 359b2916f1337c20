"""What every GPU has room for, and what kernels compute with so far."""

from __future__ import annotations

import numpy as np

from vdla.errors import LoweringError

from .dialect import C_TYPES
from .kernel import Kernel

__all__ = ["BLOCK_THREADS", "SHARED_BYTES", "check_limits", "shared_bytes"]

BLOCK_THREADS = 1024
"""Threads of a block, on NVIDIA's since compute capability 2.0 and on Apple's."""
SHARED_BYTES = 32 << 10
"""Shared memory of a block that OpenCL 1.1 and Metal promise; CUDA gives 48 KiB without asking."""
GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""Blocks of CUDA's grids along x, y and z; the others take more."""
LARGEST = 2**31 - 1
"""Elements of an array that indices of 32 bits reach."""


def shared_bytes(kernel: Kernel) -> int:
    """Return what the shared arrays of a block take."""
    return sum(b.total * np.dtype(b.dtype).itemsize for b in kernel.shared)


def check_limits(kernel: Kernel) -> None:
    """Check that a kernel fits every GPU.

    Raises
    ------
    LoweringError
        Names what does not fit, or cannot be computed with yet.
    """
    arrays = (*(p.buffer for p in kernel.parameters), *kernel.shared, *kernel.registers)
    for buffer in arrays:
        if buffer.dtype not in C_TYPES:
            raise LoweringError(
                f"A kernel computes with {', '.join(C_TYPES)} so far, and {buffer.name} is "
                f"{buffer.dtype}: convert it before, or leave the operator on the processor."
            )
        if buffer.total > LARGEST:
            raise LoweringError(
                f"An array must have at most {LARGEST:,} elements, and {buffer.name} has "
                f"{buffer.total:,}: split the batch."
            )
    x, y, z = kernel.block
    if x * y * z > BLOCK_THREADS:
        raise LoweringError(
            f"A block must have at most {BLOCK_THREADS} threads, and {kernel.name} has "
            f"{x} x {y} x {z}: bind shorter loops."
        )
    for axis, blocks, most in zip("xyz", kernel.grid, GRID, strict=True):
        if blocks > most:
            raise LoweringError(
                f"A grid must have at most {most:,} blocks along {axis}, and {kernel.name} has "
                f"{blocks:,}: bind a longer loop to x, or make larger tiles."
            )
    taken = shared_bytes(kernel)
    if taken > SHARED_BYTES:
        raise LoweringError(
            f"Shared arrays of a block must take at most {SHARED_BYTES:,} bytes, and those of "
            f"{kernel.name} take {taken:,} "
            f"({', '.join(f'{b.name}: {b.total:,} elements' for b in kernel.shared)}): make "
            "smaller tiles."
        )
