"""The integer interpreter: operators computed straight from their definitions.

It shares no arithmetic with the compiler, so that each can check the other: the few lines that
turn scales into fixed-point multipliers stand here a second time on purpose.
"""

from __future__ import annotations

from .interpreter import Interpreter

__all__ = ["Interpreter"]
