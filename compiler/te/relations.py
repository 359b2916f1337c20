"""How loops come from others: split in two, or two made one."""

from __future__ import annotations

from dataclasses import dataclass

from .tensor import IterVar

__all__ = ["Fuse", "Relation", "Split"]


@dataclass(frozen=True)
class Split:
    """``parent = outer * factor + inner``; or, factor being None, in at most ``nparts`` parts.

    A part's length follows from the greatest extent that the parent has where its stage is
    computed.
    """

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: int | None
    nparts: int | None


@dataclass(frozen=True)
class Fuse:
    """``outer = fused // inner.extent`` and ``inner = fused % inner.extent``."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


Relation = Split | Fuse
