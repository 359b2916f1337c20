"""Where the cycles of each layer go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vdla.errors import InputError

from .style import CAUSES, axes_or_new, finish, require, styled, thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["cycles_by_cause"]

_NEIGHBOURS = {
    "load": {"before": "", "behind": "compute"},
    "compute": {"before": "load", "behind": "store"},
    "store": {"before": "compute", "behind": ""},
}
_WORK = ("gemm", "alu", "load")
_ROW_INCHES = 0.19
_LEGEND_INCHES = 0.45
"""Below the axes, where their numbers and their label stand."""
_LEAST_ROWS = 5
"""That there is room for, as the legend and the title need some."""


def cycles_by_cause(
    layers: pd.DataFrame, *, module: str = "compute", share: bool = False, ax: Axes | None = None
) -> Axes:
    """Draw the cycles of each layer stacked by what a module did in them.

    Parameters
    ----------
    layers : DataFrame
        `Timeline.layers`.
    module : str
        ``load``, ``compute`` or ``store``; the busy cycles of compute are told apart.
    share : bool
        Shares of each layer's cycles instead of cycles.
    ax : Axes, optional

    Raises
    ------
    InputError
        There is no such module, or no layer.
    """
    if module not in _NEIGHBOURS:
        raise InputError(f"module must be one of {', '.join(_NEIGHBOURS)}, not {module!r}.")
    busy = _WORK if module == "compute" else ("busy",)
    causes = [*busy, *(cause for cause in CAUSES if cause not in (*_WORK, "busy"))]
    require(layers, "A plot of causes", ["cycles", *(f"{module}_{c}" for c in causes)], ["name"])
    from matplotlib.transforms import ScaledTranslation

    room = max(len(layers), _LEAST_ROWS)
    with styled():
        ax = axes_or_new(ax, 10, 1.4 + _ROW_INCHES * room)
        rows = np.arange(len(layers))
        total = layers["cycles"].to_numpy(float) if share else np.ones(len(layers))
        left = np.zeros(len(layers))
        for cause in causes:
            width = layers[f"{module}_{cause}"].to_numpy(float) / np.maximum(total, 1)
            if width.any():
                words, colour = CAUSES[cause]
                words = words.format(**_NEIGHBOURS[module])
                ax.barh(rows, width, left=left, color=colour, label=words, height=0.78)
            left = left + width
        ax.set_yticks(rows, layers["name"].tolist(), fontsize=7)
        ax.set_ylim(room - 0.5, -0.5)
        finish(
            ax,
            title=f"Where the cycles of {module} go",
            x="share of the layer's cycles" if share else "cycles",
            y="",
            grid="x",
        )
        if share:
            ax.set_xlim(0, 1)
            ax.xaxis.set_major_formatter("{x:.0%}")
        else:
            thousands(ax.xaxis)
        ax.tick_params(axis="y", length=0)
        figure = ax.get_figure(root=True)
        assert figure is not None
        below = ScaledTranslation(0, -_LEGEND_INCHES, figure.dpi_scale_trans)
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=ax.transAxes + below,
            ncols=4,
        )
    return ax
