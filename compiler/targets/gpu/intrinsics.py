"""Instructions of GPUs that schedules ask for by `Stage.tensorize`, and how languages call them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from vdla.compiler.te import TensorIntrin, compute, placeholder, reduce_axis, sum_over
from vdla.errors import LoweringError

from .dialect import CUDA, METAL, OPENCL, Dialect
from .matrices import FUNCTIONS

__all__ = ["INTRINSICS", "WORD", "dot_product", "intrinsic_text", "signs_of"]

WORD = 4
"""Integers of 8 bits that an instruction multiplies at once: as many as 32 bits hold."""
_BYTES = ("int8", "uint8")
INTRINSICS = (*(f"dot_{a}_{b}" for a in _BYTES for b in _BYTES), *FUNCTIONS)
"""Names, which no array or loop may have."""


@lru_cache(maxsize=4)
def dot_product(a: str, b: str) -> TensorIntrin:
    """Return ``sum += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]``, 8 bits into 32.

    NVIDIA calls it dp4a, and has it since compute capability 6.1; OpenCL's is in the extension
    cl_khr_integer_dot_product.

    Parameters
    ----------
    a, b : str
        Dtypes of the factors, int8 or uint8; both lie in shared memory, in whole words.
    """
    if not {a, b} <= {*_BYTES}:
        raise LoweringError(f"Factors of a dot product must be int8 or uint8, not {a} and {b}.")
    left, right, k = placeholder((WORD,), a, "a"), placeholder((WORD,), b, "b"), reduce_axis(WORD)
    total = compute(
        (), lambda: sum_over(left[k].astype("int32") * right[k].astype("int32"), k), "sum"
    )
    scopes = ("register", "shared", "shared")
    return TensorIntrin(f"dot_{a}_{b}", total, (left, right), scopes, clears=False)


_SUM = "c + (unsigned int)(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3])"
_TEXTS: Mapping[str, str] = {
    OPENCL.name: """\
static inline int {name}(__local const {a} *a, __local const {b} *b, unsigned int c)
{{
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
    const uint left = *(__local const uint *)a, right = *(__local const uint *)b;
    return (int)(c + dot_4x8packed_{signs}_{wide}(left, right));
#else
    return (int)({sum});
#endif
}}""",
    CUDA.name: """\
__device__ static inline int {name}(const {a} *a, const {b} *b, unsigned int c)
{{
#if __CUDA_ARCH__ >= 610
    const int left = *(const int *)a, right = *(const int *)b;
    int sum;
    asm("dp4a.{kinds} %0, %1, %2, %3;" : "=r"(sum) : "r"(left), "r"(right), "r"(c));
    return sum;
#else
    return (int)({sum});
#endif
}}""",
    METAL.name: """\
template <typename A, typename B>
static inline int {name}(A a, B b, unsigned int c)
{{
    return (int)({sum});
}}""",
}


def signs_of(name: str) -> str:
    """Return which factors of an intrinsic have a sign: ``us`` where the second alone has."""
    return "".join("su"[dtype[0] == "u"] for dtype in name.split("_")[1:])


def intrinsic_text(name: str, dialect: Dialect) -> str:
    """Return the function that an intrinsic is in a language: the instruction, or what it does.

    Raises
    ------
    LoweringError
        The language has no such intrinsic.
    """
    if name in FUNCTIONS:
        if dialect != CUDA:
            raise LoweringError(
                f"Products of matrices by a warp are for {CUDA.name}, and {dialect.name} has no "
                f"{name}: use the template without."
            )
        return FUNCTIONS[name].format(helper=dialect.helper)
    a, b = (dialect.type_of(dtype) for dtype in name.split("_")[1:])
    signs = signs_of(name)
    kinds = ".".join(f"{sign}32" for sign in signs)
    wide = "uint" if signs == "uu" else "int"
    return _TEXTS[dialect.name].format(
        name=name, a=a, b=b, signs=signs, kinds=kinds, wide=wide, sum=_SUM
    )
