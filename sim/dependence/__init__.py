"""Whether a program's tokens order everything that has to be in order, whatever the timing."""

from .check import check
from .findings import Finding, Kind

__all__ = ["Finding", "Kind", "check"]
