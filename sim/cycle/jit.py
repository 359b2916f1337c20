"""How compiled functions are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

__all__ = ["compiled"]

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F) -> _F:
    """Compile a function that allocates nothing, and keep it on disk.

    Without reference counts (``_nrt``) on the arrays it is given, a call costs a tenth. numba
    checks what it keeps against the file of the function alone: whatever a compiled function
    calls stands in the same file, and constants of other files arrive as arguments.
    """
    options: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}
    kept: _F = njit(**options)(function)
    return kept
