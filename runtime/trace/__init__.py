"""Traces of a network on the cycle model: Perfetto's JSON, and VCD."""

from __future__ import annotations

from .perfetto import write_perfetto
from .target import ENDINGS, Trace, write_trace
from .timeline import Part, Slices, Timeline
from .vcd import write_vcd

__all__ = [
    "ENDINGS",
    "Part",
    "Slices",
    "Timeline",
    "Trace",
    "write_perfetto",
    "write_trace",
    "write_vcd",
]
