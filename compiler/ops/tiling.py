"""The tile search: what fits the scratchpads, ranked by an analytic estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vdla.config import Config
from vdla.errors import LoweringError
from vdla.timing import INSTRUCTION_BYTES, compute_latency, store_latency, unloaded_load_latency

from .conv2d import Conv2d, ConvTile

__all__ = ["Rank", "candidates", "choose_tile", "estimate"]

Rank = Callable[[ConvTile], int]
"""Cycles of a candidate, as measured by whoever asks for the search."""

_MEASURED = 12
"""Candidates of the best estimates that are measured where a measure is given."""


_TILE_CYCLES = 4
"""Of every block of output channels in a tile: RQ reads its parameters, GEMM starts anew."""


_STEP_INSTRUCTIONS = 4
"""A load of inputs, one of weights, and two of arithmetic, roughly: what fetch reads a step."""


@dataclass(frozen=True)
class _Step:
    """One load and its arithmetic, of one virtual thread."""

    inp: int
    wgt: int
    inp_cycles: int
    wgt_cycles: int


def _options(size: int) -> list[int]:
    """Return tile sizes that divide a dimension as evenly as possible."""
    return sorted({-(-size // parts) for parts in range(1, size + 1)}, reverse=True)


def _threads(conv: Conv2d, tile: ConvTile) -> int:
    if tile.thread_axis == "none":
        return 1
    tiles = (
        -(-conv.out_blocks // tile.out_blocks)
        if tile.thread_axis == "out"
        else -(-conv.out_height // tile.rows)
    )
    return min(2, tiles)


def _step(conv: Conv2d, tile: ConvTile, config: Config) -> _Step:
    (ky, kx), (dy, dx) = conv.kernel, conv.dilation
    rows = (tile.rows - 1) * conv.row_step + (ky - 1) * dy + 1
    width = conv.width + sum(conv.padding[1])
    columns = min((tile.columns - 1) * conv.strides[1] + (kx - 1) * dx + 1, width)
    inp = _input_blocks(conv, tile) * rows * columns
    if conv.shared_weights:
        wgt = conv.out_per_in * tile.in_blocks
    else:
        wgt = tile.out_blocks * tile.in_blocks * ky * kx
    beats = max(1, config.inp_elem_bytes // config.axi_bytes)
    inp_cycles = inp * beats
    wgt_cycles = wgt * max(1, config.wgt_elem_bytes // config.axi_bytes)
    return _Step(inp, wgt, inp_cycles, wgt_cycles)


def _input_blocks(conv: Conv2d, tile: ConvTile) -> int:
    """Return the input blocks that one load brings."""
    if not conv.depthwise:
        return tile.in_blocks
    # A tile of output blocks may start in the middle of an input block.
    meets = -(-tile.out_blocks // conv.out_per_in) + (tile.out_blocks % conv.out_per_in > 0)
    return meets * conv.in_per_out


def _weight_entries(conv: Conv2d, tile: ConvTile, step: _Step) -> int:
    parts = -(-conv.reduction_blocks // tile.in_blocks)
    return step.wgt * parts if tile.weights_outside else step.wgt


def _fits(conv: Conv2d, tile: ConvTile, config: Config) -> bool:
    step, threads = _step(conv, tile, config), _threads(conv, tile)
    weight_copies = 1 if tile.weights_outside and tile.thread_axis == "rows" else threads
    params = 3 * (tile.out_blocks * threads if tile.params_inside else conv.out_blocks)
    acc = tile.out_blocks * tile.rows * tile.columns * threads + params
    return (
        step.inp * threads <= config.inp_depth
        and _weight_entries(conv, tile, step) * weight_copies <= config.wgt_depth
        and acc <= config.acc_depth
    )


def estimate(conv: Conv2d, tile: ConvTile, config: Config) -> int:
    """Return a schedule's cycles by a two-stage pipeline model over the timing table.

    While both virtual threads have work, the loads of one run beside the arithmetic of the other.
    Three things bound that: the arithmetic, the bus, and one thread's own round of load, hand-over
    and arithmetic, of which two run side by side. A tile without a partner waits for its own
    loads. Added is what never overlaps: the first load, the last requantization and store.
    """
    step, threads = _step(conv, tile, config), _threads(conv, tile)
    parts = -(-conv.reduction_blocks // tile.in_blocks)
    tiles_k = -(-conv.out_blocks // tile.out_blocks)
    tiles_y = -(-conv.out_height // tile.rows)
    tiles_x = -(-conv.out_width // tile.columns)
    divided = tiles_k if tile.thread_axis == "out" else tiles_y
    alone = 1.0 if threads == 1 else (divided % 2) / divided
    tiles = conv.batch_blocks * tiles_k * tiles_y * tiles_x

    arithmetic = conv.uops + conv.vectors + tiles * _TILE_CYCLES * tile.out_blocks
    if tile.params_inside:
        entry = config.acc_elem_bytes // config.axi_bytes
        load = unloaded_load_latency(config) + compute_latency(config)
        arithmetic += tiles * (load + 3 * tile.out_blocks * entry)
    whole = step.wgt_cycles * parts
    outside = tile.weights_outside
    weights = whole * (tiles_k if outside else tiles)
    loads = tiles * parts * step.inp_cycles + weights
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
    first = step.inp_cycles + (whole if outside else step.wgt_cycles) + hand_over
    last = vectors * (1 + beats) + compute_latency(config) + store_latency(config)
    return round(alone * serial + (1 - alone) * together) + first + last


def candidates(conv: Conv2d, config: Config, vthreads: int) -> Iterator[ConvTile]:
    """Yield every tile of the template that fits the scratchpads."""
    axes = ("none",) if vthreads == 1 else ("out", "rows", "none")
    inside = 3 * conv.out_blocks > config.acc_depth // 4
    reduction = conv.reduction_blocks
    in_options = [reduction] if conv.depthwise else _options(reduction)
    for columns in _options(conv.out_width):
        found = False
        for out_blocks in _options(conv.out_blocks):
            for rows in _options(conv.out_height):
                if out_blocks * rows * columns > config.acc_depth:
                    continue
                for in_blocks in in_options:
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
                            useless = axis != "none" and _threads(conv, tile) == 1
                            if not useless and _fits(conv, tile, config):
                                found = True
                                yield tile
        if found and columns * 2 < conv.out_width:
            return  # whole rows fit: narrower tiles only add instructions


def choose_tile(
    conv: Conv2d, config: Config, *, vthreads: int = 2, measure: Rank | None = None
) -> tuple[ConvTile, int]:
    """Return the best tile and its estimated cycles.

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
    ranked = sorted(
        (
            (estimate(conv, tile, config), n, tile)
            for n, tile in enumerate(candidates(conv, config, vthreads))
        ),
        key=lambda item: item[:2],
    )
    if not ranked:
        smallest = ConvTile(
            out_blocks=1, rows=1, columns=1, in_blocks=1, thread_axis="none", params_inside=True
        )
        step = _step(conv, smallest, config)
        raise LoweringError(
            f"A layer's smallest tile must fit the scratchpads; a {conv.kernel[0]}x"
            f"{conv.kernel[1]} window needs {step.inp} of {config.inp_depth} inp entries, "
            f"{step.wgt} of {config.wgt_depth} wgt entries and 4 of {config.acc_depth} acc "
            f"entries on {config.name}: enlarge the buffers or place the layer on the cpu."
        )
    if measure is None:
        return ranked[0][2], ranked[0][0]
    measured = [(measure(tile), n, tile) for _, n, tile in ranked[:_MEASURED]]
    cycles, _, tile = min(measured, key=lambda item: item[:2])
    return tile, cycles
