"""What instructions read and write."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import ProgramError
from vdla.isa import MemoryType

__all__ = ["State"]

_UNWRITTEN = 0xA5
"""Fills every scratchpad byte at first: a program that reads what it never wrote gets neither
the zeros that happen to be right nor the leftovers of the launch before."""


@dataclass
class State:
    """The scratchpads and the memory, each with a leading image axis.

    Attributes
    ----------
    uop : ndarray of uint32, shape (uop_depth,)
        Micro-ops: the same for all images, as one program runs on them.
    inp : ndarray of int8, shape (images, inp_depth, batch, block_in)
    wgt : ndarray of int8, shape (images or 1, wgt_depth, block_out, block_in)
        The image axis stays 1 while every image loads the same weights.
    acc : ndarray of int32, shape (images, acc_depth, batch, block_out)
    out : ndarray of int8, shape (images, acc_depth, batch, block_out)
    dram : ndarray of uint8, shape (images, bytes)
    base : int
        Address of element 0 of every memory type, in bytes.
    """

    config: Config
    uop: NDArray[np.uint32]
    inp: NDArray[np.int8]
    wgt: NDArray[np.int8]
    acc: NDArray[np.int32]
    out: NDArray[np.int8]
    dram: NDArray[np.uint8]
    base: int

    @classmethod
    def fresh(cls, config: Config, dram: NDArray[np.uint8], base: int) -> State:
        """Return the state at a program's start.

        Parameters
        ----------
        dram : ndarray of uint8, shape (bytes,) or (images, bytes)
            Written in place.
        """
        if dram.dtype != np.uint8 or dram.ndim not in (1, 2):
            raise ProgramError(
                f"The memory image must be uint8 of shape (bytes,) or (images, bytes), not "
                f"{dram.dtype} of {dram.shape}."
            )
        dram = dram[np.newaxis] if dram.ndim == 1 else dram
        images, lanes = len(dram), (config.batch, config.block_out)

        def narrow(*shape: int) -> NDArray[np.int8]:
            return np.full(shape, _UNWRITTEN, np.uint8).view(np.int8)

        def wide(*shape: int) -> NDArray[np.uint32]:
            return np.full(shape, _UNWRITTEN * 0x01010101, np.uint32)

        return cls(
            config=config,
            uop=wide(config.uop_depth),
            inp=narrow(images, config.inp_depth, config.batch, config.block_in),
            wgt=narrow(1, config.wgt_depth, config.block_out, config.block_in),
            acc=wide(images, config.acc_depth, *lanes).view(np.int32),
            out=narrow(images, config.acc_depth, *lanes),
            dram=dram,
            base=base,
        )

    def write(self, memory_type: MemoryType, first: int, entries: NDArray[np.generic]) -> None:
        """Write consecutive entries of a scratchpad, shape (images, n, ...)."""
        span = slice(first, first + entries.shape[1])
        if memory_type is MemoryType.UOP:
            if (entries != entries[:1]).any():
                raise ProgramError("Micro-ops must be the same for all images; these differ.")
            self.uop[span] = entries[0]
        elif memory_type is MemoryType.WGT:
            if len(self.wgt) == 1 and (entries != entries[:1]).any():
                self.wgt = np.repeat(self.wgt, len(entries), axis=0)
            self.wgt[:, span] = entries[: len(self.wgt)]
        elif memory_type is MemoryType.INP:
            self.inp[:, span] = entries
        else:
            self.acc[:, span] = entries
