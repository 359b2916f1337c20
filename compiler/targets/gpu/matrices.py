"""Products of matrices by the warps of NVIDIA's GPUs: intrinsics for `tensorize`, and their PTX.

A warp of 32 threads holds tiles of 16 x 16 elements in its registers, each thread some elements of
each; which ones, only the hardware knows. So these have memory scopes of their own, and all that
can be done with them is to load a tile from shared memory, to multiply two, and to store one to
shared memory. The instructions are ``wmma``, of NVIDIA's PTX ISA since version 6.0, which compute
capability 7.0 and later have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from vdla.compiler.lower.regions import SHARED
from vdla.compiler.te import TensorIntrin, compute, placeholder, reduce_axis, sum_over

__all__ = [
    "ALIGNED_BYTES",
    "FUNCTIONS",
    "LANES",
    "LEFT",
    "MATRIX_SCOPES",
    "RIGHT",
    "SIDE",
    "SUMS",
    "load_left",
    "load_right",
    "multiply",
    "store_sums",
]

SIDE = 16
"""Rows and columns of a tile."""
LANES = 32
"""Threads of a warp, which follow each other along threadIdx.x."""
ALIGNED_BYTES = 32
"""Rows of a tile in shared memory begin at multiples of this."""
LEFT, RIGHT, SUMS = "matrix.left", "matrix.right", "matrix.sums"
MATRIX_SCOPES = (LEFT, RIGHT, SUMS)
"""Scopes of what warps hold: left and right factors in float16, and sums in float32."""
_TILE = (SIDE, SIDE)


def _copy(name: str, dtype: str, target: str, source: str) -> TensorIntrin:
    given = placeholder(_TILE, dtype, "given")
    copied = compute(_TILE, lambda i, j: given[i, j], "copied")
    return TensorIntrin(name, copied, (given,), (target, source), strided=True)


@lru_cache
def load_left() -> TensorIntrin:
    """Return ``left[i, j] = shared[i, j]``, 16 x 16 in float16."""
    return _copy("matrix_load_left", "float16", LEFT, SHARED)


@lru_cache
def load_right() -> TensorIntrin:
    """Return ``right[i, j] = shared[i, j]``, 16 x 16 in float16."""
    return _copy("matrix_load_right", "float16", RIGHT, SHARED)


@lru_cache
def store_sums() -> TensorIntrin:
    """Return ``shared[i, j] = sums[i, j]``, 16 x 16 in float32."""
    return _copy("matrix_store", "float32", SHARED, SUMS)


@lru_cache
def multiply() -> TensorIntrin:
    """Return ``sums[i, j] += left[i, k] * right[k, j]``, 16 x 16 x 16.

    Products of float16 are exact in float32, in which they are added up.
    """
    left, right = (placeholder(_TILE, "float16", name) for name in ("left", "right"))
    k = reduce_axis(SIDE, "k")
    sums = compute(
        _TILE,
        lambda i, j: sum_over(left[i, k].astype("float32") * right[k, j].astype("float32"), k),
        "sums",
    )
    scopes = (SUMS, LEFT, RIGHT)
    return TensorIntrin("matrix_multiply", sums, (left, right), scopes, clears=False, strided=True)


def _numbers(first: int) -> str:
    """Return the operands of a tile in an instruction."""
    return "{{" + ", ".join(f"%{first + k}" for k in range(8)) + "}}"


def _registers(constraint: str, name: str) -> str:
    """Return the operands of a tile in the lists of an asm statement."""
    halves = (range(4), range(4, 8))
    lines = (", ".join(f'"{constraint}"({name}[{k}])' for k in half) for half in halves)
    return ",\n          ".join(lines)


def _load(side: str, letter: str) -> str:
    return f"""\
{{helper}}void matrix_load_{side}(
    unsigned (&tile)[8], const unsigned short *from, int step)
{{{{
    asm volatile(
        "wmma.load.{letter}.sync.aligned.row.m16n16k16.shared.f16 "
        "{_numbers(0)}, [%8], %9;"
        : {_registers("=r", "tile")}
        : "l"(__cvta_generic_to_shared(from)), "r"(step)
        : "memory");
}}}}"""


FUNCTIONS: Mapping[str, str] = {
    "matrix_fill": """\
{helper}void matrix_fill(float (&tile)[8], float value)
{{
    #pragma unroll
    for (int k = 0; k < 8; ++k) tile[k] = value;
}}""",
    "matrix_load_left": _load("left", "a"),
    "matrix_load_right": _load("right", "b"),
    "matrix_multiply": f"""\
{{helper}}void matrix_multiply(
    float (&sums)[8], const unsigned (&left)[8], const unsigned (&right)[8])
{{{{
    asm volatile(
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 "
        "{_numbers(0)}, "
        "{_numbers(8)}, "
        "{_numbers(16)}, "
        "{_numbers(0)};"
        : {_registers("+f", "sums")}
        : {_registers("r", "left")},
          {_registers("r", "right")});
}}}}""",
    "matrix_store": f"""\
{{helper}}void matrix_store(float *to, const float (&tile)[8], int step)
{{{{
    asm volatile(
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 "
        "[%0], {_numbers(1)}, %9;"
        :
        : "l"(__cvta_generic_to_shared(to)),
          {_registers("f", "tile")}, "r"(step)
        : "memory");
}}}}""",
}
"""The intrinsics in CUDA C, by name. The layout of a tile in registers is the hardware's own."""
