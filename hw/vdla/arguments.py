"""What callers hand over, checked: whole numbers, and arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError

__all__ = ["arrays_by_name", "sizes_by_name", "whole_number"]

Array = NDArray[Any]


def whole_number(what: str, value: object, remedy: str, *, least: int = 1) -> int:
    """Return a whole number of at least `least`, Python's or numpy's.

    Raises
    ------
    InputError
        It is something else, or less.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        shown = value if isinstance(value, (int, float)) else repr(value)
        raise InputError(
            f"{what} must be a whole number of at least {least}, not {shown}: {remedy}."
        )
    return int(value)


def sizes_by_name(bind: Mapping[str, int] | None) -> dict[str, int]:
    """Return the sizes that are given to dimensions.

    Raises
    ------
    InputError
        They are no mapping of names to whole numbers of at least 1.
    """
    if bind is None:
        return {}
    if not isinstance(bind, Mapping) or not all(isinstance(name, str) for name in bind):
        raise InputError(f"bind must be sizes by dimension, not {bind!r}: give {{'N': 4}}.")
    return {
        name: whole_number(f"The size of dimension {name!r}", size, "bind another")
        for name, size in bind.items()
    }


def arrays_by_name(
    network: str, names: Sequence[str], given: object, what: str = "Inputs"
) -> dict[str, Array]:
    """Return what a network is given, by the names of its inputs and in their order.

    Parameters
    ----------
    network : str
    names : sequence of str
        Its inputs.
    given : array or mapping of str to array
        An array alone serves a network with one input.
    what : str
        What they are, in messages.

    Raises
    ------
    InputError
        One is missing or unknown, or an array alone is given for several.
    """
    if not isinstance(given, Mapping):
        if len(names) != 1:
            raise InputError(
                f"{what} of a network with several must be a mapping by name, not one array: "
                f"{network!r} reads {', '.join(names)}."
            )
        given = {names[0]: given}
    if set(given) != set(names):
        raise InputError(
            f"{what} of {network!r} must be {', '.join(names)}, not "
            f"{', '.join(sorted(map(str, given))) or 'none'}: give each by its name."
        )
    return {name: np.asarray(given[name]) for name in names}
