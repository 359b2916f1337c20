"""What is done with files of records: merged, pruned, and looked into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

from vdla.compiler.tune.database import Database
from vdla.compiler.tune.task import OK, Record
from vdla.errors import InputError

from .log import Log, Read

__all__ = ["best", "merge", "prune", "stats"]


def merge(sources: Sequence[Log], into: Log) -> dict[str, Any]:
    """Put the records of several files into one, each once.

    What the file to write holds already stays, and counts for duplicates. Lines of another schema
    are counted, and stay where they are.

    Parameters
    ----------
    sources : sequence of Log
    into : Log
        May be one of them.

    Returns
    -------
    dict
        ``records`` that the file holds then, ``added``, ``duplicates``, ``foreign`` lines, and
        ``cut``, the files with a line that was not written to its end.

    Raises
    ------
    InputError
        There is no such file, it holds something else, or the other cannot be written.
    """
    others = [log for log in sources if log.path.resolve() != into.path.resolve()]
    files = [(log, _read(log)) for log in others]
    done: dict[str, Any] = {}

    def merged(held: Read) -> list[Record]:
        every: dict[str, Record] = {}
        read = [*files, (into, held)]
        records = [*held.records, *(record for _, found in files for record in found.records)]
        for record in records:
            every.setdefault(record.to_json(), record)
        done["records"] = len(every)
        done["added"] = len(every) - len({record.to_json() for record in held.records})
        done["duplicates"] = len(records) - len(every)
        done["foreign"] = sum(found.foreign for _, found in read)
        done["cut"] = [str(log.path) for log, found in read if found.cut]
        return list(every.values())

    into.rewrite(merged)
    return done


def prune(
    log: Log, keep: int | None = None, *, failures: bool = True, versions: bool = True
) -> dict[str, Any]:
    """Leave out of a file what is of no use.

    Parameters
    ----------
    log : Log
    keep : int, optional
        How many records of each task stay, the cheapest and the one that is taken; failures are
        not counted.
    failures : bool
        Whether failures stay: they keep a search from trying them again.
    versions : bool
        Whether records of a template stay of which the file holds a newer version.

    Returns
    -------
    dict
        ``kept`` and ``dropped`` records, and ``foreign`` lines, which stay.

    Raises
    ------
    InputError
        There is no such file, or `keep` is less than 1.
    """
    if keep is not None and keep < 1:
        raise InputError(
            f"At least 1 record of a task must be kept, not {keep}: delete the file instead."
        )
    _read(log)
    done: dict[str, Any] = {}

    def pruned(held: Read) -> list[Record]:
        newest: dict[str, int] = {}
        for record in held.records:
            task = record.task
            newest[task.operator] = max(task.template, newest.get(task.operator, task.template))
        cheap: set[int] = set()
        for records in _by_task(held.records).values():
            fine = sorted((r for r in records if r.status == OK), key=_cost)
            cheap.update(id(record) for record in (*fine[:keep], *Database(records)))
        left = [
            record
            for record in held.records
            if (versions or record.task.template == newest[record.task.operator])
            and (id(record) in cheap if record.status == OK else failures)
        ]
        done.update(kept=len(left), dropped=len(held.records) - len(left), foreign=held.foreign)
        return left

    log.rewrite(pruned)
    return done


def best(logs: Iterable[Log]) -> list[dict[str, Any]]:
    """Return the cheapest record of each task, in the order of their names.

    Returns
    -------
    list of dict
        ``task``, ``target``, ``template``, ``key``, ``cost``, ``unit``, ``point``, ``tool``, and
        ``trials``, failures too.
    """
    rows = []
    for records in _by_task(_all(logs)).values():
        found = next(iter(Database(records)), None)
        if found is None:
            continue
        rows.append(
            {
                **_described(found),
                "cost": found.cost,
                "unit": found.unit,
                "point": dict(found.point),
                "tool": found.tool,
                "trials": sum(not record.chosen_in for record in records),
            }
        )
    return sorted(rows, key=_name)


def stats(logs: Iterable[Log]) -> list[dict[str, Any]]:
    """Return what files hold of each task, in the order of their names.

    Returns
    -------
    list of dict
        ``task``, ``target``, ``template``, ``key``, ``trials``, ``ok``, ``failures`` by what became
        of them, ``best`` and its ``unit``, and ``tools``, the versions that measured.
    """
    rows = []
    for records in _by_task(_all(logs)).values():
        good = [r for r in records if r.status == OK and not r.chosen_in]
        costs = [_cost(record) for record in good]
        rows.append(
            {
                **_described(records[0]),
                "trials": sum(not record.chosen_in for record in records),
                "ok": len(costs),
                "failures": dict(Counter(r.status for r in records if r.status != OK)),
                "best": min(costs, default=None),
                "unit": records[0].unit,
                "tools": sorted({record.tool for record in records}),
            }
        )
    return sorted(rows, key=_name)


def _all(logs: Iterable[Log]) -> Iterator[Record]:
    """Yield the records of all files, each once."""
    seen: set[str] = set()
    for log in logs:
        for record in _read(log).records:
            text = record.to_json()
            if text not in seen:
                seen.add(text)
                yield record


def _read(log: Log) -> Read:
    if not log.path.is_file():
        raise InputError(f"Records must be in a file, and {log.path} is none: name one.")
    return log.read()


def _by_task(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.task.key, []).append(record)
    return found


def _described(record: Record) -> dict[str, Any]:
    task = record.task
    return {
        "task": task.name,
        "target": dict(task.target),
        "template": task.template,
        "key": task.key,
    }


def _cost(record: Record) -> float:
    return inf if record.cost is None else record.cost


def _name(row: dict[str, Any]) -> tuple[str, str]:
    return row["task"], row["key"]
