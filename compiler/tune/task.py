"""What is tuned, and what was found: the key of a record, and the record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from vdla.errors import InputError

from .space import Point

__all__ = ["FAILURES", "OK", "SCHEMA", "SIMULATED", "Record", "Task", "read_record"]

SCHEMA = 1
"""Of a record's JSON."""

OK = "ok"
FAILURES = ("does not fit", "does not lower", "wrong result", "crash", "time-out")
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
        configuration's hash, its memory and virtual threads; of a processor its level and name.
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
        Where it was measured: ``cycle``, ``rtl``, ``pynq``, ``cpu``.
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
        The line is no record.
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
        record = replace(record, features=tuple(map(float, record.features)))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"A record must be a line of JSON with all its fields: {error}") from None
    return record if task.key == key else None


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
