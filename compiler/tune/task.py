"""What is tuned, and what was found: the key of a record, and the record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import isfinite
from typing import Any

from vdla.errors import InputError

from .space import Point

__all__ = ["FAILURES", "OK", "SCHEMA", "SIMULATED", "WRONG", "Record", "Task", "read_record"]

SCHEMA = 1
"""Of a record's JSON."""

OK = "ok"
WRONG = "wrong result"
FAILURES = ("does not fit", "does not lower", WRONG, "crash", "time-out")
"""What becomes of a candidate, beside `OK`."""

SIMULATED = ("cycle", "rtl")
"""Devices that count the same cycles; a board's memory is another one."""


@dataclass(frozen=True)
class Task:
    """An operator of one shape, on one target, by one version of a template.

    Parameters
    ----------
    operator : str
    template : int
        Version of the template: records of another one say nothing of this.
    shape, target : mapping
        Of JSON's values. A target is all that costs depend on: of the accelerator its
        configuration's hash, its memory and virtual threads; of a processor its level and name, of
        a GPU what drives it and its name.
    """

    operator: str
    template: int
    shape: Mapping[str, Any]
    target: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """Sixteen digits that no other task has."""
        return hashlib.sha256(_text(asdict(self)).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """For tables: the operator and what of its shape is not said by default."""
        said = ", ".join(f"{name} {_short(value)}" for name, value in self.shape.items())
        return f"{self.operator} ({said})"


@dataclass(frozen=True)
class Record:
    """What became of one candidate.

    Parameters
    ----------
    task : Task
    point : mapping
        The knobs.
    cost : float or None
        In `unit`; None of one that failed.
    unit : str
        ``cycles`` or ``seconds``.
    status, reason : str
        `OK` or one of `FAILURES`, and its text.
    tool : str
        Version of vdla that measured it.
    device : str
        Where it was measured: ``cycle``, ``rtl``, ``pynq``, ``cpu``, ``opencl``, ``cuda``.
    features : tuple of float
        Of its loop nest, as `vdla.compiler.tune.features.NAMES` names them, for models of other
        tasks; empty where no model asked for them.
    chosen_in : str
        The network in which it was found the best, though another one may be faster alone.
    """

    task: Task
    point: Point
    cost: float | None
    unit: str
    status: str = OK
    reason: str = ""
    tool: str = ""
    device: str = ""
    features: tuple[float, ...] = ()
    chosen_in: str = ""

    def to_json(self) -> str:
        """Return one line, without its end."""
        return _text({"schema": SCHEMA, "key": self.task.key, **asdict(self)})


def read_record(line: str) -> Record | None:
    """Return the record of a line, None where another schema or another task's key is.

    Raises
    ------
    InputError
        The line is no record, or a field of it cannot be.
    """
    try:
        found = json.loads(line)
        if found["schema"] != SCHEMA:
            return None
        key = found.pop("key")
        del found["schema"]
        task = Task(**found.pop("task"))
        names = {one.name for one in fields(Record)} - {"task"}
        record = Record(task, **{name: found[name] for name in names})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"A record must be a line of JSON with all its fields: {error}") from None
    for name, holds in _HOLDS.items():
        value = getattr(task if name in _OF_TASKS else record, name)
        if not holds(value):
            raise InputError(
                f"A record's {name} must be {_WORDS[name]}, not {_shortened(value)}: leave the "
                "line out."
            )
    if (record.status == OK) != (record.cost is not None):
        raise InputError(
            f"A record must have a cost if it is {OK}, and only then, and this one is "
            f"{record.status} with {record.cost}: leave the line out."
        )
    return replace(record, features=tuple(record.features)) if task.key == key else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_OF_TASKS = ("operator", "template", "shape", "target")
_HOLDS: Mapping[str, Callable[[Any], bool]] = {
    "operator": _is_text,
    "template": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "shape": _is_object,
    "target": _is_object,
    "point": lambda value: (
        _is_object(value) and all(isinstance(one, (int, str)) for one in value.values())
    ),
    "cost": lambda value: value is None or (_is_number(value) and value >= 0),
    "unit": lambda value: value in ("cycles", "seconds"),
    "status": lambda value: value in (OK, *FAILURES),
    "reason": _is_text,
    "tool": _is_text,
    "device": _is_text,
    "features": lambda value: isinstance(value, list) and all(map(_is_number, value)),
    "chosen_in": _is_text,
}
_WORDS: Mapping[str, str] = {
    "operator": "a text",
    "template": "an integer",
    "shape": "an object",
    "target": "an object",
    "point": "an object of integers, texts and booleans",
    "cost": "a number of at least 0 or null",
    "unit": "cycles or seconds",
    "status": ", ".join((OK, *FAILURES)),
    "reason": "a text",
    "tool": "a text",
    "device": "a text",
    "features": "a list of numbers",
    "chosen_in": "a text",
}


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


_MOST_CHARACTERS = 60


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
