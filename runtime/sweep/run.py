"""A sweep from its specification to its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.errors import InputError
from vdla.runtime.cache import cache_folder

from .networks import Networks
from .points import Point
from .pool import Job, Pool, open_pool
from .sampling import points_of
from .spec import Spec, read_spec
from .store import Store
from .study import search
from .table import row_of, table_of, write_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["sweep"]

Progress = Callable[[int, int, str], None]


def sweep(
    spec: str | Path | Mapping[str, Any] | Spec,
    *,
    folder: str | Path | None = None,
    workers: int | None = None,
    scheduler: Any = None,
    shard: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Compile and run every point of a sweep, and return a table with a row a point.

    A result is kept as soon as it is there and never made again: a sweep that was interrupted goes
    on where it stopped, and points shared with another sweep of the same folder are there already.
    A point that fails is a row with its reason.

    Parameters
    ----------
    spec : str, Path, mapping or Spec
        As `read_spec` takes it; ``docs/sweeps.md`` says what it may hold.
    folder : path, optional
        Where results are kept, in ``points``, and the table is written, as ``table.parquet`` and
        ``table.csv``. Without, results are kept in the cache directory and no table is written.
    workers : int, optional
        Processes of this machine, by default one a core.
    scheduler : str or distributed.Client, optional
        Dask's scheduler, instead.
    shard : (int, int), optional
        Which of how many parts of the points, from (1, n) to (n, n).
    progress : callable, optional
        Called with the points done, the points in all, and the one that is done.

    Raises
    ------
    InputError
        The specification, the shard or the workers are not as they should be.
    """
    if not isinstance(spec, Spec):
        spec = read_spec(spec)
    _check(spec, shard)
    where = cache_folder("sweeps") if folder is None else Path(folder)
    worked = _Worked(spec, Store(where / "points"), progress)
    with _when_needed(worked.networks, workers, scheduler) as pool:
        if spec.objectives:
            worked.total = spec.count
            points = search(spec, lambda proposed: worked.rows(proposed, pool))
        else:
            points = points_of(spec)
            if shard is not None:
                points = points[shard[0] - 1 :: shard[1]]
            worked.total = len(points)
        rows = worked.rows(points, pool)
    table = table_of(rows)
    if folder is not None:
        name = "table" if shard is None else f"table-{shard[0]}-of-{shard[1]}"
        write_table(table, Path(folder), name)
    return table


def _check(spec: Spec, shard: tuple[int, int] | None) -> None:
    if spec.objectives and len(spec.networks) > 1:
        raise InputError(
            f"A study must have one network, not {len(spec.networks)}: what is best for one need "
            "not be for another."
        )
    if shard is None:
        return
    part, parts = shard
    if not 1 <= part <= parts:
        rule = f"one of 1/{parts} to {parts}/{parts}" if parts else "a part of at least 1"
        raise InputError(f"A shard must be {rule}, not {part}/{parts}: count parts from 1.")
    if spec.objectives:
        raise InputError(
            "A study must be run whole, not in shards: each trial follows from those before it. "
            "Give it a scheduler."
        )


class _Worked:
    """Results by key, from the store or from whoever works."""

    def __init__(self, spec: Spec, store: Store, progress: Progress | None) -> None:
        self.networks = Networks(spec)
        self.total = 0
        self._store = store
        self._progress = progress
        self._results: dict[str, dict[str, Any]] = {}

    def rows(self, points: Sequence[Point], pool: Pool) -> list[dict[str, Any]]:
        """Return the row of each point, working on those that nobody has worked on."""
        keys = [point.key(self.networks.key(point.network)) for point in points]
        jobs: dict[str, Point] = {}
        for key, point in zip(keys, points, strict=True):
            if key in self._results or key in jobs:
                continue
            kept = self._store.get(key)
            if kept is None or "status" not in kept:
                jobs[key] = point
            else:
                self._done(key, kept, "kept from before")
        if jobs:
            for key, result in pool(list(jobs.items())):
                passing = result.pop("passing", False)
                if not passing:
                    self._store.put(key, jobs[key].to_dict(), result)
                self._done(key, result, jobs[key].network)
        return [row_of(p, k, self._results[k]) for p, k in zip(points, keys, strict=True)]

    def _done(self, key: str, result: dict[str, Any], doing: str) -> None:
        self._results[key] = result
        if self._progress is not None:
            self._progress(len(self._results), self.total, doing)


@contextmanager
def _when_needed(networks: Networks, workers: int | None, scheduler: Any) -> Iterator[Pool]:
    """Yield a pool that opens with the first job: a sweep that is all kept starts no worker."""
    with ExitStack() as stack:
        opened: list[Pool] = []

        def work(jobs: Sequence[Job]) -> Iterator[tuple[str, dict[str, Any]]]:
            if not opened:
                opened.append(stack.enter_context(open_pool(networks, workers, scheduler)))
            return opened[0](jobs)

        yield work
