"""The two loops around a micro-op kernel: which entries each micro-op names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import ProgramError
from vdla.isa import Alu, Gemm, decode_uops

__all__ = ["MicroOps", "micro_ops", "require_below"]

MicroOps = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Columns dst, src and wgt of micro-ops in the order they execute."""


def micro_ops(
    buffer: NDArray[np.uint32], instruction: Gemm | Alu, config: Config, at_most: int
) -> Iterator[MicroOps]:
    """Yield an instruction's micro-ops in order, about `at_most` at a time.

    ``index = uop.index + i_out * factor_out + i_in * factor_in``, the micro-ops innermost.
    A yield holds whole iterations of the inner loop, and at least one.

    Parameters
    ----------
    buffer : ndarray of uint32, shape (uop_depth,)

    Raises
    ------
    ProgramError
        The kernel reaches past the micro-op buffer.
    """
    if instruction.count == 0:
        return
    if instruction.uop_end > config.uop_depth:
        raise ProgramError(
            f"Micro-ops must lie below {config.uop_depth} on {config.name}, not reach "
            f"{instruction.uop_end - 1}."
        )
    kernel = decode_uops(buffer[instruction.uop_begin : instruction.uop_end], config)
    factors = (
        (instruction.dst_factor_out, instruction.dst_factor_in),
        (instruction.src_factor_out, instruction.src_factor_in),
        (
            (instruction.wgt_factor_out, instruction.wgt_factor_in)
            if isinstance(instruction, Gemm)
            else (0, 0)
        ),
    )
    iterations = instruction.iter_out * instruction.iter_in
    step = max(1, at_most // len(kernel[0]))
    for first in range(0, iterations, step):
        outer, inner = divmod(np.arange(first, min(first + step, iterations)), instruction.iter_in)
        dst, src, wgt = (
            (index + (outer * f_out + inner * f_in)[:, np.newaxis]).ravel()
            for index, (f_out, f_in) in zip(kernel, factors, strict=True)
        )
        yield dst, src, wgt


def require_below(name: str, indices: NDArray[np.int64], depth: int) -> None:
    """Raise where an index lies past its buffer."""
    highest = int(indices.max())
    if highest >= depth:
        raise ProgramError(f"{name} indices must lie below {depth}, not reach {highest}.")
