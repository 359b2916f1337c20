"""Figures as text to stand in a page, and the timeline's data for its script."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.isa import TokenQueue
from vdla.runtime.plots.occupancy import instruction_kinds
from vdla.runtime.plots.style import KINDS
from vdla.runtime.streams import MODULES
from vdla.runtime.trace.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MOST_SLICES", "svg_of", "timeline_data"]

MOST_SLICES = 250_000
"""More instructions would make the page slow; a trace shows them."""


def svg_of(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element, the same text for the same figure, and close it."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    file = io.StringIO()
    # Names of clip paths must differ between the figures of a page, and not from run to run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'<g id="([^"]*)"', rf'<g id="{name}-\1"', text)
    title = f'<svg role="img" aria-label="{name}"'
    return text.replace("<svg", title, 1)


def timeline_data(timeline: Timeline) -> str | None:
    """Return what the page's script draws, as JSON; None where it would be too much."""
    slices = [
        (part, unit.value, part.slices(unit.value)) for part in timeline.parts for unit in MODULES
    ]
    if sum(len(found.begin) for _, _, found in slices) > MOST_SLICES:
        return None
    names = list(dict.fromkeys(n for p in timeline.parts for n in p.result.program.labels))
    place = {name: index for index, name in enumerate(names)}
    units = []
    for unit in MODULES:
        begins, lengths, kinds, layers = [], [], [], []
        for part, name, found in slices:
            if name != unit.value:
                continue
            program = part.result.program
            of = np.array([place[label] for label in program.labels] + [-1])
            begins.append(part.begin + found.begin)
            lengths.append(found.end - found.begin)
            kinds.append(instruction_kinds(part, found.instruction))
            layers.append(of[program.layer_of[found.instruction]])
        columns = {
            "begin": np.diff(np.concatenate(begins), prepend=0),
            "length": np.concatenate(lengths),
            "kind": np.concatenate(kinds),
            "layer": np.concatenate(layers),
        }
        units.append({"name": unit.value, **{k: v.tolist() for k, v in columns.items()}})
    queues = []
    for queue in TokenQueue:
        cycles, levels = timeline.token_levels(queue.value)
        name = queue.value.replace("->", " → ")
        at = np.diff(cycles, prepend=0).tolist()
        queues.append({"name": name, "at": at, "level": levels.tolist()})
    data: dict[str, Any] = {
        "cycles": timeline.cycles,
        "names": names,
        "layers": [list(window) for window in timeline.windows()],
        "kinds": [list(kind) for kind in KINDS.values()],
        "units": units,
        "queues": queues,
    }
    # What ends a script must not stand in one.
    return json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
