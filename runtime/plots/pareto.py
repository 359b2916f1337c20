"""The Pareto front of a sweep."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError

from .style import (
    GREY,
    SERIES,
    axes_or_new,
    finish,
    place_labels,
    require,
    styled,
    thousands,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["pareto", "pareto_front"]

_SHORTENED = 10_000
"""From here on an axis writes 12 k."""


def pareto_front(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points no other point dominates, where less is better in every column.

    A point dominates another that it equals or beats everywhere and beats somewhere. Equal points
    do not dominate each other: both are on the front, or neither. A point with a NaN, which
    failed, is on no front and dominates nothing.

    Parameters
    ----------
    values : ndarray, shape (n, objectives)

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    valid = np.array([not np.isnan(point).any() for point in values], bool)
    front = np.zeros(len(values), bool)
    kept = np.zeros((0, values.shape[1]))
    # In this order whatever dominates a point comes before it, and is on the front or dominated
    # by something that is.
    order = np.lexsort(values.T[::-1])
    for index in order[valid[order]].tolist():
        point = values[index]
        if not ((kept <= point).all(axis=1) & (kept < point).any(axis=1)).any():
            front[index] = True
            kept = np.concatenate([kept, values[index : index + 1]])
    return front


def pareto(
    frame: pd.DataFrame,
    x: str,
    y: str,
    *,
    maximize: Collection[str] = (),
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw points by two objectives, and the front of those that none dominates.

    The stairs are the border of what the points can be traded for: a point on or beyond it is
    dominated. Points of equal figures are drawn once, with their number.

    Parameters
    ----------
    frame : DataFrame
        A row a point; those with a missing objective are left out.
    x, y : str
        Columns; also what the axes are labelled with.
    maximize : collection of str
        Which of the two is better when it is greater.
    label : str, optional
        A column with the names of points; those on the front are named where there is room.
    ax : Axes, optional

    Raises
    ------
    InputError
        There is no such column, or `maximize` names another one.
    """
    require(frame, "A Pareto front", [x, y], [label] if label else [], empty=True)
    stray = sorted(set(maximize) - {x, y})
    if stray:
        raise InputError(f"maximize must name {x!r} or {y!r}, not {', '.join(stray)}.")
    points = frame[[x, y]].to_numpy(float)
    sign = np.array([-1.0 if name in maximize else 1.0 for name in (x, y)])
    front = pareto_front(points * sign)
    rest = ~front & ~np.isnan(points).any(axis=1)
    where: Literal["pre", "post"] = "pre" if x in maximize else "post"
    with styled():
        ax = axes_or_new(ax, 6.4, 4.4)
        ax.scatter(
            points[rest, 0],
            points[rest, 1],
            s=20,
            color=GREY,
            alpha=0.7,
            lw=0,
            label="dominated",
            zorder=2,
        )
        distinct, first, count = np.unique(
            points[front], axis=0, return_index=True, return_counts=True
        )
        ax.plot(*distinct.T, drawstyle=f"steps-{where}", color=SERIES[0], lw=1.2, alpha=0.6)
        ax.scatter(
            distinct[:, 0],
            distinct[:, 1],
            s=34,
            color=SERIES[0],
            lw=0,
            label="Pareto front",
            zorder=3,
        )
        finish(
            ax,
            title=f"{int(front.sum())} of {int(front.sum() + rest.sum())} points on the front",
            x=f"{x}  ({'more' if x in maximize else 'less'} is better)",
            y=f"{y}  ({'more' if y in maximize else 'less'} is better)",
        )
        ax.legend(loc="best")
        ax.margins(0.08)
        for axis, values in ((ax.xaxis, points[:, 0]), (ax.yaxis, points[:, 1])):
            if np.nanmax(np.abs(values), initial=0) >= _SHORTENED:
                thousands(axis)
        names = _names(frame, np.flatnonzero(front)[first], count, label)
        if any(names):
            shown = np.array([bool(name) for name in names])
            place_labels(
                ax,
                distinct[shown],
                [name for name in names if name],
                size=7,
                avoid=points[rest],
                first=(0.8 * (-1) ** (x in maximize), 0.8 * (-1) ** (y in maximize)),
            )
    return ax


def _names(
    frame: pd.DataFrame, rows: NDArray[np.int64], count: NDArray[np.int64], label: str | None
) -> list[str]:
    found = []
    for row, times in zip(rows.tolist(), count.tolist(), strict=True):
        name = "" if label is None else str(frame[label].iloc[row])
        found.append(f"{name} ×{times}".strip() if times > 1 else name)
    return found
