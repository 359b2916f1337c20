"""Search spaces: the points of a template, by index and by readable knobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError

__all__ = ["Point", "Space", "Value"]

Value: TypeAlias = int | str | bool
Point: TypeAlias = Mapping[str, Value]
"""A choice for each knob, by name."""


class Space:
    """The points of a template that a target can take.

    Knobs depend on one another, as tiles must fit memories together: the points are listed, and a
    point's neighbours are those of the list that differ from it in one knob.

    Parameters
    ----------
    points : iterable of mapping
        All of the same knobs.

    Raises
    ------
    InputError
        There is no point, or one that has other knobs.
    """

    def __init__(self, points: Iterable[Point]) -> None:
        self._points = tuple(dict(point) for point in points)
        if not self._points:
            raise InputError("A space must have a point, and there is none: nothing fits.")
        names = tuple(self._points[0])
        for point in self._points:
            if tuple(point) != names:
                raise InputError(
                    f"All points of a space must have the knobs {', '.join(names)}, not "
                    f"{', '.join(point)}."
                )
        self.knobs: Mapping[str, tuple[Value, ...]] = {
            name: _options([point[name] for point in self._points]) for name in names
        }
        self._index = {tuple(row): k for k, row in enumerate(self.choices.tolist())}

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def __getitem__(self, index: int) -> Point:
        return self._points[index]

    @cached_property
    def choices(self) -> NDArray[np.int64]:
        """Which option of each knob each point takes: (points, knobs)."""
        places = [{option: k for k, option in enumerate(values)} for values in self.knobs.values()]
        rows = [[at[v] for at, v in zip(places, p.values(), strict=True)] for p in self._points]
        return np.array(rows, np.int64).reshape(len(self._points), len(places))

    def index(self, point: Point) -> int:
        """Return where a point stands.

        Raises
        ------
        InputError
            It is not in the space.
        """
        found = self.get(point)
        if found is None:
            raise InputError(
                f"A point must be one of the space's {len(self)}, and {dict(point)} is none."
            )
        return found

    def get(self, point: Point) -> int | None:
        """Return where a point stands, None where it is not in the space."""
        try:
            row = tuple(values.index(point[name]) for name, values in self.knobs.items())
        except (KeyError, ValueError):
            return None
        return self._index.get(row)

    def neighbour(self, index: int, rng: np.random.Generator) -> int:
        """Return a point that differs in one knob, or any where none is found at once."""
        row = self.choices[index]
        sizes = [len(values) for values in self.knobs.values()]
        movable = [k for k, size in enumerate(sizes) if size > 1]
        for _ in range(_TRIES if movable else 0):
            knob = movable[int(rng.integers(len(movable)))]
            changed = row.copy()
            changed[knob] = (row[knob] + rng.integers(1, sizes[knob])) % sizes[knob]
            found = self._index.get(tuple(changed.tolist()))
            if found is not None:
                return found
        return int(rng.integers(len(self)))


_TRIES = 16


def _options(values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(sorted(set(values), key=lambda value: (str(type(value)), value)))
