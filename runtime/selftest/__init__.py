"""Testing a device from its registers to a whole network."""

from .report import Outcome, Report
from .run import checks, selftest

__all__ = ["Outcome", "Report", "checks", "selftest"]
