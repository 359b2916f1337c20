"""The cycle model: exact timing by events, and results an instruction at a time.

Importing this package imports numba; ``vdla.sim`` does not.
"""

from __future__ import annotations

from .account import Cause
from .model import run, time
from .result import CycleResult, LayerCycles

__all__ = ["Cause", "CycleResult", "LayerCycles", "run", "time"]
