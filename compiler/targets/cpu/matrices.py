"""Products of matrices in the tile registers of AMX: intrinsics for `tensorize`, and their code.

A register holds 16 rows of 64 bytes. All that can be done with it is to load it, a row at a time
from memory, to fill it with zeros, to multiply two and add the product to a third, and to store
it. So tiles have a memory scope of their own. LLVM gives them their registers and their shapes:
that is what ``ldtilecfg`` at a function's begin and ``tilerelease`` at its end are for.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.ir.stmt import For, Intrinsic, Stmt, Store
from vdla.compiler.te import TensorIntrin, compute, placeholder, reduce_axis, sum_over
from vdla.compiler.te.expr import Const, Var

from .functions import declared
from .types import I32, I64, POINTER, itemsize

__all__ = [
    "MATRIX",
    "QUAD",
    "REGISTERS",
    "ROW_BYTES",
    "SIDE",
    "TILE",
    "cleared",
    "emit_clear",
    "emit_matrix",
    "is_matrix",
    "load_left",
    "load_right",
    "multiply",
    "store_sums",
]

SIDE = 16
"""Rows of a tile, and columns of sums."""
QUAD = 4
"""Products of 8 bits that an element of 32 bits adds up."""
ROW_BYTES = 64
REGISTERS = 8
MATRIX = "matrix"
"""Scope of what tile registers hold."""
TILE = ll.VectorType(I32, SIDE * ROW_BYTES // 4)
"""What a register is in LLVM's memory, from where its passes take it into a register."""

_PRODUCTS = {"int8": "llvm.x86.tdpbssd.internal", "uint8": "llvm.x86.tdpbusd.internal"}
_I16 = ll.IntType(16)


class _Register(ll.Type):  # type: ignore[misc]
    """LLVM's type of a tile register, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "x86_amx"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Register)

    def __hash__(self) -> int:
        return hash(_Register)


_REGISTER = _Register()


def _copy(name: str, shape: tuple[int, ...], dtype: str, scopes: tuple[str, str]) -> TensorIntrin:
    given = placeholder(shape, dtype, "given")
    copied = compute(shape, lambda *index: given[index], "copied")
    return TensorIntrin(name, copied, (given,), scopes, strided=True)


@lru_cache
def load_left(dtype: str, quads: int) -> TensorIntrin:
    """Return ``left[m, q, k] = memory[m, q, k]``, 16 rows of quads of 8-bit integers."""
    return _copy("matrix_load", (SIDE, quads, QUAD), dtype, (MATRIX, "global"))


@lru_cache
def load_right(quads: int) -> TensorIntrin:
    """Return ``right[q, l, k] = memory[q, l, k]``, a row a quad: 16 columns of int8."""
    return _copy("matrix_load", (quads, SIDE, QUAD), "int8", (MATRIX, "global"))


@lru_cache
def store_sums() -> TensorIntrin:
    """Return ``memory[m, l] = sums[m, l]``, 16 x 16 of int32."""
    return _copy("matrix_store", (SIDE, SIDE), "int32", ("global", MATRIX))


@lru_cache
def multiply(dtype: str, quads: int) -> TensorIntrin:
    """Return ``sums[m, l] += left[m, q, k] * right[q, l, k]``, 16 x 16 x 4 quads into int32.

    Parameters
    ----------
    dtype : str
        Of the left factor, int8 or uint8; the right one is of int8.
    quads : int
        At most 16.
    """
    left = placeholder((SIDE, quads, QUAD), dtype, "left")
    right = placeholder((quads, SIDE, QUAD), "int8", "right")
    q, k = reduce_axis(quads, "q"), reduce_axis(QUAD, "k")
    sums = compute(
        (SIDE, SIDE),
        lambda m, lane: sum_over(
            left[m, q, k].astype("int32") * right[q, lane, k].astype("int32"), (q, k)
        ),
        "sums",
    )
    scopes = (MATRIX, MATRIX, MATRIX)
    return TensorIntrin("matrix_multiply", sums, (left, right), scopes, clears=False, strided=True)


def is_matrix(stmt: Intrinsic) -> bool:
    """Tell whether an intrinsic is one of tile registers."""
    return stmt.intrin.name.startswith("matrix_")


def cleared(stmt: For) -> tuple[Var, Store] | None:
    """Return the inner loop and the store of loops that fill one tile; None where they do not."""
    inner: Stmt = stmt.body
    if not (isinstance(inner, For) and isinstance(inner.body, Store)):
        return None
    store, extents = inner.body, (stmt.extent, inner.extent)
    whole = store.target.buffer.scope == MATRIX and extents == (Const(SIDE), Const(SIDE))
    return (inner.var, store) if whole else None


def emit_clear(builder: ll.IRBuilder, output: Any) -> None:
    """Fill a tile with zeros."""
    zeros = declared(builder.module, "llvm.x86.tilezero.internal", _REGISTER, [_I16, _I16])
    _put(builder, builder.call(zeros, [_short(SIDE), _short(ROW_BYTES)]), output)


def emit_matrix(
    builder: ll.IRBuilder, stmt: Intrinsic, output: Any, operands: tuple[Any, ...]
) -> None:
    """Emit an intrinsic of tile registers.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    stmt : Intrinsic
    output : llvmlite.ir.Value
        Pointer to its result: for a tile, to the `TILE` that stands for its register.
    operands : tuple of llvmlite.ir.Value
        Pointers to its operands.
    """
    if stmt.intrin.name == "matrix_multiply":
        left, _ = stmt.intrin.operands
        depth_bytes = prod(left.shape[1:])
        kinds = [_I16, _I16, _I16, _REGISTER, _REGISTER, _REGISTER]
        function = declared(builder.module, _PRODUCTS[left.dtype], _REGISTER, kinds)
        shape = [_short(SIDE), _short(ROW_BYTES), _short(depth_bytes)]
        tiles = [_taken(builder, one) for one in (output, *operands)]
        _put(builder, builder.call(function, [*shape, *tiles]), output)
        return
    loads = stmt.intrin.name == "matrix_load"
    access, extents, strides = stmt.tiles[1 if loads else 0]
    size = itemsize(access.buffer.dtype)
    shape = [_short(extents[0]), _short(prod(extents[1:]) * size)]
    step = ll.Constant(I64, strides[0] * size)
    if loads:
        kinds = [_I16, _I16, POINTER, I64]
        load = declared(builder.module, "llvm.x86.tileloadd64.internal", _REGISTER, kinds)
        _put(builder, builder.call(load, [*shape, operands[0], step]), output)
    else:
        kinds = [_I16, _I16, POINTER, I64, _REGISTER]
        store = declared(builder.module, "llvm.x86.tilestored64.internal", ll.VoidType(), kinds)
        builder.call(store, [*shape, output, step, _taken(builder, operands[0])])


def _short(value: int) -> ll.Constant:
    return ll.Constant(_I16, value)


def _put(builder: ll.IRBuilder, register: Any, output: Any) -> None:
    name = "llvm.x86.cast.tile.to.vector.v256i32"
    builder.store(
        builder.call(declared(builder.module, name, TILE, [_REGISTER]), [register]), output
    )


def _taken(builder: ll.IRBuilder, pointer: Any) -> Any:
    name = "llvm.x86.cast.vector.to.tile.v256i32"
    held = builder.load(pointer, typ=TILE)
    return builder.call(declared(builder.module, name, _REGISTER, [TILE]), [held])
