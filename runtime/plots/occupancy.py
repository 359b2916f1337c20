"""What each unit works on over time, with the tokens between them, and how full buffers are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError
from vdla.isa import MemoryType, Opcode, TokenQueue, sram_depth
from vdla.runtime.trace.buffers import BUFFERS, buffer_levels
from vdla.runtime.trace.timeline import Part, Timeline

from .style import KINDS, SERIES, styled, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["buffer_occupancy", "instruction_kinds", "occupancy_bins", "unit_occupancy"]

Ints = NDArray[np.int64]
Window = tuple[int, int]

_UNITS = ("load", "compute", "store")
_BINS = 600
_MOST_BARS = 2500
"""More bars than this in a window would be thinner than a pixel: shares of bins are drawn then."""
_NAME_CHARACTERS = 160
"""How many characters of a layer's name fit the width of the figure."""
_SHORTEST_NAME = 8
"""Characters that the end of a name needs to be of use."""


def unit_occupancy(timeline: Timeline, window: Window | None = None) -> Figure:
    """Draw what load, compute and store work on, and the levels of the token queues below.

    A window of few instructions shows each as a bar; a long one shows, by kind of instruction, the
    share of each bin's cycles in which a unit works, and the most tokens in it.

    Parameters
    ----------
    timeline : Timeline
    window : (int, int), optional
        First cycle and the one past the last; the whole run if not given.

    Returns
    -------
    Figure
        Axes: layers, one for each unit, tokens.

    Raises
    ------
    InputError
        The window holds no cycle of the run.
    """
    from matplotlib import pyplot as plt

    begin, end = _window(timeline, window)
    bars = {unit: list(_bars(timeline, unit, (begin, end))) for unit in _UNITS}
    few = sum(len(b) for parts in bars.values() for _, b, _ in parts) <= _MOST_BARS
    with styled():
        figure, axes = plt.subplots(
            5,
            1,
            figsize=(10, 5.2),
            sharex=True,
            layout="constrained",
            gridspec_kw={"height_ratios": [0.35, 1, 1, 1, 1.3], "hspace": 0.04},
        )
        _draw_layers(axes[0], timeline, begin, end)
        used: set[str] = set()
        for ax, unit in zip(axes[1:4], _UNITS, strict=True):
            draw = _draw_bars if few else _draw_shares
            used |= draw(ax, bars[unit], begin, end)
            ax.set_ylabel(unit)
        _draw_tokens(axes[4], timeline, begin, end)
        axes[4].set_xlim(begin, end)
        axes[4].set_xlabel(f"cycles (at {timeline.config.clock_mhz:g} MHz)")
        thousands(axes[4].xaxis)
        axes[0].set_title(
            f"{timeline.name} on {timeline.config.name}: "
            + ("each instruction" if few else "share of cycles at work")
        )
        figure.align_ylabels(axes[1:])
        from matplotlib.patches import Patch

        handles = [Patch(color=colour, label=w) for k, (w, colour) in KINDS.items() if k in used]
        figure.legend(handles=handles, loc="outside lower center", ncols=8)
    return figure


def occupancy_bins(
    timeline: Timeline, unit: str, window: Window | None = None, bins: int = _BINS
) -> tuple[Ints, dict[str, Ints]]:
    """Return the cycles in which a unit works, by kind of instruction and bin.

    Parameters
    ----------
    timeline : Timeline
    unit : str
        ``load``, ``compute`` or ``store``.
    window : (int, int), optional
    bins : int
        At most so many.

    Returns
    -------
    edges : ndarray of int64, shape (n + 1,)
    cycles : dict of str to ndarray of int64, shape (n,)
        By kind, of those that occur; a transfer's busy cycles are counted at its begin.
    """
    begin, end = _window(timeline, window)
    edges = np.unique(np.linspace(begin, end, bins + 1).round().astype(np.int64))
    return edges, _binned(list(_bars(timeline, unit, (begin, end))), edges)


def _binned(bars: list[tuple[str, Ints, Ints]], edges: Ints) -> dict[str, Ints]:
    found: dict[str, Ints] = {}
    for kind, begins, ends in bars:
        if not len(begins):
            continue
        done = np.concatenate(([0], np.cumsum(ends - begins)))
        at = np.searchsorted(ends, edges, "right")
        across = np.append(begins, edges[-1])[at]
        cycles = np.diff(done[at] + np.maximum(edges - across, 0))
        found[kind] = found.get(kind, np.zeros(len(edges) - 1, np.int64)) + cycles
    return found


