"""One candidate: built, checked and measured where it may crash, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import OK
from vdla.errors import LoweringError, ProgramError, VdlaError

from .sandbox import CrashError, Sandbox, TimeLimitError

__all__ = ["Measure", "Outcome", "attempt", "cycles"]


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate.

    Attributes
    ----------
    cost : float or None
        None of one that failed.
    status, reason : str
        ``ok``, or what failed and its text.
    """

    cost: float | None
    status: str = OK
    reason: str = ""


Measure = Callable[[Any, Point], float]
"""Builds a template's point and returns its cost; a function of a module."""


def attempt(
    sandbox: Sandbox, measure: Measure, template: Any, point: Point, seconds: float
) -> Outcome:
    """Measure a candidate; a failure is a result as well.

    Parameters
    ----------
    sandbox : Sandbox
    measure : callable
    template : object
    point : mapping
    seconds : float
        Longest time, building included.
    """
    try:
        return Outcome(float(sandbox.run(measure, template, point, seconds=seconds)))
    except LoweringError as error:
        return _failed("does not lower", error)
    except ProgramError as error:
        return _failed("wrong result", error)
    except CrashError as error:
        return _failed("crash", error)
    except TimeLimitError as error:
        return _failed("time-out", error)
    except VdlaError as error:
        return _failed("does not fit", error)
    except Exception as error:
        return Outcome(None, "crash", f"{type(error).__name__}: {error}")


def cycles(template: Any, point: Point) -> int:
    """Return a candidate's cycles on the cycle model, which computes no values."""
    from vdla.sim import cycle

    operator = template.build(point)
    return cycle.time(operator.program, operator.memory({})).cycles


def _failed(status: str, error: Exception) -> Outcome:
    return Outcome(None, status, " ".join(str(error).split()))
