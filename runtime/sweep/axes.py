"""What a sweep may vary, and the values along one axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from vdla.config import PYNQ_Z1, Config
from vdla.errors import InputError
from vdla.runtime.api import RANKS

__all__ = [
    "CHOICES",
    "DEPTHS",
    "FIELDS",
    "MOST_INTEGER",
    "MOST_POINTS",
    "Axis",
    "Span",
    "read_axis",
    "short",
]

FIELDS: Mapping[str, type] = {
    f.name: type(getattr(PYNQ_Z1, f.name)) for f in fields(Config) if f.name != "name"
} | {"dram_bytes_per_cycle": float}
"""Fields of a configuration, each with its type."""

DEPTHS: Mapping[str, str] = {
    f"{kind}_depth": f"{kind}_bytes" for kind in ("uop", "inp", "wgt", "acc")
}
"""Entries of a scratchpad, and the field that they set together with the size of an entry."""


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)


def _is_places(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(text, str) for pair in value.items() for text in pair
    )


CHOICES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "device": (lambda value: isinstance(value, str), "the name of a device"),
    "place": (_is_places, "a table of devices by node, such as { maxpool = 'cpu' }"),
    "rank": (lambda value: value in RANKS, f"one of {', '.join(RANKS)}"),
    "vthreads": (lambda value: value in (1, 2) and _is_int(value), "1 or 2"),
    "without": (_is_texts, "a list of names of passes, such as ['fusion']"),
}
"""Options of compilation: a test of a value, and what it must be."""

_SPAN_KEYS = {"low", "high", "step", "powers_of_two"}

MOST_POINTS = 1_000_000
"""Of a grid, and of an axis."""
_SHOWN = 60
MOST_INTEGER = (1 << 63) - 1
"""That a table's column holds."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Numbers between two, both included, without a step: for samples and studies alone.

    Parameters
    ----------
    low, high : int or float
    whole : bool
        Whether only integers are meant.
    """

    low: float
    high: float
    whole: bool

    def at(self, part: float) -> float:
        """Return the number at a part of the way, 0 to 1."""
        if not self.whole:
            return self.low + part * (self.high - self.low)
        steps = int(self.high) - int(self.low) + 1
        return int(self.low) + min(int(part * steps), steps - 1)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One thing that varies.

    Parameters
    ----------
    name : str
        A field, a depth, an option, or any other name where the values are tables of those.
    values : tuple or Span
        Each value is a mapping from what it sets to what it is set to; a `Span`'s is a number.
    """

    name: str
    values: tuple[Mapping[str, Any], ...] | Span

    @property
    def sets(self) -> frozenset[str]:
        """Names of what the axis sets; a depth sets its scratchpad's bytes."""
        if isinstance(self.values, Span):
            return frozenset({DEPTHS.get(self.name, self.name)})
        return frozenset(DEPTHS.get(name, name) for value in self.values for name in value)

    def at(self, part: float) -> Mapping[str, Any]:
        """Return the value at a part of the way along the axis, 0 to 1."""
        if isinstance(self.values, Span):
            return {self.name: self.values.at(part)}
        return self.values[min(int(part * len(self.values)), len(self.values) - 1)]


def read_axis(name: str, given: object) -> Axis:
    """Return an axis from what a specification says of it.

    A list holds values; a table with ``low`` and ``high`` spans numbers, every one or, with
    ``step`` or ``powers_of_two``, some; anything else is one value. A name that is no field, no
    depth and no option stands for several at once, and its values are tables of those.

    Raises
    ------
    InputError
        Names the axis, what is wrong with it, and what it may be.
    """
    if _known(name) and isinstance(given, Mapping) and given.keys() & {"low", "high"}:
        return Axis(name=name, values=_read_span(name, given))
    # `without` and `place` take lists and tables themselves: one of texts is one value.
    single = not isinstance(given, (list, tuple)) or (
        name == "without" and _is_texts(given) and bool(given)
    )
    values = [given] if single else list(given)  # type: ignore[call-overload]
    if not values:
        raise InputError(
            f"The axis {name} must hold at least one value, not []: add one, or leave it out."
        )
    read: tuple[Mapping[str, Any], ...]
    if _known(name):
        read = tuple({name: _checked(name, value)} for value in values)
    else:
        read = tuple(_read_several(name, value) for value in values)
    texts = [repr(value) for value in read]
    again = next((text for text in texts if texts.count(text) > 1), None)
    if again is not None:
        raise InputError(
            f"The axis {name} must hold each value once, not {again} twice: leave one out."
        )
    return Axis(name=name, values=read)


