"""GEMM."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.isa import Gemm
from vdla.sim.loops import micro_ops, require_below

from .state import State

__all__ = ["execute_gemm", "saturate"]

_Indices = NDArray[np.int64]

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
    for dst, src, wgt in micro_ops(state.uop, gemm, config, _BATCH_SCALARS // widest):
        require_below("ACC", dst, config.acc_depth)
        written = np.zeros(config.acc_depth, np.bool_)
        written[dst] = True
        touched = np.flatnonzero(written)
        if gemm.reset:
            state.acc[:, touched] = 0
        else:
            require_below("INP", src, config.inp_depth)
            require_below("WGT", wgt, config.wgt_depth)
            if gemm.overwrite:
                last = np.zeros(config.acc_depth, np.int64)
                last[dst] = np.arange(len(dst))  # of those to one entry, the last stays
                kept = last[touched]
                dst, src, wgt = dst[kept], src[kept], wgt[kept]
                state.acc[:, touched] = 0
            _accumulate(state, dst, src, wgt)
        state.out[:, touched] = saturate(state.acc[:, touched])


def saturate(values: NDArray[np.int32]) -> NDArray[np.int8]:
    """Return values narrowed to OUT, those out of range at its limits."""
    return np.clip(values, -128, 127).astype(np.int8)


def _accumulate(state: State, dst: _Indices, src: _Indices, wgt: _Indices) -> None:
    """Add all products; sums that wrap do not depend on their order."""
    order = np.argsort(dst, kind="stable")
    firsts = np.flatnonzero(np.diff(dst[order], prepend=-1))
    counts = np.diff(firsts, append=len(order))
    for count in np.unique(counts):
        # A row is an entry of ACC, its columns the micro-ops that add to it.
        rows = order[firsts[counts == count][:, np.newaxis] + np.arange(count)]
        for alike in _of_equal_weights(wgt[rows]):
            some = rows[alike]
            state.acc[:, dst[some[:, 0]]] += _products(state, src[some], wgt[some[0]])


def _of_equal_weights(wgt: _Indices) -> list[_Indices]:
    """Split rows into those of the same weights, which one matrix product takes at a time."""
    order = np.argsort(wgt[:, 0], kind="stable")
    ordered = wgt[order]
    return np.split(order, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1)


def _products(state: State, src: _Indices, wgt: _Indices) -> NDArray[np.int32]:
    """Return sums of INP entries times WGT entries.

    Parameters
    ----------
    src : ndarray of int64, shape (rows, terms)
    wgt : ndarray of int64, shape (terms,)

    Returns
    -------
    ndarray of int32, shape (images, rows, batch, block_out)
    """
    config = state.config
    exact = np.float32 if config.block_in <= _FLOAT32_TERMS else np.float64
    step = max(1, _FLOAT32_TERMS // config.block_in)
    total = np.zeros((1, 1), np.int32)
    for first in range(0, len(wgt), step):
        inputs = state.inp[:, src[:, first : first + step]].transpose(0, 1, 3, 2, 4)
        weights = state.wgt[:, wgt[first : first + step]].transpose(0, 1, 3, 2)
        width = weights.shape[1] * config.block_in
        matrix = weights.reshape(len(weights), width, config.block_out).astype(exact)
        rows = inputs.reshape(len(weights), -1, width).astype(exact)
        total = total + np.matmul(rows, matrix).astype(np.int32)
    return total.reshape(len(state.acc), len(src), config.batch, config.block_out)
