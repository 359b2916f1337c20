"""Fitting the cycle model's memory to what a device counts."""

from .fit import Calibration, Timed, fit
from .programs import Benchmark, benchmarks

__all__ = ["Benchmark", "Calibration", "Timed", "benchmarks", "fit"]
