"""The configuration: one frozen object from which every width and depth is derived."""

from .machine import Config
from .presets import PAPER, PRESETS, PYNQ_Z1, PYNQ_Z2, TINY, ULTRA96, ZCU104, named

__all__ = ["PAPER", "PRESETS", "PYNQ_Z1", "PYNQ_Z2", "TINY", "ULTRA96", "ZCU104", "Config", "named"]
