"""Compiled results of everything but products: loads, stores, ALU and resets.

`advance` runs instructions one after another and returns at each GEMM that multiplies, because
its product is BLAS's. ALU vectors are computed in order, lane by lane, so vectors that depend on
each other need no analysis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .jit import compiled

__all__ = ["Buffers", "accumulate", "advance", "gather"]

_LOAD, _STORE, _GEMM, _ALU = 0, 1, 2, 4
_UOP, _WGT, _INP, _ACC = 0, 1, 2, 3
_MIN, _MAX, _ADD, _SHR, _MUL, _RQ = range(6)  # not read from the table: see `jit`


class Buffers(NamedTuple):
    """The scratchpads of one image; INP and WGT as BLAS wants them.

    Attributes
    ----------
    uop : ndarray of int64, shape (uop_depth,)
    inp : ndarray of float32, shape (inp_depth, batch, block_in)
    flat_inp : ndarray of float32
        The same memory in one dimension.
    wgt : ndarray of float32, shape (wgt_depth, block_in, block_out)
        Transposed, so that entries one after another stack along the reduction.
    acc : ndarray of int32, shape (acc_depth, batch * block_out)
    out : ndarray of int8, shape (acc_depth, batch * block_out)
    held : ndarray of int32, shape (3, batch * block_out)
        Parameters of RQ as last read.
    """

    uop: NDArray[np.int64]
    inp: NDArray[np.float32]
    flat_inp: NDArray[np.float32]
    wgt: NDArray[np.float32]
    acc: NDArray[np.int32]
    out: NDArray[np.int8]
    held: NDArray[np.int32]


@compiled
def _row(kind: int, b: Any, at: int, dram: Any, address: int, count: int, size: int) -> None:
    """Copy `count` elements of `size` bytes to scratchpad entries from `at` on.

    Slices, and loops over nothing but their own index, let LLVM use vectors.
    """
    if kind == _INP:
        source = dram[address : address + count * size]
        into = b.flat_inp[at * size : (at + count) * size]
        for k in range(len(into)):
            into[k] = source[k]
        return
    for x in range(count):
        source = dram[address + x * size : address + (x + 1) * size]
        if kind == _WGT:
            block = b.wgt[at + x]
            width = block.shape[0]
            for o in range(block.shape[1]):
                line = source[o * width : (o + 1) * width]
                for k in range(width):
                    block[k, o] = line[k]
            continue
        lanes = b.acc[at + x]
        for lane in range(len(lanes)):
            if kind == _ACC:
                word = np.int64(source[4 * lane + 3])
                for byte in (2, 1, 0):
                    word = word << 8 | (np.int64(source[4 * lane + byte]) & 255)
                lanes[lane] = word
            else:
                lanes[lane] = source[lane]


@compiled
def _pad(kind: int, b: Any, at: int, count: int, value: int) -> int:
    if kind == _INP:
        b.inp[at : at + count] = value
    elif kind == _WGT:
        b.wgt[at : at + count] = value
    else:
        b.acc[at : at + count] = value
    return at + count


@compiled
def _load(c: Any, i: int, b: Any, dram: Any, fill: Any) -> None:
    at = c.sram[i]
    kind = c.memory_type[i]
    if kind == _UOP:
        for k in range(c.uop_size[i]):
            b.uop[at + k] = fill[c.uop_at[i] + k]
        return
    at = _pad(kind, b, at, c.pad_head[i], c.pad_value[i])
    for row in range(c.rows[i]):
        if row > 0:
            at = _pad(kind, b, at, c.pad_row[i], c.pad_value[i])
        address = c.address[i] + row * c.stride_bytes[i]
        _row(kind, b, at, dram, address, c.x_size[i], c.element_bytes[i])
        at += c.x_size[i]
    _pad(kind, b, at, c.pad_tail[i], c.pad_value[i])


@compiled
def _store(c: Any, i: int, b: Any, dram: Any) -> None:
    at = c.sram[i]
    size = c.element_bytes[i]
    for row in range(c.rows[i]):
        address = c.address[i] + row * c.stride_bytes[i]
        for x in range(c.x_size[i]):
            into, entry = dram[address + x * size : address + (x + 1) * size], b.out[at + x]
            for lane in range(len(into)):
                into[lane] = entry[lane]
        at += c.x_size[i]


@compiled
def _requantize(value: Any, bias: Any, multiplier: Any, packed: Any, imm: Any) -> Any:
    """RQ of one lane, as `vdla.sim.functional.requantize` states it."""
    x = np.int64(np.int32(np.int64(value) + np.int64(bias)))
    shift: Any = np.int64(packed) & 31
    zero = np.int64(np.int8(np.int64(packed) >> 8 & 255))
    product = x * np.int64(multiplier)
    if np.int64(packed) >> 16 & 1:
        scaled = (product + (np.int64(1) << (30 + shift))) >> (31 + shift)
    else:
        scaled = min((product + (np.int64(1) << 30)) >> 31, np.int64(2147483647))
        half = np.int64(1) << (shift - 1) if shift > 0 else np.int64(0)
        magnitude = (abs(scaled) + half) >> shift
        scaled = magnitude if scaled >= 0 else -magnitude
    scaled += zero
    low, high = np.int64(np.int8(imm & 255)), np.int64(np.int8(imm >> 8 & 255))
    if low <= high:
        scaled = min(max(scaled, low), high)
    return np.int32(scaled)


@compiled
def _operate(op: int, x: Any, y: Any) -> Any:
    a: Any = np.int64(x)
    b: Any = np.int64(y)
    if op == _MIN:
        return np.int32(min(a, b))
    if op == _MAX:
        return np.int32(max(a, b))
    if op == _ADD:
        return np.int32(a + b)
    if op == _MUL:
        return np.int32(a * b)
    if b >= 0:
        return np.int32(a >> min(b, 31))
    return np.int32(a << min(-b, 32))


@compiled
def _hold(b: Any, src: int) -> None:
    """Read RQ's parameters; they stay until src changes, whatever is written meanwhile."""
    for k in range(b.held.shape[0]):
        into, entry = b.held[k], b.acc[src + k]
        for lane in range(len(into)):
            into[lane] = entry[lane]


