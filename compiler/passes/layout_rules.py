"""How each operator works on a transposed input: attributes in the other order of dimensions.

Throughout, ``y = transpose(x, perm)``: dimension i of y is dimension ``perm[i]`` of x. A rule turns
the attributes of ``op(y)`` into those of an ``op(x)``, and says by which permutation its output
becomes the wanted one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

__all__ = ["BROADCASTING", "ELEMENTWISE", "RULES", "Moved", "moves_only_ones", "regroup"]

Perm = tuple[int, ...]
Shape = tuple[int, ...]
Attrs = Mapping[str, Any]

ELEMENTWISE = frozenset(
    {
        "cast",
        "clip",
        "dequantize",
        "erf",
        "exp",
        "hard_sigmoid",
        "hard_swish",
        "leaky_relu",
        "log",
        "quantize",
        "relu",
        "relu6",
        "sigmoid",
        "sqrt",
        "tanh",
    }
)
"""Operators that see no dimensions."""

BROADCASTING = frozenset(
    {"add", "div", "equal", "maximum", "minimum", "mul", "pow", "prelu", "sub", "where"}
)
"""Operators of several inputs whose dimensions are matched."""


@dataclass(frozen=True)
class Moved:
    """An operator on x in the place of one on y: its attributes and what permutes its output."""

    attrs: dict[str, Any]
    perm: Perm


def _each(*names: str) -> Callable[[Attrs, Perm, Shape], Moved]:
    """Attributes of one entry a dimension."""

    def rule(attrs: Attrs, perm: Perm, shape: Shape) -> Moved:
        changed = dict(attrs)
        for name in names:
            if attrs[name] is not None:
                entries = list(attrs[name])
                changed[name] = tuple(entries[perm.index(d)] for d in range(len(perm)))
        return Moved(changed, perm)

    return rule


def _one_axis(attrs: Attrs, perm: Perm, shape: Shape) -> Moved:
    return Moved({**attrs, "axis": perm[attrs["axis"]]}, perm)


def _reduced(attrs: Attrs, perm: Perm, shape: Shape) -> Moved:
    axes = tuple(sorted(perm[a] for a in attrs["axes"]))
    changed = {**attrs, "axes": axes}
    if attrs["keep_dims"]:
        return Moved(changed, perm)
    left = [d for d in range(len(perm)) if d not in axes]
    return Moved(changed, tuple(left.index(d) for d in perm if d not in axes))


def _transposed(attrs: Attrs, perm: Perm, shape: Shape) -> Moved:
    return Moved({"perm": tuple(perm[d] for d in attrs["perm"])}, tuple(range(len(perm))))


RULES: Mapping[str, Callable[[Attrs, Perm, Shape], Moved]] = {
    **{op: _each() for op in (*ELEMENTWISE, *BROADCASTING)},
    "concat": _one_axis,
    "mean": _reduced,
    "pad": _each("paddings"),
    "reduce_max": _reduced,
    "reduce_sum": _reduced,
    "resize": _each("size", "scales", "roi"),
    "slice": _each("begin", "end", "step"),
    "softmax": _one_axis,
    "transpose": _transposed,
}
"""``(attrs, perm, shape of y) -> Moved``, by operator."""


def regroup(shape: Shape, target: Shape, perm: Perm) -> tuple[Perm, Shape, Perm]:
    """Split ``reshape(transpose(x, perm), target)`` around the reshape.

    Before: x (1, 6, 6, 8) by (0, 3, 1, 2), then reshaped to (1, 2, 4, 6, 6). After: x reshaped to
    (1, 6, 6, 2, 4), then transposed by (0, 3, 4, 1, 2).

    Parameters
    ----------
    shape : tuple of int
        Of the transposed x.
    target : tuple of int
    perm : tuple of int

    Returns
    -------
    first, target, last
        What permutes x before, the shape it is then given, what permutes the result. Where x's
        dimensions need not be brought together, the first changes nothing.
    """
    groups = _groups(shape, target)

    def place(group: tuple[list[int], list[int]]) -> int:
        """Where the group stands in x: at its first dimension of more than one element."""
        wide = [perm[d] for d in group[0] if shape[d] > 1] or [perm[d] for d in group[0]]
        return min(wide)

    ordered = sorted(groups, key=place)
    first = tuple(perm[d] for group in ordered for d in group[0])
    made = [d for group in ordered for d in group[1]]
    return first, tuple(target[d] for d in made), tuple(made.index(d) for d in range(len(target)))


def _groups(shape: Shape, target: Shape) -> list[tuple[list[int], list[int]]]:
    """Pair runs of dimensions of equal products, each as short as can be; none is empty before."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(shape) or j < len(target):
        mine, theirs = [], []
        if i < len(shape):
            mine.append(i)
            i += 1
        if j < len(target) and not (mine and shape[mine[0]] == 1 and target[j] != 1):
            theirs.append(j)
            j += 1
        while prod(shape[d] for d in mine) != prod(target[d] for d in theirs):
            if prod(shape[d] for d in mine) < prod(target[d] for d in theirs):
                mine.append(i)
                i += 1
            else:
                theirs.append(j)
                j += 1
        if mine or not groups:
            groups.append((mine, theirs))
        else:
            groups[-1][1].extend(theirs)
    return groups


def moves_only_ones(shape: Sequence[int], perm: Sequence[int]) -> bool:
    """Whether a permutation leaves the order of elements alone."""
    wide = [d for d in perm if shape[d] > 1]
    return wide == sorted(wide)
