"""Products of matrices by the warps of NVIDIA's GPUs: intrinsics for `tensorize`, and their PTX.

A warp of 32 threads holds tiles of 16 x 16 elements in its registers, each thread some elements of
each; which ones, only the hardware knows. So these have memory scopes of their own, and all that
can be done with them is to load a tile from shared memory, to multiply two, and to store one to
shared memory. The instructions are ``wmma``, of NVIDIA's PTX ISA: of half floats since version 6.0,
which compute capability 7.0 and later have, and of 8-bit integers since 6.3 and 7.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from vdla.compiler.lower.regions import SHARED
from vdla.compiler.te import TensorIntrin, compute, placeholder, reduce_axis, sum_over

__all__ = [
    "ALIGNED_BYTES",
    "CENTRE",
    "FUNCTIONS",
    "LANES",
    "LEFT",
    "MATRIX_SCOPES",
    "RIGHT",
    "SIDE",
    "SUMS",
    "SUM_TYPES",
    "aligned_bytes",
    "load_left",
    "load_right",
    "multiply",
    "registers_of",
    "store_sums",
]

SIDE = 16
"""Rows and columns of a tile."""
LANES = 32
"""Threads of a warp, which follow each other along threadIdx.x."""
ALIGNED_BYTES = 32
"""Tiles in shared memory begin at multiples of this, but for those of 8-bit integers."""
LEFT, RIGHT, SUMS = "matrix.left", "matrix.right", "matrix.sums"
MATRIX_SCOPES = (LEFT, RIGHT, SUMS)
"""Scopes of what warps hold: left and right factors, and sums."""
SUM_TYPES: Mapping[str, str] = {"float16": "float32", "int8": "int32", "uint8": "int32"}
"""What products are added up in, by the dtype of both factors."""
CENTRE = 128
"""What uint8 are less where they become int8: the top bit changes, and nothing else."""
_TILE = (SIDE, SIDE)
_SUM_REGISTERS = SIDE * SIDE // LANES
_REGISTERS = {"float16": 8, "int8": 2, "uint8": 2}
_POINTED = {
    "float16": "unsigned short",
    "float32": "float",
    "int8": "signed char",
    "int32": "int",
    "uint8": "unsigned char",
}
_KINDS = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32", "uint8": "u8"}


def aligned_bytes(dtype: str) -> int:
    """Return what rows of a tile in shared memory begin at multiples of.

    The PTX ISA asks for the bytes that a thread takes of the tile, 32 of half floats and of sums,
    8 of 8-bit integers. 16 of those are a row, which the instruction ``ldmatrix`` reads as one.
    """
    return SIDE if dtype in ("int8", "uint8") else ALIGNED_BYTES


def registers_of(scope: str, dtype: str) -> int:
    """Return how many registers of 32 bits a thread has of a tile."""
    return _SUM_REGISTERS if scope == SUMS else _REGISTERS[dtype]


def _copy(name: str, dtype: str, target: str, source: str, *, turned: bool = False) -> TensorIntrin:
    given = placeholder(_TILE, dtype, "given")
    copied = compute(_TILE, lambda i, j: given[j, i] if turned else given[i, j], "copied")
    return TensorIntrin(name, copied, (given,), (target, source), strided=True)


@lru_cache
def load_left(dtype: str = "float16", *, centred: bool = False) -> TensorIntrin:
    """Return ``left[i, j] = shared[i, j]``, 16 x 16 in a dtype of `SUM_TYPES`.

    Parameters
    ----------
    dtype : str
        Of what a warp holds.
    centred : bool
        Whether int8 are made of uint8: ``left[i, j] = shared[i, j] - 128``.
    """
    if not centred:
        return _copy(f"matrix_load_left_{dtype}", dtype, LEFT, SHARED)
    given = placeholder(_TILE, "uint8", "given")
    less = compute(_TILE, lambda i, j: (given[i, j].astype("int32") - CENTRE).astype(dtype), "less")
    return TensorIntrin("matrix_load_left_centred", less, (given,), (LEFT, SHARED), strided=True)


@lru_cache
def load_right(dtype: str = "float16") -> TensorIntrin:
    """Return ``right[i, j] = shared[i, j]``, 16 x 16; of 8-bit integers ``shared[j, i]``.

    These are multiplied four terms of a column at a time, which lie side by side so.
    """
    return _copy(f"matrix_load_right_{dtype}", dtype, RIGHT, SHARED, turned=dtype != "float16")


@lru_cache
def store_sums(dtype: str = "float32") -> TensorIntrin:
    """Return ``shared[i, j] = sums[i, j]``, 16 x 16 in float32 or int32."""
    return _copy(f"matrix_store_{dtype}", dtype, SHARED, SUMS)


@lru_cache
def multiply(dtype: str = "float16") -> TensorIntrin:
    """Return ``sums[i, j] += left[i, k] * right[k, j]``, 16 x 16 x 16.

    Products of float16 are exact in float32, in which they are added up; those of 8-bit integers
    are added up in int32, which wraps around.
    """
    left, right = (placeholder(_TILE, dtype, name) for name in ("left", "right"))
    k, kind = reduce_axis(SIDE, "k"), SUM_TYPES[dtype]
    sums = compute(
        _TILE, lambda i, j: sum_over(left[i, k].astype(kind) * right[k, j].astype(kind), k), "sums"
    )
    name, scopes = f"matrix_multiply_{dtype}", (SUMS, LEFT, RIGHT)
    return TensorIntrin(name, sums, (left, right), scopes, clears=False, strided=True)


def _numbers(first: int, count: int) -> str:
    """Return the operands of a tile in an instruction."""
    return "{{" + ", ".join(f"%{first + k}" for k in range(count)) + "}}"


def _registers(constraint: str, name: str, count: int) -> str:
    """Return the operands of a tile in the lists of an asm statement."""
    lines = (range(k, min(k + 4, count)) for k in range(0, count, 4))
    texts = (", ".join(f'"{constraint}"({name}[{k}])' for k in line) for line in lines)
    return ",\n          ".join(texts)


def _layout(side: str, dtype: str) -> str:
    """Return along what the elements of a tile in shared memory lie side by side."""
    return "col" if side == "b" and dtype != "float16" else "row"


def _fill(dtype: str) -> str:
    kind = _POINTED[dtype]
    return f"""\
{{helper}}void matrix_fill_{dtype}({kind} (&tile)[{_SUM_REGISTERS}], {kind} value)
{{{{
    #pragma unroll
    for (int k = 0; k < {_SUM_REGISTERS}; ++k) tile[k] = value;
}}}}"""


def _load(name: str, side: str, dtype: str, pointed: str, after: str = "") -> str:
    count = _REGISTERS[dtype]
    return f"""\
{{helper}}void {name}(
    unsigned (&tile)[{count}], const {pointed} *from, int step)
{{{{
    asm volatile(
        "wmma.load.{side}.sync.aligned.{_layout(side, dtype)}.m16n16k16.shared.{_KINDS[dtype]} "
        "{_numbers(0, count)}, [%{count}], %{count + 1};"
        : {_registers("=r", "tile", count)}
        : "l"(__cvta_generic_to_shared(from)), "r"(step)
        : "memory");{after}
}}}}"""


_CENTRED = """
    #pragma unroll
    for (int k = 0; k < 2; ++k) tile[k] ^= 0x80808080u;"""


def _multiply(dtype: str) -> str:
    summed, factor, count = SUM_TYPES[dtype], _KINDS[dtype], _REGISTERS[dtype]
    kinds = f"f32.{_KINDS[summed]}" if dtype == "float16" else f"s32.{factor}.{factor}.s32"
    layouts = f"{_layout('a', dtype)}.{_layout('b', dtype)}"
    sums = _numbers(0, _SUM_REGISTERS)
    return f"""\
{{helper}}void matrix_multiply_{dtype}(
    {_POINTED[summed]} (&sums)[{_SUM_REGISTERS}],
    const unsigned (&left)[{count}], const unsigned (&right)[{count}])
{{{{
    asm volatile(
        "wmma.mma.sync.aligned.{layouts}.m16n16k16.{kinds} "
        "{sums}, "
        "{_numbers(_SUM_REGISTERS, count)}, "
        "{_numbers(_SUM_REGISTERS + count, count)}, "
        "{sums};"
        : {_registers(_constraint("+", summed), "sums", _SUM_REGISTERS)}
        : {_registers("r", "left", count)},
          {_registers("r", "right", count)});
}}}}"""


def _store(dtype: str) -> str:
    kind = _POINTED[dtype]
    return f"""\
{{helper}}void matrix_store_{dtype}({kind} *to, const {kind} (&tile)[{_SUM_REGISTERS}], int step)
{{{{
    asm volatile(
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.{_KINDS[dtype]} "
        "[%0], {_numbers(1, _SUM_REGISTERS)}, %9;"
        :
        : "l"(__cvta_generic_to_shared(to)),
          {_registers(_constraint("", dtype), "tile", _SUM_REGISTERS)}, "r"(step)
        : "memory");
}}}}"""


def _constraint(change: str, dtype: str) -> str:
    return change + ("f" if dtype == "float32" else "r")


FUNCTIONS: Mapping[str, str] = {
    **{f"matrix_fill_{dtype}": _fill(dtype) for dtype in ("float32", "int32")},
    **{
        load(dtype).name: _load(load(dtype).name, side, dtype, _POINTED[dtype])
        for load, side in ((load_left, "a"), (load_right, "b"))
        for dtype in SUM_TYPES
    },
    "matrix_load_left_centred": _load(
        "matrix_load_left_centred", "a", "int8", _POINTED["uint8"], _CENTRED
    ),
    **{multiply(dtype).name: _multiply(dtype) for dtype in SUM_TYPES},
    **{store_sums(dtype).name: _store(dtype) for dtype in ("float32", "int32")},
}
"""The intrinsics in CUDA C, by name. The layout of a tile in registers is the hardware's own, but
what is done to all elements alike may be done to those of a thread."""
