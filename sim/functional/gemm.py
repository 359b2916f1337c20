"""GEMM."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa import Gemm
from vdla.sim.loops import MicroOps, micro_ops, require_below

from .state import State

__all__ = ["execute_gemm", "saturate"]

_BATCH_SCALARS = 1 << 22
"""Scalars gathered at a time: more leaves the processor's caches, fewer pays for calls."""
_FLOAT32_TERMS = 1 << 10
"""Products of two int8 that float32 adds exactly: 2^10 of at most 2^14 reach 2^24."""


def execute_gemm(state: State, gemm: Gemm) -> None:
    """Multiply and accumulate micro-op after micro-op.

    ``acc[dst] += inp[src] @ wgt[wgt].T`` in 32 bits that wrap, ``=`` with overwrite, 0 with
    reset; then ``out[dst] = saturate(acc[dst])``.
    """
    config = state.config
    widest = max(config.block_in, config.block_out) * config.batch * len(state.acc)
    for chunk in micro_ops(state.uop, gemm, config, _BATCH_SCALARS // widest):
        dst, src, wgt = chunk
        require_below("ACC", dst, config.acc_depth)
        touched = np.unique(dst)
        if gemm.reset:
            state.acc[:, touched] = 0
        else:
            require_below("INP", src, config.inp_depth)
            require_below("WGT", wgt, config.wgt_depth)
            if gemm.overwrite:
                chunk = _last_writes(chunk)
                state.acc[:, touched] = 0
            _accumulate(state, chunk)
        state.out[:, touched] = saturate(state.acc[:, touched])


def saturate(values: NDArray[np.int32]) -> NDArray[np.int8]:
    """Return values narrowed to OUT, those out of range at its limits."""
    return np.clip(values, -128, 127).astype(np.int8)


def _last_writes(chunk: MicroOps) -> MicroOps:
    """Return the micro-ops whose result no later one overwrites."""
    dst, src, wgt = (column[::-1] for column in chunk)
    kept = np.unique(dst, return_index=True)[1]
    return dst[kept], src[kept], wgt[kept]


def _accumulate(state: State, chunk: MicroOps) -> None:
    """Add all products; sums that wrap do not depend on their order."""
    dst, src, wgt = chunk
    by_weight = np.argsort(wgt, kind="stable")
    starts = np.flatnonzero(np.diff(wgt[by_weight], prepend=-1))
    for members in np.split(by_weight, starts[1:]):
        product = _product(state, src[members], int(wgt[members[0]]))
        targets = dst[members]
        if len(np.unique(targets)) == len(targets):
            state.acc[:, targets] += product
        else:
            for image in range(len(state.acc)):
                np.add.at(state.acc[image], targets, product[image])


def _product(state: State, src: NDArray[np.int64], wgt: int) -> NDArray[np.int32]:
    """Return INP entries times one WGT entry, shape (images, len(src), batch, block_out)."""
    config = state.config
    exact = np.float32 if config.block_in <= _FLOAT32_TERMS else np.float64
    inputs = state.inp[:, src].astype(exact)
    images, count = inputs.shape[:2]
    weights = state.wgt[:, wgt].transpose(0, 2, 1).astype(exact)
    rows = inputs.reshape(len(weights), -1, config.block_in)
    product: NDArray[np.int32] = np.matmul(rows, weights).astype(np.int32)
    return product.reshape(images, count, config.batch, config.block_out)
