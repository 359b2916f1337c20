"""Attributes and scales as keys of dictionaries: equal where they mean the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .tensor import Quant

__all__ = ["frozen", "quant_key"]


def frozen(value: Any) -> Hashable:
    """Return a node's attributes, or one of them, as a key."""
    if isinstance(value, Mapping):
        return tuple((key, frozen(item)) for key, item in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return (value.shape, str(value.dtype), value.tobytes())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(frozen, value))
    return repr(value)


def quant_key(quant: Quant | None) -> Hashable:
    """Return what integers stand for as a key."""
    if quant is None:
        return None
    scale = (str(quant.scale.dtype), quant.scale.tobytes())
    return (quant.axis, scale, quant.zero_point.tobytes())
