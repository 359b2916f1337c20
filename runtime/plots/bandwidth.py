"""How much of the core a network uses as the memory gets faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.errors import InputError

from .style import INK, SERIES, axes_or_new, finish, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["utilization_against_bandwidth"]


def utilization_against_bandwidth(
    frame: pd.DataFrame,
    *,
    by: str | None = "network",
    at: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw MAC utilization against the bytes a cycle that memory moves each way.

    Parameters
    ----------
    frame : DataFrame
        Columns ``bytes_per_cycle`` and ``mac_utilization``, as `vdla.runtime.report.bandwidths`
        makes them, and `by`.
    by : str, optional
        The column that tells lines apart.
    at : float, optional
        Bytes a cycle to mark: those of the machine as it is.
    ax : Axes, optional

    Raises
    ------
    InputError
        A column is missing.
    """
    for column in ("bytes_per_cycle", "mac_utilization", *(() if by is None else (by,))):
        if column not in frame:
            raise InputError(f"This plot needs a column {column!r}: there are {list(frame)}.")
    groups = [(None, frame)] if by is None else list(frame.groupby(by, sort=False))
    with styled():
        ax = axes_or_new(ax, 6.4, 3.8)
        for index, (name, rows) in enumerate(groups):
            rows = rows.sort_values("bytes_per_cycle")
            ax.plot(
                rows["bytes_per_cycle"],
                100 * rows["mac_utilization"],
                marker="o",
                ms=4,
                lw=1.5,
                color=SERIES[index % len(SERIES)],
                label=None if name is None else str(name),
            )
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_ylim(0, 100)
        if at is not None:
            ax.axvline(at, color=INK, lw=0.9, ls=(0, (4, 3)))
            ax.text(at, 4, "as it is ", rotation=90, ha="right", va="bottom", fontsize=8, color=INK)
        finish(
            ax,
            title="MAC utilization against bandwidth",
            x="bytes a cycle, each way",
            y="MAC utilization (%)",
        )
        if by is not None:
            ax.legend(loc="upper left")
    return ax
