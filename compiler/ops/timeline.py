"""A convolution's schedule played through load, compute and store, a tile at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from typing import NamedTuple

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

Tiles = tuple[Tile, ...]
"""Of one or two virtual threads, beside each other."""

Work = tuple[float, int, int]
"""Of a transfer: the cycles it holds the bus, its first bursts, and beats in flight."""

Step = tuple[tuple[Work, ...], float]
"""Of a tile and a part of its reduction: its loads, and the cycles of its products."""


class _Plan(NamedTuple):
    """What a group of tiles does: by part and tile, and by tile the addend's load and a store."""

    steps: list[list[Step]]
    addends: list[Work]
    stores: list[Work]


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
    count, groups = _groups(conv, tile)
    marks = []
    for fresh, tiles in islice(groups, max(4, steps // len(player.parts))):
        player.group(tiles, fresh)
        marks.append(player.compute)
    left = count - len(marks)
    if left:
        half = len(marks) // 2
        pace = (marks[-1] - marks[half - 1]) / (len(marks) - half)
        return round(player.end + left * pace)
    return round(player.end)


def _split(size: int, factor: int) -> list[int]:
    return [min(factor, size - start) for start in range(0, size, factor)]


def _groups(conv: Conv2d, tile: ConvTile) -> tuple[int, Iterator[tuple[bool, Tiles]]]:
    """Return how many groups there are; and of each, whether its weights are new, and its tiles."""
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
    every = (
        (number == 0, tuple((k, y, x) for k in pair_k for y in pair_y))
        for _ in range(conv.batch_blocks)
        for pair_k in pairs_k
        for number, (pair_y, x) in enumerate(product(pairs_y, xs))
    )
    return conv.batch_blocks * len(pairs_k) * len(pairs_y) * len(xs), every


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

    def move(self, ready: float, work: Work) -> float:
        """Transfer, once ``ready``, and return when the last beat is through."""
        return self.move_each((ready,), work)

    def move_each(self, times: Iterable[float], work: Work) -> float:
        """Do the same transfer once each time has come, and return when the last one is through."""
        held, opened, ahead = work
        latency, next_start, data_end = self.latency, self.next_start, self.data_end
        for ready in times:
            start = ready if ready > next_start else next_start
            begun = start + latency
            data_end = (begun if begun > data_end else data_end) + held
            free, drained = start + opened, data_end - ahead
            next_start = free if free > drained else drained
        self.next_start, self.data_end = next_start, data_end
        return data_end

    def work(self, rows: int, row_beats: int) -> Work:
        """Return what it takes to transfer rows of some beats."""
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
    loads_free: list[float] = field(default_factory=lambda: [0, 0])
    """When a thread's inputs and weights may be replaced."""
    weights_there: list[float] = field(default_factory=lambda: [0, 0])
    results_free: list[float] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        config, axi = self.config, self.config.axi_bytes
        self.parts = _split(self.conv.reduction_blocks, self.tile.in_blocks)
        self._plans: dict[Tiles, _Plan] = {}
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

    def group(self, tiles: Tiles, fresh: bool) -> None:
        """Play the tiles of one or two virtual threads."""
        if self.tile.weights_outside and fresh:
            self._outside(tiles)
        plan = self._plans.get(tiles)
        if plan is None:
            plan = self._plans[tiles] = self._planned(tiles)
        steps, addends, stores = plan
        last = len(steps) - 1
        for number, step in enumerate(steps):
            ready = self._bring(step)
            if number == last:
                for t, addend in enumerate(addends):
                    self._load.move(self.loads_free[t], addend)
            for t, (_, cycles) in enumerate(step):
                start = max(self.compute, ready[t], self.results_free[t] if number == 0 else 0)
                self.compute = start + cycles
                self.loads_free[t] = self.compute + self._drain
                if last == 0:
                    self._put(t, stores[t], self._requantize(tiles[t]))
        if last > 0:
            # The threads' last products stand before either's requantization.
            done = [self._requantize(tile) for tile in tiles]
            for t, store in enumerate(stores):
                self._put(t, store, done[t])

    def _bring(self, step: list[Step]) -> list[float]:
        """Load what each tile's step needs, and return when it is there.

        Half of all time is spent here, so that `_Channel.move` is written out.
        """
        load, fetched = self._load, 4 * self._fetch
        latency, next_start, data_end = load.latency, load.next_start, load.data_end
        ready = []
        for (works, _), free, kept in zip(step, self.loads_free, self.weights_there, strict=False):
            there = 0.0
            for held, opened, ahead in works:
                start = free if free > next_start else next_start
                begun = start + latency
                there = data_end = (begun if begun > data_end else data_end) + held
                opens, drained = start + opened, data_end - ahead
                next_start = opens if opens > drained else drained
            data_end += fetched
            ready.append((there if there > kept else kept) + 1)
        load.next_start, load.data_end = next_start, data_end
        return ready

    def _outside(self, tiles: Tiles) -> None:
        shared = self.tile.thread_axis == "rows"
        for t, tile in enumerate(tiles[:1] if shared else tiles):
            free = max(self.loads_free) if shared else self.loads_free[t]
            entries = weight_entries(self.conv, tile[0], sum(self.parts))
            work = self._load.work(1, entries * self._wgt + self._fetch)
            self.weights_there[t] = self._load.move(free, work)
        if shared:
            self.weights_there[1] = self.weights_there[0]

    def _planned(self, tiles: Tiles) -> _Plan:
        last = len(self.parts) - 1
        steps = [
            [self._step(tile, part, first=number == 0, last=number == last) for tile in tiles]
            for number, part in enumerate(self.parts)
        ]
        addends, stores = [], []
        for blocks, rows, columns in tiles:
            if self.conv.added_passes:
                addends.append(self._load.work(blocks, rows * columns * self._out))
            shape = (1, rows * columns) if columns == self.conv.out_width else (rows, columns)
            stores.append(self._store.work(shape[0], shape[1] * self._out))
        return _Plan(steps, addends, stores)

    def _step(self, tile: Tile, part: int, *, first: bool, last: bool) -> Step:
        conv = self.conv
        loads = []
        if first or not conv.listed:
            blocks, rows, columns = input_window(conv, *tile, part)
            loads.append(self._load.work(blocks * rows, columns * self._inp))
        if not self.tile.weights_outside:
            loads.append(self._load.work(1, weight_entries(conv, tile[0], part) * self._wgt))
        # The last part takes what is beyond full blocks, less what is never met, on average.
        taps: float = part * conv.taps
        if last:
            taps += conv.products - conv.reduction_blocks * conv.taps
        return tuple(loads), tile[0] * tile[1] * tile[2] * taps

    def _requantize(self, tile: Tile) -> list[float]:
        """Return when each output block is ready to be stored."""
        if self.tile.params_inside:
            params = param_entries(self.conv, self.tile) * self._acc
            self.compute += self._drain + self._load.latency + params
        vectors = tile[1] * tile[2]
        if self.conv.added_passes:
            self.compute += self.conv.added_passes * tile[0] * vectors
            self.compute += TIMING.rq_parameter_reads * (tile[0] + self.conv.added_sets)
        switches = vectors if self.conv.params_by_place else 1
        cycles = TIMING.rq_parameter_reads * switches + vectors
        done = []
        for _ in range(tile[0]):
            self.compute += cycles
            done.append(self.compute + self._drain)
        return done

    def _put(self, t: int, store: Work, done: list[float]) -> None:
        self.results_free[t] = self._store.move_each(done, store) + 1
        self.end = self.results_free[t] + TIMING.sequencer_cycles + self._drain
