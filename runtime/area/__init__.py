"""What a configuration takes of an FPGA: as yosys counted it, or by a model of its units."""

from .energy import ENERGY, energy_mj
from .estimate import Area, area
from .fitting import Fit, left_out
from .placing import Room, boards_for
from .structure import block_rams, dsp_slices

__all__ = [
    "ENERGY",
    "Area",
    "Fit",
    "Room",
    "area",
    "block_rams",
    "boards_for",
    "dsp_slices",
    "energy_mj",
    "left_out",
]
