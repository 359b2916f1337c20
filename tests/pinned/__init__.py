"""Pinned meanings as programs with values worked out by hand, for every model to run.

All on TINY: four lanes, so a row of four numbers is one ACC or OUT entry. Each case shows its
result through OUT; where 32 bits matter it shifts them into view first.
"""

from tests.pinned import alu, gemm, memory, nothing, out, requantize
from tests.pinned.base import PINNED

__all__ = ["PINNED", "alu", "gemm", "memory", "nothing", "out", "requantize"]
