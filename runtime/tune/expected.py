"""Inputs of operators that are tuned, and the values that candidates are held to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.tune.kept import MOST_KEPT
from vdla.errors import ProgramError
from vdla.runtime.native import aligned

__all__ = ["Expected", "Kept"]

Array = NDArray[Any]

_ROUNDING = 3e-5
"""Of the largest value: what rounding float32 sums leaves, Winograd's transformations included."""
_HALF_ROUNDING = 2e-3

_T = TypeVar("_T")


class Expected:
    """Inputs drawn for operators, and what the reference interpreter computes of them.

    Parameters
    ----------
    graph : Graph
        With one output.

    Attributes
    ----------
    inputs : dict of str to array
        By name, in the graph's order, aligned for vectors.
    """

    def __init__(self, graph: Graph) -> None:
        rng = np.random.default_rng(1)
        tensors = [graph.tensors[name] for name in graph.inputs]
        self.inputs = {t.name: _drawn(t.shape, t.dtype, rng) for t in tensors}
        self._graph = graph

    @cached_property
    def _values(self) -> Array:
        (name,) = self._graph.outputs
        found: Array = Interpreter(self._graph).run(self.inputs)[name]
        return found

    def check(self, output: Array) -> None:
        """Hold values to those of the interpreter.

        Raises
        ------
        ProgramError
            They differ by more than rounding explains.
        """
        (name,) = self._graph.outputs
        if output.dtype.kind != "f":
            wrong = int((output != self._values).sum())
            if wrong:
                raise ProgramError(
                    f"{name} must be equal to the interpreter's, and {wrong} of its "
                    f"{output.size} values differ."
                )
            return
        scale = float(np.abs(self._values).max())
        apart = float(np.abs(output - self._values).max())
        most = (_HALF_ROUNDING if output.dtype == np.float16 else _ROUNDING) * scale
        if not apart <= most:
            raise ProgramError(
                f"{name} must be within {most:.2g} of the interpreter's, and it is {apart:.2g} "
                "apart."
            )


class Kept(Generic[_T]):
    """What a process holds of the tasks that it measured last, made once of each."""

    def __init__(self) -> None:
        self._held: dict[str, _T] = {}

    def get(self, key: str, make: Callable[[], _T]) -> _T:
        """Return what is held of a task's key, made where nothing is."""
        found = self._held.pop(key) if key in self._held else make()
        while len(self._held) >= MOST_KEPT:
            del self._held[next(iter(self._held))]
        self._held[key] = found
        return found

    def clear(self) -> None:
        """Hold nothing."""
        self._held.clear()


def _drawn(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Array:
    made = aligned(shape, str(dtype))
    if np.dtype(dtype).kind == "f":
        made[...] = rng.standard_normal(shape, np.float32)
    else:
        limits = np.iinfo(dtype)
        made[...] = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return made
