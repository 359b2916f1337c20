"""A figure of merit over two parameters of a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError

from .style import GREY, INK, axes_or_new, finish, require, styled, thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["heat_map"]

_MOST_CELLS_WITH_TEXT = 400


def heat_map(
    frame: pd.DataFrame,
    x: str,
    y: str,
    value: str,
    *,
    unit: str = "",
    fmt: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a value over two parameters, a cell a combination.

    A combination that was not run, or failed, stays hatched.

    Parameters
    ----------
    frame : DataFrame
        At most one row for each pair of `x` and `y`.
    x, y, value : str
        Columns; also the labels.
    unit : str
        Of the value.
    fmt : str, optional
        How cells are written, such as ``.1f``; by default thousands are shortened.
    ax : Axes, optional

    Raises
    ------
    InputError
        There is no such column, or a pair has several rows.
    """
    require(frame, "A heat map", [value], [x, y])
    if x == y:
        raise InputError(f"A heat map must be over two columns, not {x!r} twice: name another.")
    twice = frame[frame.duplicated([x, y], keep=False)]
    if len(twice):
        pair = twice.iloc[0]
        raise InputError(
            f"A heat map must have one row for each {x} and {y}, and {x}={pair[x]}, {y}={pair[y]} "
            f"has {int(((frame[x] == pair[x]) & (frame[y] == pair[y])).sum())}: choose those of "
            "one value of the other parameters."
        )
    table = frame.pivot(index=y, columns=x, values=value).sort_index().sort_index(axis=1)
    data = table.to_numpy(float)
    with styled():
        ax = axes_or_new(ax, 1.6 + 0.75 * data.shape[1], 1.3 + 0.5 * data.shape[0])
        ax.set_facecolor("#f4f5f7")
        ax.patch.set_hatch("////")
        ax.patch.set_edgecolor("#d4d9df")
        mesh = ax.pcolormesh(np.ma.masked_invalid(data), cmap="viridis", edgecolor="white", lw=1.5)
        ax.set_xticks(
            np.arange(data.shape[1]) + 0.5,
            _words(table.columns),
        )
        ax.set_yticks(np.arange(data.shape[0]) + 0.5, _words(table.index))
        ax.tick_params(length=0)
        figure = ax.get_figure(root=True)
        assert figure is not None
        bar = figure.colorbar(mesh, ax=ax, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, colors=INK)
        thousands(bar.ax.yaxis)
        bar.set_label(f"{value} ({unit})" if unit else value)
        if data.size <= _MOST_CELLS_WITH_TEXT:
            _write(ax, data, fmt)
        finish(ax, title=f"{value} over {x} and {y}", x=x, y=y, grid=None)
        ax.spines[:].set_visible(False)
    return ax


def _words(values: Iterable[object]) -> list[str]:
    return [f"{v:.12g}" if isinstance(v, (float, np.floating)) else str(v) for v in values]


def _write(ax: Axes, data: NDArray[np.float64], fmt: str | None) -> None:
    from matplotlib.ticker import EngFormatter

    short = EngFormatter(places=1, sep="")
    low, high = (np.nanmin(data), np.nanmax(data)) if (~np.isnan(data)).any() else (0, 1)
    for row, column in np.ndindex(data.shape):
        number = float(data[row, column])
        missing = number != number
        text = "–" if missing else format(number, fmt) if fmt else short(number)
        bright = not missing and (number - low) > 0.6 * (high - low)
        colour = GREY if missing else INK if bright else "white"
        ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7.5, color=colour)
