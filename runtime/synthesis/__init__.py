"""What an accelerator takes of an FPGA, and how its timing compares, by open tools."""

from .cells import UNITS, tally, unit_of
from .contents import Contents
from .parts import PARTS, Part, Resources, part_of
from .report import Report, synthesize
from .routing import Crossing, Timing, place, reduced

__all__ = [
    "PARTS",
    "UNITS",
    "Contents",
    "Crossing",
    "Part",
    "Report",
    "Resources",
    "Timing",
    "part_of",
    "place",
    "reduced",
    "synthesize",
    "tally",
    "unit_of",
]
