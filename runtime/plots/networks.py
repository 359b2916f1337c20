"""Networks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vdla.errors import InputError

from .style import SERIES, axes_or_new, finish, require, styled, thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["network_comparison"]


def network_comparison(
    frame: pd.DataFrame,
    value: str = "cycles",
    *,
    network: str = "network",
    by: str | None = None,
    unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw a figure of several networks as bars, in groups where `by` says so.

    Parameters
    ----------
    frame : DataFrame
        A row for each network, or for each network and value of `by`.
    value : str
        The column to draw.
    network : str
        The column with the networks' names.
    by : str, optional
        A column to tell bars of one network apart, such as ``config``.
    unit : str
        Of the value.
    ax : Axes, optional

    Raises
    ------
    InputError
        There is no such column, or a bar has several rows.
    """
    keys = [network] if by is None else [network, by]
    require(frame, "A comparison", [value], keys)
    if frame.duplicated(keys).any():
        raise InputError(
            f"A comparison must have one row for each {' and '.join(keys)}: choose those of one "
            "value of the other parameters."
        )
    names = list(dict.fromkeys(frame[network]))
    groups = [None] if by is None else list(dict.fromkeys(frame[by]))
    height = 0.8 / len(groups)
    with styled():
        ax = axes_or_new(ax, 7, 1.2 + 0.3 * len(names) * max(len(groups), 1.4))
        for index, group in enumerate(groups):
            mine = frame if by is None else frame[frame[by] == group]
            figures = mine.set_index(network)[value].reindex(names).to_numpy(float)
            at = np.arange(len(names)) + (index - (len(groups) - 1) / 2) * height
            bars = ax.barh(
                at,
                np.nan_to_num(figures),
                height * 0.9,
                color=SERIES[index % len(SERIES)],
                label=None if group is None else str(group),
            )
            ax.bar_label(bars, [_short(n) for n in figures], padding=3, fontsize=7.5)
        ax.set_yticks(np.arange(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.margins(x=0.12)
        finish(
            ax,
            title=f"{value} of each network",
            x=f"{value} ({unit})" if unit else value,
            y="",
            grid="x",
        )
        thousands(ax.xaxis)
        ax.tick_params(axis="y", length=0)
        if by is not None:
            ax.legend(title=by, loc="best")
    return ax


def _short(value: float) -> str:
    if np.isnan(value):
        return "none"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.2f} {letter}"
    return f"{value:.3g}"
