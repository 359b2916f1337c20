"""Which schedule is known to be the best for a task: of records, and of those that come along."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import resources

from .task import OK, SIMULATED, Record, Task, read_record

__all__ = ["Database", "built_in"]

_FOLDER = "schedules"


class Database:
    """The best record of each task.

    That is the last one which was chosen in a network; or else the cheapest, those measured on
    hardware before simulated ones.

    A task is found by all that its costs depend on; what was found for one that is merely alike is
    never given out.

    Parameters
    ----------
    records : iterable of Record
        Of any tasks; those of candidates that failed say nothing here.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._best: dict[str, Record] = {}
        for record in records:
            if record.status != OK or record.cost is None:
                continue
            known = self._best.get(record.task.key)
            if known is None or _before(record, known):
                self._best[record.task.key] = record

    def __len__(self) -> int:
        return len(self._best)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._best.values())

    def find(self, task: Task) -> Record | None:
        """Return the best record of a task, None where there is none."""
        return self._best.get(task.key)

    def over(self, other: Database) -> Database:
        """Return both as one, in which this one's records replace the other's."""
        both = Database()
        both._best = {**other._best, **self._best}
        return both

    @property
    def digest(self) -> str:
        """Digits that say what it holds."""
        lines = sorted(record.to_json() for record in self)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _before(record: Record, known: Record) -> bool:
    """Tell whether a record stands before another one that is older."""
    if record.chosen_in or known.chosen_in:
        return bool(record.chosen_in)
    if (record.device in SIMULATED) != (known.device in SIMULATED):
        return known.device in SIMULATED
    return (record.cost or 0.0) < (known.cost or 0.0)


@lru_cache(maxsize=1)
def built_in() -> Database:
    """Return the records that come with vdla."""
    folder = resources.files(__package__) / _FOLDER
    texts = [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".jsonl")]
    found = (read_record(line) for text in texts for line in text.splitlines())
    return Database(record for record in found if record is not None)
