"""Sweeps: many machines and networks, each compiled and run to the cycle, kept point by point."""

from .run import sweep
from .spec import Spec, read_spec
from .store import Store

__all__ = ["Spec", "Store", "read_spec", "sweep"]
