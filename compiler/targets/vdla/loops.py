"""Affine loop nests around one operation, as instruction loops and micro-ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .ops import Kernel

__all__ = ["Iteration", "Loop", "iterations", "merge", "sequence"]

_ITER_MAX = (1 << 14) - 1


@dataclass(frozen=True)
class Loop:
    """A loop with the entries that one step moves dst, src and wgt by."""

    extent: int
    steps: tuple[int, int, int]
    reduce: bool = False

    @property
    def movable(self) -> bool:
        """Whether an instruction's loop can do it: steps are unsigned factors."""
        return min(self.steps) >= 0 and self.extent <= _ITER_MAX


@dataclass(frozen=True)
class Iteration:
    """The loop fields of one GEMM or ALU instruction, and its micro-ops."""

    kernel: Kernel
    outer: Loop
    inner: Loop

    def spans(self) -> tuple[tuple[int, int], ...]:
        """Return the least and greatest index of dst, src and wgt."""
        low, high = self.kernel.uops.min(axis=0), self.kernel.uops.max(axis=0)
        reach = [
            (self.outer.extent - 1) * a + (self.inner.extent - 1) * b
            for a, b in zip(self.outer.steps, self.inner.steps, strict=True)
        ]
        return tuple((int(lo), int(hi) + r) for lo, hi, r in zip(low, high, reach, strict=True))


_ONCE = Loop(1, (0, 0, 0))


def merge(loops: list[Loop]) -> list[Loop]:
    """Join neighbouring loops that are one longer loop.

    Before: ``14 x (14, 14, 0), 14 x (1, 1, 0)``. After: ``196 x (1, 1, 0)``.
    """
    merged: list[Loop] = []
    for loop in loops:
        if loop.extent == 1:
            continue
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.reduce == loop.reduce
            and last.extent * loop.extent <= _ITER_MAX
            and last.steps == tuple(loop.extent * step for step in loop.steps)
        ):
            merged[-1] = Loop(last.extent * loop.extent, loop.steps, loop.reduce)
        else:
            merged.append(loop)
    return merged


def _grid(base: tuple[int, int, int], loops: list[Loop]) -> NDArray[np.int64]:
    """Return the indices of a nest in loop order, shape (iterations, 3)."""
    points = np.array([base], dtype=np.int64)
    for loop in loops:
        steps = np.arange(loop.extent)[:, None] * np.array(loop.steps)
        points = (points[:, None, :] + steps[None, :, :]).reshape(-1, 3)
    return points


def iterations(
    base: tuple[int, int, int], loops: list[Loop], uop_max: int, *, skip_first: bool = False
) -> Iterator[Iteration]:
    """Yield instructions that cover a nest whose order does not matter.

    The two longest data loops become the instruction's loops, everything else micro-ops, so that
    as few micro-ops as possible are needed. With ``skip_first`` the first step of the reduction
    is left out: an overwriting instruction has done it.
    """
    data = merge([loop for loop in loops if not loop.reduce])
    reduce = [loop for loop in loops if loop.reduce and loop.extent > 1]
    candidates = data if skip_first else [*data, *merge(reduce)]
    movable = sorted((loop for loop in candidates if loop.movable), key=lambda loop: -loop.extent)[
        :2
    ]
    outer_inner = [loop for loop in candidates if loop in movable][:2]
    rest = [loop for loop in candidates if not any(loop is chosen for chosen in outer_inner)]
    outer, inner = ([_ONCE, _ONCE] + outer_inner)[-2:]
    uops = _grid(base, rest)
    if skip_first:
        steps = _grid((0, 0, 0), reduce)[1:]
        uops = (uops[:, None, :] + steps[None, :, :]).reshape(-1, 3)
    for start in range(0, len(uops), uop_max):
        yield Iteration(Kernel(uops[start : start + uop_max]), outer, inner)


def sequence(base: tuple[int, int, int], loops: list[Loop], uop_max: int) -> Iterator[Iteration]:
    """Yield instructions that run a nest in loop order.

    The two innermost loops become the instruction's; each step of the outer ones takes its own.
    Requantization wants this: its parameters are read again whenever src changes.
    """
    loops = merge(loops)
    inner_two = loops[-2:] if all(loop.movable for loop in loops[-2:]) else []
    outside = loops[: len(loops) - len(inner_two)]
    outer, inner = ([_ONCE, _ONCE] + inner_two)[-2:]
    for point in _grid(base, outside):
        yield Iteration(Kernel(point[None, :]), outer, inner)
