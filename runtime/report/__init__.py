"""A network on a machine as one HTML page: where its cycles go, and what would help."""

from __future__ import annotations

from .analysis import FULL, WhatIf, bandwidths, binding, what_ifs
from .compare import Comparison, Result, compare, of_json, of_timeline
from .page import Report, render

__all__ = [
    "FULL",
    "Comparison",
    "Report",
    "Result",
    "WhatIf",
    "bandwidths",
    "binding",
    "compare",
    "of_json",
    "of_timeline",
    "render",
    "what_ifs",
]
