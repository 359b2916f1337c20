"""LOAD and STORE."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import ProgramError
from vdla.isa import Load, MemoryType, Store, element_bytes, sram_depth

from .state import State

__all__ = ["execute_load", "execute_store", "require_transfer"]


def execute_load(state: State, load: Load) -> None:
    """Fill consecutive scratchpad entries with a padded block from memory.

    A block of no columns writes nothing, not even its padding; one of no rows writes its padding
    above and below and reads no memory.
    """
    if load.sram_size == 0:
        return
    require_transfer(state, load)
    config, kind = state.config, load.memory_type
    dtype, shape = _element(config, kind)
    rows = load.y_pad_0 + load.y_size + load.y_pad_1
    columns = load.x_pad_0 + load.x_size + load.x_pad_1
    images = len(state.dram)
    padding = np.array(load.pad_value).astype(dtype)
    entries = np.full((images, rows, columns, *shape), padding)
    if load.y_size:
        block = np.ascontiguousarray(_block(state, load)).view(dtype)
        entries[
            :,
            load.y_pad_0 : load.y_pad_0 + load.y_size,
            load.x_pad_0 : load.x_pad_0 + load.x_size,
        ] = block.reshape(images, load.y_size, load.x_size, *shape)
    state.write(kind, load.sram_base, entries.reshape(images, rows * columns, *shape))


def execute_store(state: State, store: Store) -> None:
    """Copy consecutive OUT entries to a block in memory, row after row."""
    if store.x_size == 0 or store.y_size == 0:
        return
    require_transfer(state, store)
    count = store.y_size * store.x_size
    entries = state.out[:, store.sram_base : store.sram_base + count]
    rows = entries.reshape(len(entries), store.y_size, -1).view(np.uint8)
    block = _block(state, store)
    if store.x_stride >= store.x_size:
        block[...] = rows
        return
    for y in range(store.y_size):  # rows overlap: the last one counts
        block[:, y] = rows[:, y]


def require_transfer(state: State, transfer: Load | Store) -> None:
    """Raise where a transfer that moves anything leaves its scratchpad or the memory."""
    config, kind = state.config, transfer.memory_type
    moved = transfer.y_size * transfer.x_size
    count = transfer.sram_size if isinstance(transfer, Load) else moved
    depth = sram_depth(kind, config)
    if transfer.sram_base + count > depth:
        raise ProgramError(
            f"{kind.name} entries must lie below {depth} on {config.name}, not reach "
            f"{transfer.sram_base}..{transfer.sram_base + count - 1}."
        )
    if moved == 0:
        return
    first, end = _addresses(state, transfer)
    if first < 0 or end > state.dram.shape[1]:
        raise ProgramError(
            f"Memory addresses must lie in 0..{state.dram.shape[1] - 1:#x}, the image given, not "
            f"{first:#x}..{end - 1:#x}."
        )


def _addresses(state: State, transfer: Load | Store) -> tuple[int, int]:
    """Return the first byte a transfer touches and the one behind its last."""
    size = element_bytes(transfer.memory_type, state.config)
    first = state.base + transfer.dram_base * size
    span = (transfer.y_size - 1) * transfer.x_stride + transfer.x_size
    return first, first + span * size


def _element(config: Config, kind: MemoryType) -> tuple[type[np.generic], tuple[int, ...]]:
    """Return dtype and shape of an element in memory."""
    if kind is MemoryType.UOP:
        return np.uint32, ()
    if kind is MemoryType.WGT:
        return np.int8, (config.block_out, config.block_in)
    if kind is MemoryType.INP:
        return np.int8, (config.batch, config.block_in)
    return (np.int32 if kind is MemoryType.ACC else np.int8), (config.batch, config.block_out)


def _block(state: State, transfer: Load | Store) -> NDArray[np.uint8]:
    """Return a view of the memory a transfer touches, shape (images, y_size, row bytes)."""
    size = element_bytes(transfer.memory_type, state.config)
    first, _ = _addresses(state, transfer)
    by_image, by_byte = state.dram.strides
    return as_strided(
        state.dram[:, first:],
        (len(state.dram), transfer.y_size, transfer.x_size * size),
        (by_image, transfer.x_stride * size * by_byte, by_byte),
    )
