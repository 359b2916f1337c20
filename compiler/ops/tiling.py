"""The tile search: what fits the scratchpads, ranked by an analytic estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import prod

from vdla.config import Config
from vdla.errors import LoweringError
from vdla.timing import (
    INSTRUCTION_BYTES,
    TIMING,
    compute_latency,
    store_latency,
    unloaded_load_latency,
)

from .conv2d import Conv2d, ConvTile
from .footprint import fits, input_window, param_entries, threads_of, weight_entries
from .timeline import play

__all__ = ["Rank", "bound", "candidates", "choose_tile", "floor", "options"]

Rank = Callable[[ConvTile], int]
"""Cycles of a candidate, as measured by whoever asks for the search."""

_SKIMMED, _PLAYED = 256, 24
"""Candidates of the best bounds whose beginning is played, and of those, that are played on."""

_SKIM_STEPS = 48

_LIGHT, _ALIKE = 8, 1.01
"""Candidates that load least, played as well if their beginning is about as good as the best."""

_TIE = 1.002
"""Times so close that the candidate which loads least is taken: the bus is spared at no cost."""

_MEASURED = 12
"""Candidates of the best estimates that are measured where a measure is given."""


_TILE_CYCLES = 4
"""Of every block of output channels in a tile: RQ reads its parameters, GEMM starts anew."""


_STEP_INSTRUCTIONS = 4
"""A load of inputs, one of weights, and two of arithmetic, roughly: what fetch reads a step."""


def options(size: int) -> list[int]:
    """Return tile sizes that divide a dimension as evenly as possible."""
    return sorted({-(-size // parts) for parts in range(1, size + 1)}, reverse=True)


def bound(conv: Conv2d, tile: ConvTile, config: Config) -> int:
    """Return roughly a schedule's cycles, by the sums that bound a two-stage pipeline.

    It only chooses what `play` looks at.

    While both virtual threads have work, the loads of one run beside the arithmetic of the other.
    Three things bound that: the arithmetic, the bus, and one thread's own round of load, hand-over
    and arithmetic, of which two run side by side. A tile without a partner waits for its own
    loads. Added is what never overlaps: the first load, the last requantization and store.
    """
    threads = threads_of(conv, tile)
    bus = _Bus(conv, tile, config)
    parts, tiles, tiles_k, whole = bus.parts, bus.tiles, bus.tiles_k, bus.whole_weights
    divided = tiles_k if tile.thread_axis == "out" else bus.tiles_y
    alone = 1.0 if threads == 1 else (divided % 2) / divided

    arithmetic = (
        conv.uops + conv.vectors * (1 + conv.added_passes) + tiles * _TILE_CYCLES * tile.out_blocks
    )
    if tile.params_inside:
        entry = config.acc_elem_bytes // config.axi_bytes
        load = unloaded_load_latency(config) + compute_latency(config)
        arithmetic += tiles * (load + param_entries(conv, tile) * entry)
    if conv.params_by_place:
        arithmetic += conv.vectors * TIMING.rq_parameter_reads
    outside, weights, loads = tile.weights_outside, bus.weights, bus.cycles
    hand_over = unloaded_load_latency(config) + compute_latency(config)
    serial = arithmetic + loads + tiles * parts * hand_over
    # Weights kept over a tile's rows are replaced only when the last row has used them.
    exposed = 0
    if outside and threads == 2:
        exposed = (tiles_k - 1) * (whole if tile.thread_axis == "rows" else whole // 2)
    steps = tiles * parts
    fetched = steps * _STEP_INSTRUCTIONS * max(1, INSTRUCTION_BYTES // config.axi_bytes)
    rounds = (arithmetic + (loads - weights if outside else loads) + steps * hand_over) // 2
    together = max(arithmetic + exposed, loads + fetched, rounds)

    vectors = tile.rows * tile.columns * tile.out_blocks
    beats = max(1, config.out_elem_bytes // config.axi_bytes)
    first = bus.inputs_a_step + (whole if outside else bus.weights_a_step) + hand_over
    last = vectors * (1 + beats) + compute_latency(config) + store_latency(config)
    return round(alone * serial + (1 - alone) * together) + first + last


def floor(conv: Conv2d, tile: ConvTile, config: Config) -> int:
    """Return cycles that a schedule cannot go below.

    The core takes a cycle for each product of blocks, requantization and every pass after it one
    for each entry of the result, and they share one module. The bus takes one for each
    ``axi_bytes`` of what is read: of a plain convolution, the weights once a tile or once a run of
    tiles, and the part of the image that lies under each tile's windows, without its margin.
    """
    arithmetic = conv.uops + conv.vectors * (1 + conv.added_passes)
    if conv.grouped or conv.listed:
        return arithmetic
    tiles_k = -(-conv.out_blocks // tile.out_blocks)
    spots = -(-conv.out_height // tile.rows) * -(-conv.out_width // tile.columns)
    weights = conv.out_blocks * conv.reduction_blocks * conv.taps * config.wgt_elem_bytes
    image = conv.in_blocks * _under(conv, 0, tile.rows) * _under(conv, 1, tile.columns)
    read = weights * (1 if tile.weights_outside else spots)
    read += conv.batch_blocks * tiles_k * image * config.inp_elem_bytes
    return max(arithmetic, read // config.axi_bytes)


def _under(conv: Conv2d, axis: int, tile: int) -> int:
    """Return how many rows, or columns, of the image lie under the windows of tiles, summed."""
    size, count = (conv.height, conv.out_height) if axis == 0 else (conv.width, conv.out_width)
    step, before = conv.strides[axis], conv.padding[axis][0]
    reach = conv.dilation[axis] * (conv.kernel[axis] - 1)
    found = 0
    for first in range(0, count, tile):
        last = min(first + tile, count) - 1
        if axis == 0 and conv.row_step != step:
            found += last - first + 1  # rows between windows are not loaded
            continue
        low, high = first * step - before, last * step + reach - before
        found += max(0, min(high, size - 1) - max(low, 0) + 1)
    return found


class _Bus:
    """Cycles of the bus that a schedule's loads take.

    Attributes
    ----------
    parts, tiles, tiles_k, tiles_y : int
        Parts of the reduction; tiles in all, over output blocks and over rows.
    inputs_a_step, weights_a_step : int
        Of a part of a tile.
    whole_weights, weights, cycles : int
        Of all parts once; of all weights, and of everything, as often as they are loaded.
    """

    def __init__(self, conv: Conv2d, tile: ConvTile, config: Config) -> None:
        window = input_window(conv, tile.out_blocks, tile.rows, tile.columns, tile.in_blocks)
        self.inputs_a_step = prod(window) * max(1, config.inp_elem_bytes // config.axi_bytes)
        entries = weight_entries(conv, tile.out_blocks, tile.in_blocks)
        self.weights_a_step = entries * max(1, config.wgt_elem_bytes // config.axi_bytes)
        self.parts = -(-conv.reduction_blocks // tile.in_blocks)
        self.tiles_k = -(-conv.out_blocks // tile.out_blocks)
        self.tiles_y = -(-conv.out_height // tile.rows)
        tiles_x = -(-conv.out_width // tile.columns)
        self.tiles = conv.batch_blocks * self.tiles_k * self.tiles_y * tiles_x
        self.whole_weights = self.weights_a_step * self.parts
        self.weights = self.whole_weights * (self.tiles_k if tile.weights_outside else self.tiles)
        steps = self.tiles * (1 if conv.listed else self.parts)
        self.cycles = steps * self.inputs_a_step + self.weights
        if conv.added_passes:
            self.cycles += conv.vectors * max(1, config.out_elem_bytes // config.axi_bytes)


def candidates(conv: Conv2d, config: Config, vthreads: int) -> Iterator[ConvTile]:
    """Yield every tile of the template that fits the scratchpads."""
    axes = ("none",) if vthreads == 1 else ("out", "rows", "none")
    inside = conv.params_by_place or 3 * conv.out_blocks > config.acc_depth // 4
    reduction = conv.reduction_blocks
    in_options = [reduction] if conv.met else options(reduction)
    for columns in options(conv.out_width):
        found = False
        for out_blocks in options(conv.out_blocks):
            for rows in options(conv.out_height):
                if out_blocks * rows * columns > config.acc_depth:
                    continue
                for in_blocks in in_options:
                    if conv.grouped and not _whole_groups(conv, out_blocks, in_blocks):
                        continue
                    for axis in axes:
                        for outside in (False, True):
                            tile = ConvTile(
                                out_blocks=out_blocks,
                                rows=rows,
                                columns=columns,
                                in_blocks=in_blocks,
                                thread_axis=axis,
                                weights_outside=outside,
                                params_inside=inside,
                            )
                            useless = axis != "none" and threads_of(conv, tile) == 1
                            if not useless and fits(conv, tile, config):
                                found = True
                                yield tile
        if found and columns * 2 < conv.out_width:
            return  # whole rows fit: narrower tiles only add instructions


def _whole_groups(conv: Conv2d, out_blocks: int, in_blocks: int) -> bool:
    """Whether a tile takes whole groups or lies in one, whose inputs it may take in parts."""
    if out_blocks < conv.out_per_in:
        return conv.out_per_in % out_blocks == 0
    whole = out_blocks % conv.out_per_in == 0 or out_blocks >= conv.out_blocks
    return whole and (out_blocks == conv.out_per_in or in_blocks == conv.reduction_blocks)


def choose_tile(
    conv: Conv2d, config: Config, *, vthreads: int = 2, measure: Rank | None = None
) -> tuple[ConvTile, int]:
    """Return the best tile and its cycles: estimated, or measured.

    Parameters
    ----------
    conv : Conv2d
    config : Config
    vthreads : int
        1 or 2.
    measure : callable, optional
        Cycles of a candidate; the best estimates are measured and the fastest wins.

    Raises
    ------
    LoweringError
        No tile fits; the message says what the smallest one needs.
    """
    ranked = _ranked(conv.shape, config, vthreads)
    if measure is None:
        fastest = ranked[0][0]
        close = [
            (loads, cycles, tile) for cycles, loads, tile in ranked if cycles <= fastest * _TIE
        ]
        _, cycles, tile = min(close, key=lambda one: one[:2])
        return tile, cycles
    measured = [(loads, measure(tile), tile) for _, loads, tile in ranked[:_MEASURED]]
    fastest = min(cycles for _, cycles, _ in measured)
    _, cycles, tile = min(
        (one for one in measured if one[1] <= fastest * _TIE), key=lambda one: one[:2]
    )
    return tile, cycles


@lru_cache(maxsize=1024)
def _ranked(conv: Conv2d, config: Config, vthreads: int) -> tuple[tuple[int, int, ConvTile], ...]:
    """Return cycles, cycles of the bus, and tile of the best estimates, best first."""
    found = list(candidates(conv, config, vthreads))
    if conv.listed:
        # All inputs are loaded before weights in parts, which then cannot come while the operator
        # before still computes; whole weights can.
        found = [t for t in found if t.in_blocks == conv.reduction_blocks] or found
    if not found:
        least = conv.reduction_blocks if conv.met else 1
        window = input_window(conv, 1, 1, 1, least)
        weights = weight_entries(conv, 1, least) + len(conv.listed)
        raise LoweringError(
            f"A layer's smallest tile must fit the scratchpads; a {conv.kernel[0]}x"
            f"{conv.kernel[1]} window needs {prod(window)} of {config.inp_depth} inp entries, "
            f"{weights} of {config.wgt_depth} wgt entries and 4 of {config.acc_depth} acc "
            f"entries on {config.name}: enlarge the buffers or place the layer on the cpu."
        )
    bounds = [bound(conv, tile, config) for tile in found]
    likely = sorted(range(len(found)), key=bounds.__getitem__)[:_SKIMMED]
    skimmed = sorted((play(conv, found[n], config, steps=_SKIM_STEPS), n) for n in likely)
    loads = {n: _Bus(conv, found[n], config).cycles for n in likely}
    alike = [n for cycles, n in skimmed[_PLAYED:] if cycles <= skimmed[0][0] * _ALIKE]
    played = [n for _, n in skimmed[:_PLAYED]] + sorted(alike, key=loads.__getitem__)[:_LIGHT]
    ranked = sorted((play(conv, found[n], config), n) for n in played)
    return tuple((cycles, loads[n], found[n]) for cycles, n in ranked)
