"""The register map: one table for the gateware's bank, the driver and the manual."""

from .errors import ErrorCause, ErrorModule
from .table import (
    BASES,
    CAPABILITIES,
    COUNTERS,
    IDENTITY,
    INTERFACE,
    Access,
    Bits,
    Counter,
    Register,
)

__all__ = [
    "BASES",
    "CAPABILITIES",
    "COUNTERS",
    "IDENTITY",
    "INTERFACE",
    "Access",
    "Bits",
    "Counter",
    "ErrorCause",
    "ErrorModule",
    "Register",
]
