"""Activations into the accumulator through the GEMM core.

LOADs of ACC stand in compute's own queue, where nothing else runs beside them. LOADs of INP run in
the load module, beside arithmetic; a product with the identity then brings an entry to ACC in one
cycle, in any order and from any stride.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vdla.compiler.targets.vdla.intrinsics import Scope, gemm
from vdla.compiler.te import Expr, Schedule, Tensor, compute, placeholder, reduce_axis, sum_over
from vdla.config import Config

from .lowered import Array

__all__ = ["Mover", "moves_by_product"]


def moves_by_product(config: Config) -> bool:
    """Whether an entry of INP has the lanes of an entry of ACC."""
    return config.block_in == config.block_out


class Mover:
    """Stages that bring int8 entries to ACC, and how they are scheduled.

    Parameters
    ----------
    config : Config
        Where `moves_by_product` does not hold, entries are loaded into ACC.

    Attributes
    ----------
    constants : dict of Tensor to ndarray
        The identity, where it is used.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._identity: Tensor | None = None
        self._loaded: list[Tensor] = []
        self._moved: list[Tensor] = []
        self.constants: dict[Tensor, Array] = {}
        if moves_by_product(config):
            block = config.block_out
            self._identity = placeholder((block, block), "int8", "identity")
            self.constants[self._identity] = np.eye(block, dtype=np.int8)

    def load(self, shape: Sequence[int], read: Callable[..., Expr], name: str) -> Tensor:
        """Return entries loaded from memory: int8 in INP, or int32 in ACC.

        ``read(*indices)`` is an int8 element; the last two dimensions are an entry's.
        """

        def body(*indices: Expr) -> Expr:
            value = read(*indices)
            return value if self._identity is not None else value.astype("int32")

        loaded = compute(tuple(shape), body, name)
        self._loaded.append(loaded)
        return loaded

    def move(
        self,
        shape: Sequence[int],
        source: Tensor,
        index: Callable[..., tuple[Expr, ...]],
        name: str,
    ) -> Tensor:
        """Return entries of a loaded tensor in ACC: ``index(*outer indices)`` says which."""
        assert self._identity is not None
        identity = self._identity
        lane = reduce_axis(self._config.block_in, "lane")

        def body(*indices: Expr) -> Expr:
            *outer, image, row = indices
            value = source[(*index(*outer), image, lane)].astype("int32")
            return sum_over(value * identity[row, lane].astype("int32"), lane)

        moved = compute(tuple(shape), body, name)
        self._moved.append(moved)
        return moved

    @property
    def stages(self) -> tuple[Tensor, ...]:
        """All that is loaded or moved, to be computed at a tile's loop."""
        return (*self._loaded, *self._moved)

    def schedule(self, s: Schedule) -> None:
        """Set scopes, copies and intrinsics of the stages; before compute_at."""
        if self._identity is not None and self._moved:
            buffer = s.cache_read(self._identity, Scope.WGT, self._moved)
            s[buffer].pragma(s[buffer].leaves[0], "dma_copy")
        for tensor in self._loaded:
            s[tensor].set_scope(Scope.ACC if self._identity is None else Scope.INP)
            s[tensor].pragma(s[tensor].leaves[0], "dma_copy")
        for tensor in self._moved:
            s[tensor].set_scope(Scope.ACC)
            s[tensor].tensorize(s[tensor].leaves[-3], gemm(self._config))