def _window(timeline: Timeline, window: Window | None) -> Window:
    begin, end = window or (0, timeline.cycles)
    if not 0 <= begin < min(end, timeline.cycles):
        raise InputError(
            f"A window must hold cycles of the run, 0:{timeline.cycles}, not {begin}:{end}."
        )
    return begin, min(end, timeline.cycles)


def _bars(timeline: Timeline, unit: str, window: Window) -> Iterator[tuple[str, Ints, Ints]]:
    """Yield each kind of instruction, and when those of it work, cut to the window."""
    for part in timeline.parts:
        slices = part.slices(unit)
        kinds = instruction_kinds(part, slices.instruction)
        begins = np.maximum(part.begin + slices.begin, window[0])
        ends = np.minimum(part.begin + slices.begin + slices.busy, window[1])
        for index, kind in enumerate(KINDS):
            mine = (kinds == index) & (begins < ends)
            if mine.any():
                yield kind, begins[mine], ends[mine]


def instruction_kinds(part: Part, indices: Ints) -> Ints:
    """Return the index in `KINDS` of instructions."""
    columns = part.result.table.columns[indices]
    opcode, memory = columns["opcode"], columns["memory_type"]
    loads: dict[str, tuple[MemoryType, ...]] = {
        "inp": (MemoryType.INP,),
        "wgt": (MemoryType.WGT,),
        "uop": (MemoryType.UOP,),
        "acc": (MemoryType.ACC, MemoryType.ACC_8BIT),
    }
    conditions = [(opcode == Opcode.LOAD) & np.isin(memory, kinds) for kinds in loads.values()]
    conditions += [opcode == op for op in (Opcode.GEMM, Opcode.ALU, Opcode.STORE, Opcode.FINISH)]
    names = [*(f"load.{name}" for name in loads), "gemm", "alu", "store", "finish"]
    order = list(KINDS)
    return np.select(conditions, [order.index(name) for name in names], 0)


def _draw_layers(ax: Axes, timeline: Timeline, begin: int, end: int) -> None:
    for index, (name, low, high) in enumerate(timeline.windows()):
        low, high = max(low, begin), min(high, end)
        if low >= high:
            continue
        colour = "#e4e7eb" if index % 2 else "#cbd2d9"
        ax.broken_barh([(low, high - low)], (0, 1), facecolor=colour, lw=0)
        fits = int(_NAME_CHARACTERS * (high - low) / (end - begin))
        if fits >= min(len(name), _SHORTEST_NAME):
            text = name if len(name) <= fits else "…" + name[1 - fits :]
            middle = (low + high) / 2
            ax.text(middle, 0.5, text, ha="center", va="center", fontsize=5.5, clip_on=True)
    ax.set(ylim=(0, 1), yticks=[])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _draw_bars(ax: Axes, bars: list[tuple[str, Ints, Ints]], begin: int, end: int) -> set[str]:
    for kind, begins, ends in bars:
        spans = np.stack([begins, ends - begins], axis=1).tolist()
        ax.broken_barh(spans, (0.1, 0.8), facecolor=KINDS[kind][1], edgecolor="white", lw=0.3)
    ax.set(ylim=(0, 1), yticks=[])
    _bare(ax)
    return {kind for kind, _, _ in bars}


def _draw_shares(ax: Axes, bars: list[tuple[str, Ints, Ints]], begin: int, end: int) -> set[str]:
    edges = np.unique(np.linspace(begin, end, _BINS + 1).round().astype(np.int64))
    width = np.diff(edges)
    low = np.zeros(len(width))
    binned = _binned(bars, edges)
    for kind in KINDS:
        if kind in binned:
            high = low + binned[kind] / width
            ax.stairs(high, edges, baseline=low, fill=True, color=KINDS[kind][1], lw=0)
            low = high
    ax.set(ylim=(0, 1), yticks=[0, 0.5, 1])
    ax.yaxis.set_major_formatter("{x:.0%}")
    _bare(ax)
    return set(binned)


def _bare(ax: Axes) -> None:
    ax.grid(visible=False)
    ax.set_facecolor("#f7f8fa")
    ax.tick_params(axis="x", length=0)
    ax.spines[["left", "bottom"]].set_visible(False)


