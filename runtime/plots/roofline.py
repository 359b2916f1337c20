"""The roofline: what each layer reaches, under what the core and the memory would allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vdla.config import Config

from .style import GREY, INK, SERIES, axes_or_new, finish, place_labels, require, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["bandwidth_gbytes", "roofline", "roofline_points"]


def bandwidth_gbytes(config: Config) -> float:
    """Return what one channel of the memory moves, in 10^9 bytes a second."""
    earned, cost = config.dram_pace
    return config.axi_bytes * earned / cost * config.clock_mhz / 1000


def roofline_points(layers: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return where each layer with multiply-accumulates lies.

    Parameters
    ----------
    layers : DataFrame
        `Timeline.layers`.
    config : Config

    Returns
    -------
    DataFrame
        ``name``; ``intensity``, operations a byte of the channel (read or write) that moves more,
        since the two work at the same time; ``gops``, 10^9 operations a second over the layer's
        window. A multiply-accumulate is two operations.
    """
    require(layers, "A roofline", ["macs", "cycles", "bytes_read", "bytes_written"], ["name"])
    some = layers[(layers["macs"] > 0) & (layers["cycles"] > 0)]
    moved = np.maximum(some["bytes_read"], some["bytes_written"])
    return some[["name"]].assign(
        intensity=2 * some["macs"] / moved,
        gops=2 * some["macs"] / some["cycles"] * config.clock_mhz / 1000,
    )


def roofline(
    layers: pd.DataFrame,
    config: Config,
    *,
    without: pd.DataFrame | None = None,
    labels: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw every layer under the roofline, with and without latency hiding.

    A layer whose weights are loaded while the one before computes may lie above the slope.

    Parameters
    ----------
    layers : DataFrame
        `Timeline.layers` of a network compiled with two virtual threads.
    config : Config
    without : DataFrame, optional
        The same with one, which hides nothing; lines join the two points of a layer.
    labels : bool
        Name layers where there is room, those furthest below the roof first.
    ax : Axes, optional
    """
    with styled():
        ax = axes_or_new(ax, 7.2, 4.8)
        points = roofline_points(layers, config)
        hidden = None if without is None else roofline_points(without, config)
        every = [points] if hidden is None else [points, hidden]
        seen = np.concatenate([p["intensity"] for p in every]) if len(points) else np.array([1.0])
        peak, rate = config.peak_gops, bandwidth_gbytes(config)
        ridge = peak / rate
        low, high = min(seen.min(), ridge) / 2, max(seen.max(), ridge) * 2
        roof = np.array([low, ridge, high])
        ax.plot(roof, np.minimum(peak, roof * rate), color=INK, lw=1.6, label="roof", zorder=2)
        if hidden is not None:
            _join(ax, hidden, points)
            ax.scatter(
                hidden["intensity"],
                hidden["gops"],
                s=26,
                facecolor="white",
                edgecolor=SERIES[1],
                lw=1.2,
                label="1 virtual thread: nothing hidden",
                zorder=3,
            )
        ax.scatter(
            points["intensity"],
            points["gops"],
            s=30,
            color=SERIES[0],
            edgecolor="white",
            lw=0.6,
            label="each layer" if hidden is None else "2 virtual threads: latency hidden",
            zorder=4,
        )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        lowest = min((p["gops"].min() for p in every if len(p)), default=peak)
        ax.set(xlim=(low, high), ylim=(min(lowest, low * rate) / 1.3, peak * 2.2))
        _name_roof(ax, config, low, high)
        finish(
            ax,
            title=f"Roofline, {config.name}",
            x="operations a byte of the busier channel",
            y="10⁹ operations a second",
        )
        _plain_numbers(ax)
        ax.legend(loc="lower right")
        if labels and len(points):
            line = np.geomspace(low, high, 150)
            avoid = np.stack([line, np.minimum(peak, line * rate)], axis=1)
            if hidden is not None:
                avoid = np.concatenate([avoid, _xy(hidden)])
            roofs = np.minimum(peak, points["intensity"] * rate)
            worst = points.iloc[np.argsort(points["gops"] / roofs, kind="stable")]
            place_labels(ax, _xy(worst), worst["name"].tolist(), avoid=avoid)
    return ax


def _xy(points: pd.DataFrame) -> NDArray[np.float64]:
    return np.asarray(points[["intensity", "gops"]], float)


def _join(ax: Axes, before: pd.DataFrame, after: pd.DataFrame) -> None:
    from matplotlib.collections import LineCollection

    both = before.merge(after, on="name", suffixes=("_1", "_2"))
    ends = both[["intensity_1", "gops_1", "intensity_2", "gops_2"]].to_numpy(float)
    ax.add_collection(
        LineCollection(list(ends.reshape(-1, 2, 2)), colors=GREY, linewidths=0.7, zorder=2),
        autolim=False,
    )


def _name_roof(ax: Axes, config: Config, low: float, high: float) -> None:
    peak, rate = config.peak_gops, bandwidth_gbytes(config)
    ax.text(
        high / 1.08,
        peak * 1.45,
        f"{config.batch}×{config.block_in}×{config.block_out} at {config.clock_mhz:g} MHz: "
        f"{peak:,.1f} GOPS",
        ha="right",
        va="bottom",
        fontsize=8,
        color=INK,
    )
    ax.annotate(
        f"{rate:.2g} GB/s each way",
        (low * 1.6, low * 1.6 * rate),
        (8, -4),
        textcoords="offset points",
        ha="left",
        va="top",
        fontsize=8,
        color=INK,
    )


def _plain_numbers(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
