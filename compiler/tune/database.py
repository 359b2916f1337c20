"""Which schedule is known to be the best for a task: of records, and of those that come along."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import resources

from .task import OK, SIMULATED, WRONG, Record, Task, read_record

__all__ = ["Database", "built_in"]

_FOLDER = "schedules"


class Database:
    """The best record of each task.

    For a network that is the last record which was chosen in it, for else the cheapest of its
    task, those measured on hardware before simulated ones. A point of which any record says that
    it computes wrong values is none.

    A task is found by all that its costs depend on; what was found for one that is merely alike is
    never given out.

    Parameters
    ----------
    records : iterable of Record
        Of any tasks, older ones first.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._best: dict[str, Record] = {}
        self._chosen: dict[tuple[str, str], Record] = {}
        every = list(records)
        wrong = {_place(record) for record in every if record.status == WRONG}
        for record in every:
            if record.status != OK or record.cost is None or (wrong and _place(record) in wrong):
                continue
            key = record.task.key
            if record.chosen_in:
                self._chosen[key, record.chosen_in] = record
            known = self._best.get(key)
            if known is None or _before(record, known):
                self._best[key] = record

    def __len__(self) -> int:
        return len(self._best)

    def __iter__(self) -> Iterator[Record]:
        """Yield the best record of each task alone, and then those that networks chose."""
        yield from self._best.values()
        yield from (r for r in self._chosen.values() if r is not self._best[r.task.key])

    def find(self, task: Task, network: str = "") -> Record | None:
        """Return the best record of a task in a network, None where there is none."""
        return self._chosen.get((task.key, network)) or self._best.get(task.key)

    def over(self, other: Database) -> Database:
        """Return both as one, in which this one's records of a task replace the other's."""
        both = Database()
        both._best = {**other._best, **self._best}
        kept = {at: one for at, one in other._chosen.items() if at[0] not in self._best}
        both._chosen = {**kept, **self._chosen}
        return both

    @property
    def digest(self) -> str:
        """Digits that say what it holds."""
        lines = sorted(record.to_json() for record in self)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _before(record: Record, known: Record) -> bool:
    """Tell whether a record stands before another one."""
    if (record.device in SIMULATED) != (known.device in SIMULATED):
        return known.device in SIMULATED
    return (record.cost or 0.0) < (known.cost or 0.0)


def _place(record: Record) -> tuple[str, str]:
    return record.task.key, repr(sorted(record.point.items()))


@lru_cache(maxsize=1)
def built_in() -> Database:
    """Return the records that come with vdla."""
    folder = resources.files(__package__) / _FOLDER
    texts = [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".jsonl")]
    found = (read_record(line) for text in texts for line in text.splitlines())
    return Database(record for record in found if record is not None)
