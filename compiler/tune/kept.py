"""Templates that came into this process from another one: candidates of several take turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["MOST_KEPT", "kept"]

MOST_KEPT = 32
"""Templates whose packed weights, inputs and references a process holds at a time."""

_T = TypeVar("_T")
_KEPT: dict[tuple[Any, str], Any] = {}


def kept(key: str, make: Callable[..., _T], *parts: Any) -> _T:
    """Return the template of a key, made of its parts where it is not here; to be pickled as.

    Parameters
    ----------
    key : str
        Of the template's task.
    make : callable
    parts : object
        What it is called with.
    """
    found: _T = _KEPT.pop((make, key)) if (make, key) in _KEPT else make(*parts)
    while len(_KEPT) >= MOST_KEPT:
        del _KEPT[next(iter(_KEPT))]
    _KEPT[make, key] = found
    return found
