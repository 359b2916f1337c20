"""One look for every figure: colours that colour-blind readers can tell apart, thin grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CAUSES",
    "GREY",
    "INK",
    "KINDS",
    "SERIES",
    "axes_or_new",
    "finish",
    "place_labels",
    "require",
    "styled",
    "thousands",
]

INK, GREY = "#1f2933", "#9aa5b1"
SERIES = ("#2463a8", "#e07b21", "#2a9d8f", "#a0457e", "#7a6c5d", "#c9a227")
"""Okabe and Ito's idea, a little calmer; the first two carry most figures."""

CAUSES = {
    "gemm": ("GEMM", "#2463a8"),
    "alu": ("ALU", "#6aaed6"),
    "load": ("loads of compute", "#bcd9ee"),
    "busy": ("busy", "#2463a8"),
    "memory": ("waits for memory", "#e07b21"),
    "pop_prev": ("waits for {before}", "#c0392b"),
    "pop_next": ("waits for {behind}", "#a0457e"),
    "push": ("waits for a full token queue", "#7a6c5d"),
    "pipeline": ("pipeline fills or drains", "#c9a227"),
    "command": ("waits for instructions", "#5b8c5a"),
    "idle": ("done", "#d9dee4"),
}
"""Words and colour of what a module does; the first three are what compute is busy with."""

KINDS = {
    "load.inp": ("load INP", "#6aaed6"),
    "load.wgt": ("load WGT", "#2463a8"),
    "load.uop": ("load UOP", "#7fbf9b"),
    "load.acc": ("load ACC", "#2a9d8f"),
    "gemm": ("GEMM", "#1f3b63"),
    "alu": ("ALU", "#e07b21"),
    "store": ("store", "#a0457e"),
    "finish": ("FINISH", "#9aa5b1"),
}
"""Words and colour of each kind of instruction."""

_RC = {
    "font.size": 9,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 9,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "svg.fonttype": "none",
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.8,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw the block in the house's style, whatever the user's own settings are."""
    import matplotlib as mpl

    with mpl.rc_context(_RC):  # type: ignore[arg-type]
        yield


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or the axes of a new figure of so many inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    _, made = plt.subplots(figsize=(width, height), layout="constrained")
    return made


def finish(ax: Axes, *, title: str, x: str, y: str, grid: str | None = "both") -> Axes:
    """Label axes and draw their grid."""
    ax.set_title(title)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if grid is not None:
        ax.grid(visible=True, axis=grid)  # type: ignore[arg-type]
    return ax


def thousands(axis: Any) -> None:
    """Write an axis's numbers as 1 k, 2.5 M."""
    from matplotlib.ticker import EngFormatter

    axis.set_major_formatter(EngFormatter(sep=" "))


def place_labels(
    ax: Axes,
    points: NDArray[np.float64],
    names: list[str],
    *,
    size: float = 6.5,
    avoid: NDArray[np.float64] | None = None,
    first: tuple[float, float] | None = None,
) -> list[int]:
    """Name points where there is room: right, left, above or below, else not at all.

    Parameters
    ----------
    ax : Axes
        With its limits as they stay.
    points : ndarray, shape (n, 2)
        In data coordinates; the first ones are named first.
    names : list of str
    size : float
        Of the letters, in points.
    avoid : ndarray, shape (m, 2), optional
        Other points, which are not named and not covered; texts that stand on the axes are not
        covered either.
    first : (float, float), optional
        The direction that is tried first.

    Returns
    -------
    list of int
        Those that are named.
    """
    figure: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
    figure.draw_without_rendering()  # settles the layout, which labels are placed in
    scale = figure.dpi / 72
    at = ax.transData.transform(points)
    marks = at if avoid is None else np.concatenate([at, ax.transData.transform(avoid)])
    near = 3.5 * scale
    taken = [(x - near, y - near, x + near, y + near) for x, y in marks]
    taken += [text.get_window_extent().extents for text in ax.texts]
    places = sorted(_PLACES, key=lambda place: place[:2] != first)
    inside = ax.get_window_extent()
    named = []
    for index, ((x, y), name) in enumerate(zip(at.tolist(), names, strict=True)):
        width, height = _LETTER * size * len(name) * scale, 1.15 * size * scale
        gap = 5 * scale
        for dx, dy, ha, va in places:
            left = x + dx * gap - {"left": 0, "right": width, "center": width / 2}[ha]
            low = y + dy * gap - {"bottom": 0, "top": height, "center": height / 2}[va]
            box = (left, low, left + width, low + height)
            others = (b for k, b in enumerate(taken) if k != index)
            fits = box[0] > inside.x0 and box[2] < inside.x1 and box[3] < inside.y1
            if fits and box[1] > inside.y0 and not any(_meet(box, other) for other in others):
                taken.append(box)
                ax.annotate(
                    name,
                    tuple(points[index]),
                    (dx * 5, dy * 5),
                    textcoords="offset points",
                    ha=ha,
                    va=va,
                    fontsize=size,
                    color="#52606d",
                )
                named.append(index)
                break
    return named


_LETTER = 0.66
"""Width of a letter of the fonts that a page may be read with, as a part of its size, at most."""

_PLACES = (
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
    (0.8, 0.8, "left", "bottom"),
    (0.8, -0.8, "left", "top"),
    (-0.8, 0.8, "right", "bottom"),
    (-0.8, -0.8, "right", "top"),
)


def _meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def require(
    frame: pd.DataFrame,
    what: str,
    numbers: Sequence[str],
    others: Sequence[str] = (),
    *,
    empty: bool = False,
) -> None:
    """Refuse a table that a plot cannot be drawn of.

    Parameters
    ----------
    frame : DataFrame
    what : str
        The plot, with its article.
    numbers, others : sequence of str
        Columns that it needs.
    empty : bool
        Whether a table without rows can be drawn.

    Raises
    ------
    InputError
        There is no row or no such column, or one of `numbers` holds something else.
    """
    from pandas.api.types import is_numeric_dtype

    for column in (*numbers, *others):
        if column not in frame:
            raise InputError(f"{what} needs a column {column!r}: there are {list(frame)}.")
    if not len(frame):
        if empty:
            return
        raise InputError(f"{what} needs a row, and the table has none: choose others.")
    for column in numbers:
        if not is_numeric_dtype(frame[column]):
            raise InputError(
                f"{what} needs numbers in {column!r}, not {frame[column].iloc[0]!r}: name another."
            )
