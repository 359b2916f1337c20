"""The page: its parts in the order they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib import resources
from typing import Any

import numpy as np

import vdla
from vdla.runtime import plots
from vdla.runtime.plots.style import CAUSES, KINDS
from vdla.runtime.trace.timeline import Timeline

from .analysis import FULL, WhatIf, bandwidths, binding, what_ifs
from .figures import svg_of, timeline_data

__all__ = ["Report", "render"]

_PILLS = {"GEMM": "compute", "ALU": "compute", "load bandwidth": "load", "store bandwidth": "store"}
_COLUMNS = (
    "layer",
    "operator",
    "bound by",
    "cycles",
    "share",
    "MAC use",
    "GEMM",
    "ALU",
    "waits: load",
    "store",
    "saved by 2× bandwidth",
    "no latency",
    "read",
    "written",
)


@dataclass(frozen=True, eq=False)
class Report:
    """What a page says of a network.

    Attributes
    ----------
    timeline : Timeline
    without : Timeline or None
        The same network with one virtual thread, which hides no latency.
    """

    timeline: Timeline
    without: Timeline | None = None

    @cached_property
    def changes(self) -> list[WhatIf]:
        """What changes of the machine save, the most first."""
        return what_ifs(self.timeline)

    @cached_property
    def bound(self) -> dict[str, str]:
        """What binds each layer."""
        return binding(self.timeline, self.changes)

    @property
    def macs(self) -> int:
        """Multiply-accumulates on the accelerator, of all images of a pass."""
        return int(self.timeline.layers["macs"].sum())

    @property
    def mac_utilization(self) -> float:
        """Share of all that the core could multiply in the time."""
        return self.macs / (self.timeline.cycles * self.timeline.config.macs_per_cycle)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain numbers, strings, lists and dicts."""
        timeline = self.timeline
        return {
            "network": timeline.name,
            "config": timeline.config.name,
            "config_hash": f"{timeline.config.hash:016x}",
            "cycles": timeline.cycles,
            "cycles_without_latency_hiding": None if self.without is None else self.without.cycles,
            "milliseconds": timeline.milliseconds,
            "mac_utilization": self.mac_utilization,
            "changes": [
                {"key": c.key, "change": c.words, "exact": c.exact, "saved": c.saved}
                for c in self.changes
            ],
            "bound_by": self.bound,
        }


