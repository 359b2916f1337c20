"""What a self-test found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["FAILED", "PASSED", "SKIPPED", "Outcome", "Report"]

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"


@dataclass(frozen=True)
class Outcome:
    """One check.

    Attributes
    ----------
    grade : str
        What part of the machine it is about; grades come in the order in which they build on each
        other.
    name : str
    status : str
        `PASSED`, `FAILED` or `SKIPPED`.
    detail : str
        What is different, or why it was skipped.
    cycles, model_cycles : int or None
        Of the device and of the cycle model, where they count.
    """

    grade: str
    name: str
    status: str
    detail: str = ""
    cycles: int | None = None
    model_cycles: int | None = None

    @property
    def ratio(self) -> float | None:
        """Cycles of the device over the model's."""
        if self.cycles is None or not self.model_cycles:
            return None
        return self.cycles / self.model_cycles


@dataclass(frozen=True)
class Report:
    """All checks of a device.

    Attributes
    ----------
    device, config : str
        Names.
    outcomes : sequence of Outcome
    notes : sequence of str
        What the reader should know, such as comparisons that could not be made.
    """

    device: str
    config: str
    outcomes: Sequence[Outcome]
    notes: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The checks that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == FAILED)

    def summary(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dicts."""
        return {
            "device": self.device,
            "config": self.config,
            "passed": self.passed,
            "checks": [asdict(outcome) | {"ratio": outcome.ratio} for outcome in self.outcomes],
            "notes": list(self.notes),
        }
