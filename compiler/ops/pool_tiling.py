"""Tiles of max pooling: what fits, and what is fastest by count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from vdla.config import Config
from vdla.errors import LoweringError
from vdla.timing import TIMING, compute_latency, store_latency, unloaded_load_latency

from .tiling import options

__all__ = ["MaxPool", "PoolTile", "choose_pool_tile"]


@dataclass(frozen=True, kw_only=True)
class MaxPool:
    """A max pooling operator in blocked layout.

    Attributes
    ----------
    batch_blocks, blocks : int
        Blocks of images and of channels.
    rows, columns : int
        Of the result.
    window, strides : (int, int)
        Rows and columns.
    by_product : bool
        Entries reach ACC through INP and the GEMM core, beside arithmetic.
    """

    batch_blocks: int
    blocks: int
    rows: int
    columns: int
    window: tuple[int, int]
    strides: tuple[int, int]
    by_product: bool

    def classes(self, axis: int) -> dict[int, list[int]]:
        """Return the places of a window by residue of the stride: how many strides on each is.

        A window of 3 and stride 2: place 0 and, a stride on, place 2; place 1: ``{0: [0, 1], 1:
        [0]}``.
        """
        found: dict[int, list[int]] = {}
        for place in range(self.window[axis]):
            found.setdefault(place % self.strides[axis], []).append(place // self.strides[axis])
        return found

    def shape(self, tail: tuple[int, int], rows: int | None = None) -> tuple[int, ...]:
        """Return the result's shape, or that of a tensor of other rows."""
        rows = self.rows if rows is None else rows
        return (self.batch_blocks, self.blocks, rows, self.columns, *tail)

    def input_entries(self, rows: int, columns: int) -> int:
        """Return the entries of one block that a tile reads."""
        high, wide = (
            (size - 1) * stride + window
            for size, stride, window in zip((rows, columns), self.strides, self.window, strict=True)
        )
        return high * wide

    def work(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the ACC entries of one block of a tile, and the issue slots it takes."""
        wide, down = self.classes(1), self.classes(0)
        entries, slots = 0, 0
        if not self.by_product:
            entries = self.input_entries(rows, columns)
        move = 1 + TIMING.tensor_slots
        for steps in down.values():
            lines = rows + max(steps)
            if self.by_product:
                brought = lines * sum(columns + max(s) for s in wide.values())
                if all(len(s) > 1 for s in wide.values()):
                    brought += lines * columns
                slots += brought
            else:
                brought = lines * columns
                slots += move * brought
            entries += brought
            slots += TIMING.tensor_slots * (self.window[1] - 1) * lines * columns
        if all(len(s) > 1 for s in down.values()):
            entries += rows * columns
            slots += move * rows * columns
        return entries, slots + TIMING.tensor_slots * (self.window[0] - 1) * rows * columns


@dataclass(frozen=True, kw_only=True)
class PoolTile:
    """Blocks, rows and columns of a tile, and what two virtual threads divide."""

    blocks: int
    rows: int
    columns: int
    thread_axis: str


def choose_pool_tile(pool: MaxPool, config: Config, vthreads: int) -> tuple[PoolTile, int]:
    """Return the best tile and its estimated cycles.

    Raises
    ------
    LoweringError
        Not even one window fits the scratchpads.
    """
    found = min(
        (
            (_cycles(pool, tile, config, vthreads), n, tile)
            for n, tile in _fitting(pool, config, vthreads)
        ),
        key=lambda item: item[:2],
        default=None,
    )
    if found is None:
        entries = pool.work(1, 1)[0]
        raise LoweringError(
            f"A pooling tile must fit the scratchpads; a {pool.window[0]}x{pool.window[1]} window "
            f"needs {entries} of {config.acc_depth // vthreads} acc entries and "
            f"{pool.input_entries(1, 1) if pool.by_product else 0} of "
            f"{config.inp_depth // vthreads} inp entries a virtual thread on {config.name}: "
            "enlarge acc_bytes and inp_bytes or place the layer on the cpu."
        )
    return found[2], found[0]


def _fitting(pool: MaxPool, config: Config, vthreads: int) -> Iterator[tuple[int, PoolTile]]:
    acc, inp = config.acc_depth // vthreads, config.inp_depth // vthreads
    number = 0
    for columns in options(pool.columns):
        for rows in options(pool.rows):
            entries = pool.work(rows, columns)[0]
            loaded = pool.input_entries(rows, columns) if pool.by_product else 0
            room = min(acc // entries, inp // loaded if loaded else pool.blocks)
            for blocks in options(pool.blocks):
                if blocks <= room:
                    yield (
                        number,
                        PoolTile(
                            blocks=blocks,
                            rows=rows,
                            columns=columns,
                            thread_axis=_axis(pool, blocks, rows, columns),
                        ),
                    )
                    number += 1
                    break


def _axis(pool: MaxPool, blocks: int, rows: int, columns: int) -> str:
    if rows < pool.rows:
        return "rows"
    return "blocks" if blocks < pool.blocks else "columns"


def _cycles(pool: MaxPool, tile: PoolTile, config: Config, vthreads: int) -> int:
    beats = max(1, config.out_elem_bytes // config.axi_bytes)
    load, drain = unloaded_load_latency(config), compute_latency(config)
    beside = pool.by_product and vthreads > 1
    total, tiles = 0, 0
    for (blocks, b), (rows, r), (columns, c) in product(
        _pieces(pool.blocks, tile.blocks),
        _pieces(pool.rows, tile.rows),
        _pieces(pool.columns, tile.columns),
    ):
        slots = blocks * pool.work(rows, columns)[1]
        loads = blocks * pool.input_entries(rows, columns) * beats
        count = b * r * c * pool.batch_blocks
        tiles += count
        both = max(slots, loads + load) if beside else slots + loads + load + drain
        total += count * (both + blocks * TIMING.sequencer_cycles)
    first = tile.blocks * pool.input_entries(tile.rows, tile.columns) * beats + 2 * load
    last = tile.blocks * tile.rows * tile.columns * beats + store_latency(config) + drain
    if beside and tiles % 2:
        total += load
    return total + first + last


def _pieces(size: int, factor: int) -> list[tuple[int, int]]:
    return list(Counter(min(factor, size - start) for start in range(0, size, factor)).items())
