"""One candidate: built, checked and measured where it may crash, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vdla.compiler.tune.features import Features
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import OK, WRONG
from vdla.errors import DeviceError, LoweringError, ProgramError, VdlaError

from .sandbox import CrashError, Sandbox, TimeLimitError

__all__ = ["Measure", "Outcome", "attempt", "features_of", "guarded", "prepare", "share_out"]

_PREPARE_SECONDS = 900.0
"""For the gateware to be built, where nobody has simulated it before."""


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


Measure = Callable[[Any, Point, float], float]
"""``measure(template, point, to_beat)``: builds a point and returns its cost; a module's function.

A cost below `to_beat` is returned only where the values that are computed are right; ProgramError
where they are not.
"""


def attempt(
    sandbox: Sandbox,
    measure: Measure,
    template: Any,
    point: Point,
    to_beat: float,
    seconds: float,
) -> Outcome:
    """Measure a candidate; a failure is a result as well.

    Parameters
    ----------
    sandbox : Sandbox
    measure : callable
    template : object
    point : mapping
    to_beat : float
        The least cost so far: values are checked of what is faster.
    seconds : float
        Longest time, building included.
    """
    found = guarded(sandbox, measure, template, point, to_beat, seconds=seconds)
    return found if isinstance(found, Outcome) else Outcome(float(found))


def prepare(sandbox: Sandbox, measure: Any) -> None:
    """Let a device be opened that a sandbox measures on: it is no candidate's time.

    Parameters
    ----------
    sandbox : Sandbox
    measure : callable
        One with a method ``prepare()`` has something to open.

    Raises
    ------
    DeviceError
        It cannot be.
    """
    if not hasattr(measure, "prepare"):
        return
    try:
        sandbox.run(measure.prepare, seconds=_PREPARE_SECONDS)
    except (CrashError, TimeLimitError) as error:
        raise DeviceError(
            f"A device to measure on must open, and its process {error}: try it with "
            "`vdla selftest`"
        ) from None


def guarded(sandbox: Sandbox, function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """Return what a function returns in a sandbox, or the outcome of a candidate that it fails.

    Parameters
    ----------
    sandbox : Sandbox
    function : callable
    arguments : object
    seconds : float
    """
    try:
        return sandbox.run(function, *arguments, seconds=seconds)
    except LoweringError as error:
        return _failed("does not lower", error)
    except ProgramError as error:
        return _failed(WRONG, error)
    except CrashError as error:
        return _failed("crash", error)
    except TimeLimitError as error:
        return _failed("time-out", error)
    except VdlaError as error:
        return _failed("does not fit", error)
    except Exception as error:
        return Outcome(None, "crash", f"{type(error).__name__}: {error}")


def features_of(template: Any, points: Sequence[Point]) -> list[Features | None]:
    """Return what a model sees of points, None for each that cannot be lowered."""
    return [template.features(point) for point in points]


def share_out(
    points: Sequence[Point],
    shares: int,
    work: Callable[[list[Sequence[Point]]], list[list[Features | None]]],
) -> list[Features | None]:
    """Return what several make of points, each of a share of them.

    Parameters
    ----------
    points : sequence of mapping
    shares : int
    work : callable
        Takes the points of each share and returns what is made of them.
    """
    count = min(shares, len(points))
    found: list[Features | None] = [None] * len(points)
    for k, part in enumerate(work([points[k::count] for k in range(count)])):
        found[k::count] = part
    return found


def _failed(status: str, error: Exception) -> Outcome:
    return Outcome(None, status, " ".join(str(error).split()))