@compiled
def _vector(c: Any, i: int, b: Any, dst: int, src: int) -> None:
    op, imm = c.alu_opcode[i], c.imm[i]
    for lane in range(b.acc.shape[1]):
        value = b.acc[dst, lane]
        if op == _RQ:
            value = _requantize(value, b.held[0, lane], b.held[1, lane], b.held[2, lane], imm)
        elif c.use_imm[i]:
            value = _operate(op, value, imm)
        else:
            value = _operate(op, value, b.acc[src, lane])
        b.acc[dst, lane] = value
        b.out[dst, lane] = min(max(value, -128), 127)


@compiled
def _issue(c: Any, i: int, b: Any, p: Any) -> Any:
    """Execute an ALU instruction or a reset; return an ACC index past its end, or -1."""
    is_alu = c.opcode[i] == _ALU
    reads = 3 if c.is_rq[i] else 1 if c.reads_src[i] else 0
    previous = -1
    for o in range(c.iter_out[i]):
        for n in range(c.iter_in[i]):
            for u in range(c.uop_begin[i], c.uop_end[i]):
                word = b.uop[u]
                dst = (word & p.dst_mask) + o * c.dst_out[i] + n * c.dst_in[i]
                if dst >= len(b.acc):
                    return dst
                if not is_alu:
                    b.acc[dst] = 0
                    b.out[dst] = 0
                    continue
                src = ((word >> p.src_lsb) & p.src_mask) + o * c.src_out[i] + n * c.src_in[i]
                if reads > 0 and src + reads > len(b.acc):
                    return src + reads - 1
                if c.is_rq[i] and src != previous:
                    _hold(b, src)
                    previous = src
                _vector(c, i, b, dst, src)
    return -1


@compiled
def advance(
    c: Any,
    order: Any,
    k: int,
    uop: Any,
    inp: Any,
    flat_inp: Any,
    wgt: Any,
    acc: Any,
    out: Any,
    held: Any,
    p: Any,
    dram: Any,
    fill: Any,
) -> tuple[int, int]:
    """Execute ``order[k:]`` up to a GEMM that multiplies.

    Takes the members of `Buffers` and an array of one record one by one: numba unpacks a tuple
    or a record for longer than a short run of instructions takes.

    Returns
    -------
    k : int
        Place in `order` of that GEMM, of the failed instruction, or one past the end.
    beyond : int
        An ACC index past the buffer that the instruction at `k` names, or -1.
    """
    b = Buffers(uop, inp, flat_inp, wgt, acc, out, held)
    while k < len(order):
        i = order[k]
        op = c.opcode[i]
        if op == _LOAD:
            _load(c, i, b, dram, fill)
        elif op == _STORE:
            _store(c, i, b, dram)
        elif op == _ALU or (op == _GEMM and c.reset[i]):
            beyond = _issue(c, i, b, p[0])
            if beyond >= 0:
                return k, beyond
        elif op == _GEMM and c.count[i] > 0:
            return k, -1
        k += 1
    return k, -1


@compiled
def gather(inp: Any, src: Any, out: Any) -> None:
    """Copy INP entries ``src[g, p, r]`` to ``out[g, p * batch + b, r * block_in :]``."""
    batch, width = inp.shape[1], inp.shape[2]
    for g in range(src.shape[0]):
        for p in range(src.shape[1]):
            for b in range(batch):
                row = out[g, p * batch + b]
                for r in range(src.shape[2]):
                    entry = inp[src[g, p, r], b]
                    for k in range(width):
                        row[r * width + k] = entry[k]


@compiled
def accumulate(acc: Any, out: Any, dst: Any, product: Any, overwrite: int) -> None:
    """Add ``product[g, p * batch + b]`` to ACC entry ``dst[g, p]``, or write it; OUT follows."""
    lanes = product.shape[2]
    batch = acc.shape[1] // lanes
    for g in range(dst.shape[0]):
        for p in range(dst.shape[1]):
            into, narrow = acc[dst[g, p]], out[dst[g, p]]
            for b in range(batch):
                for lane in range(lanes):
                    value = np.int32(product[g, p * batch + b, lane])
                    if not overwrite:  # numba adds int32 in 64 bits: wrap before OUT saturates
                        value = np.int32(value + into[b * lanes + lane])
                    into[b * lanes + lane] = value
                    narrow[b * lanes + lane] = min(max(value, -128), 127)
