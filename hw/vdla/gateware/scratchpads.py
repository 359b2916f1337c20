"""The five scratchpads, as block RAM with one write and one read port each."""

from __future__ import annotations

from amaranth.hdl import unsigned
from amaranth.lib import memory

__all__ = ["scratchpad"]


def scratchpad(width: int, depth: int) -> memory.Memory:
    """Return a memory that synthesis maps to block RAM."""
    return memory.Memory(shape=unsigned(width), depth=depth, init=[], attrs={"ram_style": "block"})