def _draw_tokens(ax: Axes, timeline: Timeline, begin: int, end: int) -> None:
    from matplotlib.ticker import MaxNLocator

    top = 1
    for index, queue in enumerate(TokenQueue):
        edges, most, _ = _level_bins(*timeline.token_levels(queue.value), begin, end)
        top = max(top, int(most.max()))
        ax.stairs(most, edges, baseline=None, lw=0.9, color=SERIES[index], label=queue.value)
    ax.set_ylim(0, top * 1.45)
    ax.set_ylabel("tokens")
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.grid(visible=True, axis="y")
    ax.legend(loc="upper right", ncols=4, fontsize=7)


def _shown(cycles: Ints, levels: Ints, begin: int, end: int) -> tuple[Ints, Ints]:
    """Return the changes of a level in a window, and the level at both its ends."""
    first, last = np.searchsorted(cycles, [begin, end], "right")
    before = levels[first - 1 : first] if first else np.zeros(1, np.int64)
    inside = np.concatenate([before, levels[first:last]])
    times = np.concatenate([[begin], cycles[first:last], [end]]).astype(np.int64)
    return times, np.append(inside, inside[-1])


def buffer_occupancy(timeline: Timeline, window: Window | None = None) -> Figure:
    """Draw how much of each scratchpad holds values that are still to be read.

    See `vdla.runtime.trace.buffers.buffer_levels`. A long window shows, light, the most and, dark,
    the mean of each bin.

    Parameters
    ----------
    timeline : Timeline
    window : (int, int), optional
        First cycle and the one past the last; the whole run if not given.

    Returns
    -------
    Figure
        Axes: one for each of UOP, INP, WGT, ACC and OUT.
    """
    from matplotlib import pyplot as plt

    begin, end = _window(timeline, window)
    levels = buffer_levels(timeline)
    with styled():
        figure, axes = plt.subplots(
            len(BUFFERS), 1, figsize=(10, 5), sharex=True, layout="constrained"
        )
        for index, (ax, kind) in enumerate(zip(axes, BUFFERS, strict=True)):
            depth = sram_depth(kind, timeline.config)
            edges, most, mean = _level_bins(*levels[kind.name.lower()], begin, end)
            colour = SERIES[index]
            ax.stairs(100 * most / depth, edges, fill=True, color=colour, alpha=0.35, lw=0)
            ax.stairs(100 * mean / depth, edges, fill=True, color=colour, lw=0)
            ax.set(ylim=(0, 100), yticks=[0, 50, 100])
            ax.yaxis.set_major_formatter("{x:g} %")
            ax.set_ylabel(kind.name, rotation=0, ha="right", va="center")
            words = f"at most {int(most.max()):,} of {depth:,} entries"
            ax.text(1, 1.03, words, transform=ax.transAxes, ha="right", va="bottom", fontsize=7)
            _bare(ax)
        axes[0].set_title(
            f"Scratchpads in use, {timeline.name} on {timeline.config.name}: entries still to be "
            "read"
        )
        axes[-1].set_xlim(begin, end)
        axes[-1].set_xlabel(f"cycles (at {timeline.config.clock_mhz:g} MHz)")
        thousands(axes[-1].xaxis)
    return figure


def _level_bins(
    cycles: Ints, levels: Ints, begin: int, end: int
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Return edges, and the greatest and the mean level between them; exact where few change."""
    times, shown = _shown(cycles, levels, begin, end)
    shown = shown[:-1]
    keep = np.diff(times) > 0
    starts, shown = times[:-1][keep], shown[keep]
    if len(starts) <= _MOST_BARS:
        return np.append(starts, end), shown, shown.astype(float)
    edges = np.unique(np.linspace(begin, end, _BINS + 1).round().astype(np.int64))
    # Cut what reaches over an edge, so that each piece lies in one bin.
    cuts = np.union1d(starts, edges[:-1])
    at = np.searchsorted(starts, cuts, "right") - 1
    pieces, values = np.diff(np.append(cuts, end)), shown[at]
    first = np.searchsorted(cuts, edges[:-1])
    most = np.maximum.reduceat(values, first)
    mean = np.add.reduceat(values * pieces, first) / np.diff(edges)
    return edges, most, mean
