"""Fitting the cycle model's memory to what a device counts."""

from .fit import TOLERANCE, Calibration, Timed, explain, fit
from .measure import Counts, measure
from .programs import Benchmark, benchmarks

__all__ = [
    "TOLERANCE",
    "Benchmark",
    "Calibration",
    "Counts",
    "Timed",
    "benchmarks",
    "explain",
    "fit",
    "measure",
]