def _known(name: str) -> bool:
    return name in FIELDS or name in DEPTHS or name in CHOICES


def _read_several(axis: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise InputError(
            f"An axis must be a field of a configuration, a depth or an option, not {axis!r}: "
            f"one of {', '.join((*FIELDS, *DEPTHS, *CHOICES))}; another name stands for several "
            f"of them, and each of its values is a table, not {value!r}."
        )
    for name in value:
        if not _known(name):
            raise InputError(
                f"A value of the axis {axis} must set fields, depths or options, not {name!r}: "
                f"one of {', '.join((*FIELDS, *DEPTHS, *CHOICES))}."
            )
    return {name: _checked(name, inner) for name, inner in value.items()}


def _checked(name: str, value: object) -> Any:
    if name in CHOICES:
        holds, rule = CHOICES[name]
        if not holds(value):
            raise InputError(f"A value of {name} must be {rule}, not {value!r}.")
        return value
    whole = FIELDS.get(name, int) is int
    if type(value) is int and abs(value) <= MOST_INTEGER:
        return value if whole else float(value)
    if not whole and isinstance(value, float) and isfinite(value):
        return value
    kind = "an integer" if whole else "a number"
    if type(value) in (int, float) and not (whole and isinstance(value, float)):
        kind = f"at most {MOST_INTEGER:,}" if isinstance(value, int) else "finite"
    raise InputError(f"A value of {name} must be {kind}, not {short(value)}: change it.")


def short(value: object) -> str:
    """Return a value for a message, the middle of a long one left out."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"


def _read_span(name: str, given: Mapping[str, object]) -> tuple[Mapping[str, Any], ...] | Span:
    if name in CHOICES:
        raise InputError(f"The axis {name} must be a list, not from low to high: name its values.")
    unknown = sorted(given.keys() - _SPAN_KEYS)
    if unknown or not {"low", "high"} <= given.keys() or len(given) > 3:
        raise InputError(
            f"The axis {name} must have low, high, and at most one of step and powers_of_two, not "
            f"{', '.join(given)}: write, for example, {{ low = 8, high = 64, step = 8 }}."
        )
    low, high = (_checked(name, given[end]) for end in ("low", "high"))
    if not low < high:
        raise InputError(f"The axis {name} must go up, not from {low} to {high}: exchange them.")
    whole = FIELDS.get(name, int) is int
    doubled = given.get("powers_of_two", False)
    if not isinstance(doubled, bool):
        raise InputError(
            f"powers_of_two of the axis {name} must be true or false, not {doubled!r}: change it."
        )
    if doubled:
        return _each(name, _doubled(name, low, high))
    if "step" in given:
        step = _checked(name, given["step"])
        if step <= 0:
            raise InputError(f"The step of the axis {name} must be positive, not {step}.")
        steps = (high - low) / step
        if not steps < MOST_POINTS:
            raise InputError(
                f"An axis must have at most {MOST_POINTS:,} values, and {name} has more: make its "
                "step larger, or leave it out and draw points with [sample]."
            )
        count = int(steps + 1e-9) + 1
        return _each(name, [low + index * step for index in range(count)])
    return Span(low=low, high=high, whole=whole)


def _doubled(name: str, low: float, high: float) -> list[float]:
    if low < 1 or low != 1 << (int(low).bit_length() - 1):
        raise InputError(
            f"The axis {name} of powers of two must begin at one, not at {low}: change low."
        )
    values = [low]
    while values[-1] * 2 <= high:
        values.append(values[-1] * 2)
    return values


def _each(name: str, values: Sequence[float]) -> tuple[Mapping[str, Any], ...]:
    return tuple({name: value} for value in values)
