"""DSP slices and block RAM, exactly: what yosys makes of the gateware's multipliers and memories.

Multipliers: two int8 products share a slice, and a lane's 32 x 32 product takes four. Memories:
INP, WGT, OUT, ACC and UOP are kept in block RAM by an attribute; a command queue is where that
costs less than LUTs. Everything else is in LUTs and flip-flops.
"""

from __future__ import annotations

from collections.abc import Iterator

from vdla.config import Config

__all__ = ["block_rams", "dsp_slices", "multipliers", "queue_in_luts"]

_SHAPES = (
    (1 << 9, 36, 0.5),
    (1 << 10, 18, 0.5),
    (1 << 11, 9, 0.5),
    (1 << 12, 4, 0.5),
    (1 << 13, 2, 0.5),
    (1 << 14, 1, 0.5),
    (1 << 9, 72, 1.0),
    (1 << 10, 36, 1.0),
    (1 << 11, 18, 1.0),
    (1 << 12, 9, 1.0),
    (1 << 13, 4, 1.0),
    (1 << 14, 2, 1.0),
    (1 << 15, 1, 1.0),
)
"""Depth and width that a RAMB18 or RAMB36 may have, one port writing and one reading, and its
share of a RAMB36 (UG473, tables 1-7 and 1-8; UG573 has the same)."""

_QUEUE_BITS = 128 + 16  # an instruction and its index
_QUEUES = 3
_QUEUE_DEPTH_IN_LUTS = 64
"""Deepest command queue that yosys keeps in distributed RAM."""

_LANE_SLICES = 4


def multipliers(config: Config) -> int:
    """Return the DSP slices of the GEMM core."""
    return config.batch * max(1, config.block_out // 2) * config.block_in


def dsp_slices(config: Config) -> int:
    """Return the DSP slices of a configuration: of its core and of its requantizing lanes."""
    return multipliers(config) + _LANE_SLICES * config.batch * config.block_out


def queue_in_luts(config: Config) -> bool:
    """Return whether command queues are in distributed RAM."""
    return config.command_queue_depth <= _QUEUE_DEPTH_IN_LUTS


def block_rams(config: Config) -> float:
    """Return the block RAM of a configuration, in RAMB36; a RAMB18 is half of one."""
    return sum(_block_rams(width, depth) for width, depth in _memories(config))


def _memories(config: Config) -> Iterator[tuple[int, int]]:
    """Yield bits and entries of each memory in block RAM."""
    yield 8 * config.uop_elem_bytes, config.uop_depth
    yield 8 * config.inp_elem_bytes, config.inp_depth
    yield 8 * config.wgt_elem_bytes, config.wgt_depth
    yield 8 * config.acc_elem_bytes, config.acc_depth
    yield 8 * config.out_elem_bytes, config.acc_depth
    if not queue_in_luts(config):
        for _ in range(_QUEUES):
            yield _QUEUE_BITS, config.command_queue_depth


def _block_rams(width: int, depth: int) -> float:
    return min(-(-depth // rows) * -(-width // columns) * share for rows, columns, share in _SHAPES)
