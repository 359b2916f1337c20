"""Arithmetic of integers where C leaves open what it is, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vdla.compiler.targets.gpu import CUDA, Kernel, build_kernel, source_of
from vdla.compiler.te import Expr, compute, create_schedule, placeholder
from vdla.errors import LoweringError
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray


def _element(dtype: str, body: Callable[[Expr, Expr], Expr]) -> Kernel:
    a, b = placeholder((6,), dtype, "a"), placeholder((6,), dtype, "b")
    out = compute((6,), lambda i: body(a[i], b[i]), "out")
    s = create_schedule(out)
    s[out].bind(s[out].axis[0], "threadIdx.x")
    return build_kernel("element", s, [a, b, out])


def _ends(dtype: str) -> tuple[Array, Array]:
    limits = np.iinfo(dtype)
    a = np.array([limits.min, limits.max, limits.max, 7, 0, 5], dtype)
    return a, np.array([limits.min, limits.max, 2, 3, 1, 5], dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("op", ["__add__", "__sub__", "__mul__"])
def test_sums_wrap_around(op: str, dtype: str, pocl: OpenClDevice) -> None:
    a, b = _ends(dtype)
    (found,) = pocl.build(_element(dtype, lambda x, y: getattr(x, op)(y)))(a, b)
    assert found.dtype == dtype
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, getattr(a, op)(b))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_quotients_and_shifts_round_down(dtype: str, pocl: OpenClDevice) -> None:
    a = np.array([-7, 7, -7, 7, -8, 0], dtype)
    b = np.array([2, -2, -3, 3, 4, 5], dtype)
    for body, numpy in (
        (lambda x, y: x // y, a // b),
        (lambda x, y: x % y, a % b),
        (lambda x, y: (x >> 1) - y, (a >> 1) - b),
        (lambda x, y: (x << 3) - y, (a << 3) - b),
    ):
        (found,) = pocl.build(_element(dtype, body))(a, b)
        np.testing.assert_array_equal(found, numpy)


def test_a_shift_by_a_negative_number_is_the_other_way(pocl: OpenClDevice) -> None:
    a = np.array([-7, 7, 1 << 20, 7, -8, 0], np.int32)
    b = np.array([-2, 2, -11, 0, -1, 5], np.int32)
    (found,) = pocl.build(_element("int32", lambda x, y: x >> y))(a, b)
    np.testing.assert_array_equal(found, [-28, 1, -(1 << 31), 7, -16, 0])


def test_only_what_may_wrap_around_calls_a_function() -> None:
    wide = _element("int8", lambda x, y: x.astype("int32") * y.astype("int32") + 1)
    assert "(int)a[thread_x] * (int)b[thread_x] + 1;" in source_of(wide, CUDA)
    may = source_of(_element("int32", lambda x, y: x * y + 1), CUDA)
    assert "plus(times(a[thread_x], b[thread_x]), 1);" in may


def test_what_is_used_again_is_computed_once() -> None:
    def body(x: Expr, y: Expr) -> Expr:
        high = (x.astype("int64") * y.astype("int64")) >> 31
        return (high * 3 + high % 5).wrap("int32")

    source = source_of(_element("int32", body), CUDA)
    assert (
        "const long long value = ((long long)a[thread_x] * (long long)b[thread_x]) >> 31;" in source
    )
    assert source.count(">> 31") == 1


def test_floats_have_no_quotients_of_integers() -> None:
    with pytest.raises(LoweringError, match=r"// must be of integers, not of float32: "):
        source_of(_element("float32", lambda x, y: x // y))
