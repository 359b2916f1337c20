"""Results: instructions in the order of their start cycles, GEMM through BLAS."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import ProgramError
from vdla.isa import Opcode, uop_layout

from .kernels import Buffers, accumulate, advance, gather
from .products import Loop, Product, make_products
from .state import UNWRITTEN
from .table import Table, parameters
from .uops import gather_uops

__all__ = ["execute_all"]

_FLOAT32_TERMS = 1 << 10
"""Products of two int8 that float32 adds exactly: 2^10 of at most 2^14 reach 2^24."""
_GATHERED = 1 << 17
"""Most INP entries gathered for a product at a time: 8 MiB at the default configuration."""
_ONE_THREAD = 1 << 18
"""Multiply-adds up to which OpenBLAS keeps to one thread: its workers spin, and a product of
this size takes less time than waking them."""
_REGROUPED = 1 << 21
"""Most micro-ops regrouped at a time; an instruction with more runs an iteration at a time."""
_CACHED = 1 << 23
"""Indices that remembered products may hold in all: 64 MiB."""
_Piece = tuple[tuple[Loop, ...], tuple[NDArray[np.int64], ...]]
_GEMM_FIELDS = (
    *("uop_begin", "uop_end", "count", "overwrite"),
    *("iter_out", "dst_out", "src_out", "wgt_out"),
    *("iter_in", "dst_in", "src_in", "wgt_in"),
)
_UNWRITTEN_BYTE = UNWRITTEN & 0xFF


class _Gemm:
    """Multiplies; remembers how it regrouped each kernel."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._fields = uop_layout(config)
        self._terms = max(1, _FLOAT32_TERMS // config.block_in)
        self._products: dict[tuple[object, ...], list[Product]] = {}
        self._cached = 0
        self._dtype = _exact(config)
        self._scratch = np.empty(0, self._dtype)

    def execute(self, index: int, fields: tuple[int, ...], b: Buffers) -> None:
        begin, end, count, overwrite = fields[:4]
        words = b.uop[begin:end]
        key = (words.tobytes(), fields[3:])
        products = self._products.get(key)
        if products is None:
            loops = Loop(*fields[4:8]), Loop(*fields[8:])
            if count > _REGROUPED:
                for inner, kernel in self._pieces(words, *loops):
                    self._run(self._checked(index, kernel, inner, overwrite), b, overwrite)
                return
            products = self._checked(index, self._decode(words), loops, overwrite)
            self._remember(key, products)
        self._run(products, b, overwrite)

    def _decode(self, words: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        return tuple(words >> f.lsb & ((1 << f.width) - 1) for f in self._fields)

    def _pieces(self, words: NDArray[np.int64], outer: Loop, inner: Loop) -> list[_Piece]:
        """Split a long instruction into iterations of its outer loop, or of both."""
        kernel = self._decode(words)
        whole = inner.count * len(words) <= _REGROUPED
        pieces: list[_Piece] = []
        for o in range(outer.count):
            for n in range(1 if whole else inner.count):
                steps = (
                    o * getattr(outer, name) + n * getattr(inner, name)
                    for name in ("dst", "src", "wgt")
                )
                moved = tuple(c + step for c, step in zip(kernel, steps, strict=True))
                pieces.append(((inner,) if whole else (), moved))
        return pieces

    def _checked(
        self,
        index: int,
        kernel: tuple[NDArray[np.int64], ...],
        loops: tuple[Loop, ...],
        overwrite: int,
    ) -> list[Product]:
        config = self._config
        names = (("ACC", config.acc_depth), ("INP", config.inp_depth), ("WGT", config.wgt_depth))
        for (name, depth), column, attribute in zip(
            names, kernel, ("dst", "src", "wgt"), strict=True
        ):
            highest = int(column.max())
            highest += sum((loop.count - 1) * getattr(loop, attribute) for loop in loops)
            if highest >= depth:
                raise _beyond(index, name, depth, highest)
        products = make_products(kernel[0], kernel[1], kernel[2], loops, bool(overwrite))
        return [piece for p in products for piece in p.pieces(self._terms, _GATHERED)]

    def _remember(self, key: tuple[object, ...], products: list[Product]) -> None:
        self._cached += sum(p.src.size + p.dst.size + p.wgt.size for p in products)
        if self._cached > _CACHED:
            self._products.clear()
            self._cached = 0
        self._products[key] = products

    def _run(self, products: list[Product], b: Buffers, overwrite: int) -> None:
        config = self._config
        for product in products:
            groups, rows, terms = product.src.shape
            shape = (groups, rows * config.batch, terms * config.block_in)
            size = shape[0] * shape[1] * shape[2]
            if len(self._scratch) < size:
                self._scratch = np.empty(size, self._dtype)
            inputs = self._scratch[:size].reshape(shape)
            gather(b.inp, product.src, inputs)
            weights = b.wgt[product.entries].reshape(-1, shape[2], config.block_out)
            accumulate(b.acc, b.out, product.dst, _multiply(inputs, weights), overwrite)


def _multiply(inputs: NDArray[np.floating], weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ``inputs @ weights`` for stacks, shapes (g or 1, m, k) and (g, k, n)."""
    stack, m, k = inputs.shape
    groups, _, n = weights.shape
    block = max(1, _ONE_THREAD // (k * n))
    product: NDArray[np.floating] = np.empty((groups, m, n), inputs.dtype)
    if m <= block:
        np.matmul(inputs, weights, out=product)
        return product
    whole = m // block * block
    np.matmul(
        inputs[:, :whole].reshape(stack, -1, block, k),
        weights[:, np.newaxis],
        out=product[:, :whole].reshape(groups, -1, block, n),
    )
    if whole < m:
        np.matmul(inputs[:, whole:], weights, out=product[:, whole:])
    return product


def execute_all(
    table: Table,
    config: Config,
    start: NDArray[np.int64],
    dram: NDArray[np.uint8],
    fill: NDArray[np.int64],
) -> None:
    """Compute a program's results in `dram`, shape (images, bytes).

    Raises
    ------
    ProgramError
        An index lies past its buffer, a transfer outside memory, or images disagree about
        micro-ops.
    """
    _check_memory(table, dram.shape[1])
    order = np.argsort(start, kind="stable")
    gemm, p = _Gemm(config), np.atleast_1d(parameters(config))
    for image, memory in enumerate(dram):
        if image and not np.array_equal(gather_uops(table.columns, memory), fill):
            raise ProgramError("Micro-ops must be the same for all images; these differ.")
        contiguous = np.ascontiguousarray(memory)
        _execute(table.columns, order, _fresh(config), p, contiguous, fill, gemm)
        if contiguous is not memory:
            memory[...] = contiguous


def _execute(
    columns: NDArray[np.void],
    order: NDArray[np.int64],
    b: Buffers,
    p: NDArray[np.void],
    memory: NDArray[np.uint8],
    fill: NDArray[np.int64],
    gemm: _Gemm,
) -> None:
    signed = memory.view(np.int8)
    multiplied = np.flatnonzero((columns["opcode"] == Opcode.GEMM) & (columns["reset"] == 0))
    fields = zip(*(columns[name][multiplied].tolist() for name in _GEMM_FIELDS), strict=True)
    gemms = dict(zip(multiplied.tolist(), fields, strict=True))
    k = 0
    while True:
        k, beyond = advance(columns, order, k, *b, p, signed, fill)
        if k == len(order):
            return
        index = int(order[k])
        if beyond >= 0:
            raise _beyond(index, "ACC", len(b.acc), beyond)
        gemm.execute(index, gemms[index], b)
        k += 1


def _exact(config: Config) -> type[np.floating]:
    """Return the dtype that adds the products of one micro-op exactly."""
    return np.float32 if config.block_in <= _FLOAT32_TERMS else np.float64


def _fresh(config: Config) -> Buffers:
    lanes = config.batch * config.block_out
    byte = np.array(_UNWRITTEN_BYTE, np.uint8).view(np.int8)
    dtype = _exact(config)
    inp = np.full((config.inp_depth, config.batch, config.block_in), byte, dtype)
    return Buffers(
        uop=np.full(config.uop_depth, UNWRITTEN),
        inp=inp,
        flat_inp=inp.reshape(-1),
        wgt=np.full((config.wgt_depth, config.block_in, config.block_out), byte, dtype),
        acc=np.full((config.acc_depth, lanes), UNWRITTEN, np.uint32).view(np.int32),
        out=np.full((config.acc_depth, lanes), byte, np.int8),
        held=np.empty((3, lanes), np.int32),
    )


def _check_memory(table: Table, size: int) -> None:
    columns = table.columns
    first = columns["address"]
    end = first + (columns["rows"] - 1) * columns["stride_bytes"] + columns["row_bytes"]
    outside = (columns["rows"] > 0) & ((first < 0) | (end > size))
    for index in np.flatnonzero(outside)[:1].tolist():
        raise ProgramError(
            f"Instruction {index}: a transfer must lie within the {size} bytes of memory, not at "
            f"{int(first[index])}..{int(end[index])}."
        )


def _beyond(index: int, name: str, depth: int, highest: int) -> ProgramError:
    return ProgramError(
        f"Instruction {index}: {name} indices must lie below {depth}, not reach {highest}."
    )
