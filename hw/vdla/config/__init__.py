"""The configuration: one frozen object from which every width and depth is derived."""

from .machine import Config
from .presets import (
    AUP_ZU3,
    KV260,
    PAPER,
    PRESETS,
    PYNQ_Z1,
    PYNQ_Z2,
    TINY,
    ULTRA96,
    ZCU104,
    named,
)

__all__ = [
    "AUP_ZU3",
    "KV260",
    "PAPER",
    "PRESETS",
    "PYNQ_Z1",
    "PYNQ_Z2",
    "TINY",
    "ULTRA96",
    "ZCU104",
    "Config",
    "named",
]
