"""A convolution's schedule played through load, compute and store, a tile at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from vdla.config import Config
from vdla.timing import (
    INSTRUCTION_BYTES,
    TIMING,
    compute_latency,
    store_latency,
    unloaded_load_latency,
)

from .conv2d import Conv2d, ConvTile
from .footprint import input_window, param_entries, weight_entries

__all__ = ["play"]

Tile = tuple[int, int, int]
"""Output blocks, rows and columns."""


def play(conv: Conv2d, tile: ConvTile, config: Config, *, steps: int = 400) -> int:
    """Return a schedule's cycles, from the timing table and the order of the instruction stream.

    Every load, product, requantization and store takes its place in its module behind the one
    before and behind those whose tokens it awaits. Left out are single instructions' fetch, uneven
    bursts and micro-ops: what costs a few cycles each.

    Parameters
    ----------
    conv : Conv2d
    tile : ConvTile
    config : Config
    steps : int
        Loads and their arithmetic that are played; a longer schedule goes on as it went.
    """
    player = _Player(conv, tile, config)
    groups = _groups(conv, tile)
    parts = _split(conv.reduction_blocks, tile.in_blocks)
    limit = max(4, steps // len(parts))
    marks = []
    for number, (fresh, tiles) in enumerate(groups):
        if number == limit:
            break
        player.group(tiles, parts, fresh)
        marks.append(player.compute)
    left = len(groups) - len(marks)
    if left:
        half = len(marks) // 2
        pace = (marks[-1] - marks[half - 1]) / (len(marks) - half)
        return round(player.end + left * pace)
    return round(player.end)


def _split(size: int, factor: int) -> list[int]:
    return [min(factor, size - start) for start in range(0, size, factor)]


def _groups(conv: Conv2d, tile: ConvTile) -> list[tuple[bool, list[Tile]]]:
    """Return tiles that run beside each other, and whether they need other weights than before."""
    ks, ys, xs = (
        _split(size, factor)
        for size, factor in (
            (conv.out_blocks, tile.out_blocks),
            (conv.out_height, tile.rows),
            (conv.out_width, tile.columns),
        )
    )
    pairs_k = _pairs(ks) if tile.thread_axis == "out" else [[k] for k in ks]
    pairs_y = _pairs(ys) if tile.thread_axis == "rows" else [[y] for y in ys]
    inner = list(product(pairs_y, xs))
    return [
        (number == 0, [(k, y, x) for k in pair_k for y in pair_y])
        for _ in range(conv.batch_blocks)
        for pair_k in pairs_k
        for number, (pair_y, x) in enumerate(inner)
    ]


def _pairs(sizes: list[int]) -> list[list[int]]:
    return [sizes[start : start + 2] for start in range(0, len(sizes), 2)]


@dataclass
class _Channel:
    """A port of the memory: when it takes the next transfer, when its data end."""

    latency: int
    burst_beats: int
    slots: int
    next_start: float = 0
    data_end: float = 0
    _known: dict[tuple[int, int], tuple[float, int, int]] = field(default_factory=dict)

    def move(self, ready: float, rows: int, row_beats: int) -> float:
        """Transfer rows of some beats, once ``ready``, and return when the last beat is through."""
        key = rows, row_beats
        held, opened, ahead = self._known.get(key) or self._known.setdefault(key, self._work(*key))
        start = ready if ready > self.next_start else self.next_start
        begun = start + self.latency
        self.data_end = (begun if begun > self.data_end else self.data_end) + held
        free, drained = start + opened, self.data_end - ahead
        self.next_start = free if free > drained else drained
        return self.data_end

    def _work(self, rows: int, row_beats: int) -> tuple[float, int, int]:
        """Return the cycles a transfer holds the bus, its first bursts, and beats in flight."""
        bursts = rows * -(-row_beats // self.burst_beats)
        beats = rows * row_beats
        # Short bursts leave slots empty until they return.
        held = max(beats, bursts * (beats / bursts + self.latency) / self.slots)
        return held, min(bursts, self.slots), self.slots * min(self.burst_beats, row_beats)


@dataclass
class _Player:
    conv: Conv2d
    tile: ConvTile
    config: Config
    compute: float = 0
    """When the issue stage is free."""
    end: float = 0
    inputs_free: list[float] = field(default_factory=lambda: [0, 0])
    weights_free: list[float] = field(default_factory=lambda: [0, 0])
    weights_there: list[float] = field(default_factory=lambda: [0, 0])
    results_free: list[float] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        config, axi = self.config, self.config.axi_bytes
        self._sizes: dict[tuple[Tile, int], tuple[int, int, int]] = {}
        self._drain = compute_latency(config) + 1
        self._inp, self._wgt, self._acc, self._out = (
            max(1, size // axi)
            for size in (
                config.inp_elem_bytes,
                config.wgt_elem_bytes,
                config.acc_elem_bytes,
                config.out_elem_bytes,
            )
        )
        burst, slots = config.axi_burst_beats, config.axi_outstanding
        self._load = _Channel(unloaded_load_latency(config), burst, slots)
        self._store = _Channel(store_latency(config), burst, slots)
        self._fetch = max(1, INSTRUCTION_BYTES // axi)
        boot = self._load.latency + TIMING.queue_cycles
        self._load.next_start = boot
        self.compute = boot + self._load.latency
        if not self.tile.params_inside:
            params = 3 * self.conv.out_blocks * self._acc
            self.compute += self._load.latency + params
            self._load.data_end = boot + self._load.latency + params

    def group(self, tiles: list[Tile], parts: list[int], fresh: bool) -> None:
        """Play the tiles of one or two virtual threads."""
        outside = self.tile.weights_outside
        if outside and fresh:
            self._outside(tiles, sum(parts))
        for number, part in enumerate(parts):
            ready = [
                self._bring(t, tile, part, first=number == 0, weights=not outside)
                for t, tile in enumerate(tiles)
            ]
            last = number == len(parts) - 1
            if last and self.conv.added_passes:
                for t, tile in enumerate(tiles):
                    self._load.move(self.inputs_free[t], tile[0], tile[1] * tile[2] * self._out)
            for t, tile in enumerate(tiles):
                self._multiply(t, tile, part, ready[t], first=number == 0, last=last)
                if last and len(parts) == 1:
                    self._finish(t, tile)
        if len(parts) > 1:
            # The threads' last products stand before either's requantization.
            done = [self._requantize(tile) for tile in tiles]
            for t, tile in enumerate(tiles):
                self._put(t, tile, done[t])

    def _outside(self, tiles: list[Tile], blocks: int) -> None:
        shared = self.tile.thread_axis == "rows"
        for t, tile in enumerate(tiles[:1] if shared else tiles):
            free = max(self.weights_free) if shared else self.weights_free[t]
            entries = weight_entries(self.conv, tile[0], blocks)
            self.weights_there[t] = self._load.move(free, 1, entries * self._wgt + self._fetch)
        if shared:
            self.weights_there[1] = self.weights_there[0]

    def _bring(self, t: int, tile: Tile, part: int, *, first: bool, weights: bool) -> float:
        there = 0.0
        rows, row_beats, weight_beats = self._sizes.get((tile, part)) or self._measure(tile, part)
        if first or not self.conv.listed:
            there = self._load.move(self.inputs_free[t], rows, row_beats)
        if weights:
            there = self._load.move(self.weights_free[t], 1, weight_beats)
        self._load.data_end += 4 * self._fetch
        return max(there, self.weights_there[t]) + 1

    def _measure(self, tile: Tile, part: int) -> tuple[int, int, int]:
        """Return the rows of a tile's inputs, a row's beats, and the beats of its weights."""
        blocks, rows, columns = input_window(self.conv, *tile, part)
        entries = weight_entries(self.conv, tile[0], part)
        sizes = blocks * rows, columns * self._inp, entries * self._wgt
        self._sizes[tile, part] = sizes
        return sizes

    def _multiply(
        self, t: int, tile: Tile, part: int, ready: float, *, first: bool, last: bool
    ) -> None:
        start = max(self.compute, ready, self.results_free[t] if first else 0)
        # The last part takes what is beyond full blocks, less what is never met, on average.
        conv = self.conv
        taps: float = part * conv.taps
        if last:
            taps += conv.products - conv.reduction_blocks * conv.taps
        self.compute = start + tile[0] * tile[1] * tile[2] * taps
        self.inputs_free[t] = self.weights_free[t] = self.compute + self._drain

    def _requantize(self, tile: Tile) -> list[float]:
        """Return when each output block is ready to be stored."""
        if self.tile.params_inside:
            params = param_entries(self.conv, self.tile) * self._acc
            self.compute += self._drain + self._load.latency + params
        if self.conv.added_passes:
            self.compute += self.conv.added_passes * tile[0] * tile[1] * tile[2]
            self.compute += TIMING.rq_parameter_reads * (tile[0] + self.conv.added_sets)
        done = []
        for _ in range(tile[0]):
            vectors = tile[1] * tile[2]
            switches = vectors if self.conv.params_by_place else 1
            self.compute += TIMING.rq_parameter_reads * switches + vectors
            done.append(self.compute + self._drain)
        return done

    def _put(self, t: int, tile: Tile, done: list[float]) -> None:
        whole = tile[2] == self.conv.out_width
        rows, columns = (1, tile[1] * tile[2]) if whole else tile[1:]
        for ready in done:
            self._store.move(ready, rows, columns * self._out)
        self.results_free[t] = self._store.data_end + 1
        self.end = self.results_free[t] + TIMING.sequencer_cycles + self._drain

    def _finish(self, t: int, tile: Tile) -> None:
        self._put(t, tile, self._requantize(tile))