def render(report: Report) -> str:
    """Return the page as HTML that needs nothing else."""
    timeline = report.timeline
    title = f"{timeline.name} on {timeline.config.name}"
    parts = [
        _head(title),
        _overview(report),
        _help(report),
        _causes(report),
        _layers(report),
        _roofline(report),
        _zoomable(report),
        _over_time(report),
        _memory(report),
        _machine(report),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _own(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _head(title: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n'
        f"<style>\n{_own('report.css')}</style></head><body>\n<h1>{escape(title)}</h1>"
    )


def _overview(report: Report) -> str:
    timeline = report.timeline
    config, table = timeline.config, timeline.layers
    seconds = timeline.milliseconds / 1000
    figures = [
        (f"{timeline.cycles:,}", "cycles"),
        (f"{timeline.milliseconds:,.2f} ms", f"at {config.clock_mhz:g} MHz"),
        (f"{timeline.images / seconds:,.1f}", "images a second"),
        (f"{100 * report.mac_utilization:.1f} %", "MAC utilization"),
        (f"{2 * report.macs / seconds / 1e9:,.1f}", f"GOPS of {config.peak_gops:,.1f}"),
        (_bytes(int(table["bytes_read"].sum() + table["bytes_written"].sum())), "moved"),
    ]
    cells = "".join(f"<div><b>{b}</b><span>{words}</span></div>" for b, words in figures)
    hidden = ""
    if report.without is not None:
        saved = report.without.cycles - timeline.cycles
        hidden = (
            f" With one virtual thread, which hides no latency, it takes "
            f"{report.without.cycles:,} cycles: hiding it saves {saved:,} "
            f"({100 * saved / report.without.cycles:.1f} %)."
        )
    return (
        f'<p class="soft">vdla {vdla.__version__}; cycles are exact, of the accelerator alone with '
        "the reference memory, from the start bit to the done bit"
        + (f", for {timeline.images} images" if timeline.images > 1 else "")
        + f'.{hidden}</p>\n<div class="figures">{cells}</div>'
    )


def _help(report: Report) -> str:
    total = report.timeline.cycles
    words = _in_words(report)
    rows = [
        [
            escape(change.words),
            "exact" if change.exact else "at most",
            f"{change.saved:,}",
            _percent(change.saved / total),
            escape(", ".join(_most(change)) or "–"),
        ]
        for change in report.changes
    ]
    return (
        "<h2>What would help most</h2>\n"
        f"<p>{words}</p>\n"
        + _table(["change", "", "cycles saved", "", "most in"], rows, text=(0, 1, 4))
        + '<p class="soft">Exact: the same program, timed again on the machine so changed. At '
        "most: the longest path through the program holds each issue slot once, so slots that fall "
        "away save no more than their number, and memory still has to move what it moves. "
        "A network compiled for the changed machine may do better.</p>"
    )


def _in_words(report: Report) -> str:
    table = report.timeline.layers
    total = report.timeline.cycles
    shares: dict[str, int] = {}
    for name, cycles in zip(table["name"], table["cycles"], strict=True):
        shares[report.bound[name]] = shares.get(report.bound[name], 0) + int(cycles)
    parts = [
        f"{_percent(cycles / total)} in layers bound by {escape(reason)}"
        for reason, cycles in sorted(shares.items(), key=lambda pair: -pair[1])
    ]
    best = report.changes[0]
    kind = "saves" if best.exact else "would save at most"
    return (
        f"Of the {total:,} cycles, {', '.join(parts)}. Most would come of "
        f"<b>{escape(best.words)}</b>: it {kind} {best.saved:,} cycles "
        f"({_percent(best.saved / total)})."
    )


def _most(change: WhatIf, count: int = 3) -> list[str]:
    best = sorted(change.layers.items(), key=lambda pair: -pair[1])[:count]
    return [f"{name} ({saved:,})" for name, saved in best if saved > 0]


def _causes(report: Report) -> str:
    counters = report.timeline.counters
    total = report.timeline.cycles
    causes = [c for c in next(iter(counters.values())) if any(m[c] for m in counters.values())]
    words = [CAUSES[c][0].format(before="the one before", behind="the one behind") for c in causes]
    rows = [
        [
            module,
            *(f"{mine[c]:,} ({_percent(mine[c] / total)})" if mine[c] else "–" for c in causes),
        ]
        for module, mine in counters.items()
    ]
    drawn = plots.cycles_by_cause(report.timeline.layers)
    return (
        "<h2>Where the cycles go</h2>\n"
        + _table(["module", *words], rows, text=(0,))
        + _figure(
            drawn,
            "causes",
            "Each layer's window reaches from the last store of the layer "
            "before to its own; windows sum to the total. Load is before compute, store behind it.",
        )
    )


def _layers(report: Report) -> str:
    timeline = report.timeline
    saved = {change.key: change.layers for change in report.changes}
    total = timeline.cycles
    rows = []
    for row in timeline.layers.to_dict("records"):
        name = row["name"]
        button = (
            f'<button class="link" title="show it in the timeline" data-begin="{row["begin"]}" '
            f'data-end="{row["end"]}">{escape(name)}</button>'
        )
        why = report.bound[name]
        pill = f'<span class="pill {_PILLS.get(why, why)}">{escape(why)}</span>'
        rows.append(
            [
                button,
                escape(row["op"]),
                pill,
                f"{row['cycles']:,}",
                _percent(row["cycles"] / total),
                "–" if np.isnan(row["mac_utilization"]) else _percent(row["mac_utilization"]),
                f"{row['compute_gemm']:,}",
                f"{row['compute_alu']:,}",
                f"{row['compute_pop_prev']:,}",
                f"{row['compute_pop_next']:,}",
                *(f"{saved.get(key, {}).get(name, 0):,}" for key in ("bandwidth", "latency")),
                _bytes(row["bytes_read"]),
                _bytes(row["bytes_written"]),
            ]
        )
    return (
        "<h2>Layers</h2>\n"
        + _table(_COLUMNS, rows, text=(0, 1, 2))
        + f'<p class="soft">Bound by GEMM or ALU: compute works in at least {100 * FULL:.0f} % '
        "of the layer's cycles, mostly on that. Otherwise by what saves most of them: twice the "
        "bandwidth (load or store, whichever channel works more) or no latency; by dependences, "
        "where neither saves a hundredth. A layer may lose what the one before gains, where the "
        "same wait moves.</p>" + _elsewhere(report)
    )


def _elsewhere(report: Report) -> str:
    others = [layer for layer in report.timeline.module.layers if layer.device != "vdla"]
    fused = [layer for layer in report.timeline.module.layers if layer.fused_into]
    words = []
    if fused:
        listed = ", ".join(f"{one.name} in {one.fused_into}" for one in fused)
        words.append(f"Computed within another layer: {escape(listed)}.")
    if others:
        listed = ", ".join(f"{one.name} ({one.op})" for one in others)
        words.append(f"On the cpu, not counted here: {escape(listed)}.")
    return f'<p class="soft">{" ".join(words)}</p>' if words else ""


def _roofline(report: Report) -> str:
    timeline = report.timeline
    without = None if report.without is None else report.without.layers
    drawn = plots.roofline(timeline.layers, timeline.config, without=without)
    return "<h2>Roofline</h2>\n" + _figure(
        drawn,
        "roofline",
        "Operations over each layer's own window, against those for each byte of the channel that "
        "moves more. A layer whose weights came while the one before computed may lie above the "
        "slope.",
        narrow=True,
    )


def _zoomable(report: Report) -> str:
    data = timeline_data(report.timeline)
    if data is None:
        return (
            "<h2>Timeline</h2>\n<p>This network has too many instructions to show each here; "
            "vdla simulate MODEL --trace FILE.json writes them for Perfetto.</p>"
        )
    key = "".join(
        f'<span class="key" style="background:{colour}"></span>{escape(words)}'
        for words, colour in KINDS.values()
    )
    return (
        "<h2>Timeline</h2>\n"
        '<p class="soft" id="timeline-bar"><button id="timeline-in">closer</button> '
        '<button id="timeline-out">further</button> <button id="timeline-all">all</button> '
        '<span id="timeline-window"></span>; the wheel zooms, dragging moves, a layer\'s name in '
        f'the table shows it.</p>\n<p class="soft">{key}</p>\n'
        '<canvas id="timeline"></canvas><div id="timeline-tip" hidden></div>\n'
        f'<script type="application/json" id="timeline-data">{data}</script>\n'
        f"<script>\n{_own('timeline.js')}</script>"
    )


def _over_time(report: Report) -> str:
    return (
        "<h2>Units and scratchpads over time</h2>\n"
        + _figure(
            plots.unit_occupancy(report.timeline),
            "units",
            "How much of the time each unit "
            "works, by what it works on, and the tokens that wait in each queue.",
        )
        + _figure(
            plots.buffer_occupancy(report.timeline),
            "scratchpads",
            "Entries that hold a value which is still to be read; light: the most, dark: the mean.",
        )
    )


def _memory(report: Report) -> str:
    config = report.timeline.config
    earned, cost = config.dram_pace
    frame = bandwidths(report.timeline.module)
    drawn = plots.utilization_against_bandwidth(frame, by=None, at=config.axi_bytes * earned / cost)
    return "<h2>Memory bandwidth</h2>\n" + _figure(
        drawn, "bandwidth", "The same program on slower and faster memories.", narrow=True
    )


def _machine(report: Report) -> str:
    config, module = report.timeline.config, report.timeline.module
    machine = [[name, escape(str(value))] for name, value in config.to_dict().items()]
    machine.append(["hash", f"{config.hash:016x}"])
    counts = [len(part.result.start) for part in report.timeline.parts]
    weights = sum(len(segment.data) for segment in module.segments)
    network = [
        ["name", escape(module.name)],
        *([name, _shape(module, name)] for name in (*module.inputs, *module.outputs)),
        ["layers on the accelerator", f"{len(report.timeline.layers):,}"],
        ["multiply-accumulates of a pass", f"{report.macs:,}"],
        ["programs", f"{len(counts):,}"],
        ["instructions", f"{sum(counts):,}"],
        ["weights and micro-ops", _bytes(weights)],
        ["memory", _bytes(module.arena_bytes)],
    ]
    return (
        '<h2>Machine and network</h2>\n<div class="columns">'
        + _table(["field", "value"], machine, text=(0,))
        + _table(["network", ""], network, text=(0,))
        + "</div>"
    )


def _shape(module: Any, name: str) -> str:
    tensor = module.tensors[name]
    return escape(f"{' × '.join(map(str, tensor.shape))} {tensor.dtype}")


def _figure(drawn: Any, name: str, caption: str, *, narrow: bool = False) -> str:
    figure = drawn if hasattr(drawn, "savefig") else drawn.get_figure(root=True)
    kind = ' class="narrow"' if narrow else ""
    svg = svg_of(figure, name)
    return f'<figure{kind} id="figure-{name}">{svg}<figcaption>{caption}</figcaption></figure>\n'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], text: tuple[int, ...]) -> str:
    def cell(tag: str, index: int, words: str) -> str:
        kind = ' class="words"' if index in text else ""
        return f"<{tag}{kind}>{words}</{tag}>"

    top = "".join(cell("th", index, escape(words)) for index, words in enumerate(head))
    body = "".join(
        "<tr>" + "".join(cell("td", index, words) for index, words in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>'
        "</div>\n"
    )


def _percent(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f} %"  # + 0.0: a loss near none is no -0.0


def _bytes(count: int) -> str:
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count} B"
