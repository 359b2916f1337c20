"""Figures of networks and sweeps, one function each; they need matplotlib.

Each takes the data it draws (`vdla.runtime.trace.Timeline`, its ``layers``, or a table of a sweep),
draws on the axes it is given or on a new figure, and returns them::

    from vdla.runtime import plots
    from vdla.runtime.trace import Timeline

    timeline = Timeline.of(vdla.compile("resnet18"))
    plots.cycles_by_cause(timeline.layers)
"""

from __future__ import annotations

from .bandwidth import utilization_against_bandwidth
from .causes import cycles_by_cause
from .heatmap import heat_map
from .networks import network_comparison
from .occupancy import buffer_occupancy, occupancy_bins, unit_occupancy
from .pareto import pareto, pareto_front
from .roofline import bandwidth_gbytes, roofline, roofline_points

__all__ = [
    "bandwidth_gbytes",
    "buffer_occupancy",
    "cycles_by_cause",
    "heat_map",
    "network_comparison",
    "occupancy_bins",
    "pareto",
    "pareto_front",
    "roofline",
    "roofline_points",
    "unit_occupancy",
    "utilization_against_bandwidth",
]
