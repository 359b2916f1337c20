"""Sizes that follow from an instruction's memory type."""

from __future__ import annotations

from vdla.config import Config

from .fields import MemoryType

__all__ = ["element_bytes", "sram_depth"]


def element_bytes(memory_type: MemoryType, config: Config) -> int:
    """Return the bytes in memory of what ``dram_base``, ``x_size`` and ``x_stride`` count.

    ACC_8BIT holds an ACC entry with one byte a lane, as OUT does.
    """
    kind = "out" if memory_type is MemoryType.ACC_8BIT else memory_type.name.lower()
    return int(getattr(config, f"{kind}_elem_bytes"))


def sram_depth(memory_type: MemoryType, config: Config) -> int:
    """Return the entries of the scratchpad that a memory type fills or reads."""
    if memory_type in (MemoryType.ACC_8BIT, MemoryType.OUT):
        return config.acc_depth
    return int(getattr(config, f"{memory_type.name.lower()}_depth"))
