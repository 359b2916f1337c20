"""The functional model: what each instruction means, in numpy, and nothing about time."""

from .machine import Result, instructions_of, run
from .state import State

__all__ = ["Result", "State", "instructions_of", "run"]
