"""Templates of 8-bit integers, by dot products of four of them, to the interpreter's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu.byte_cases import CASES, ByteCase
from tests.compiler.targets.gpu.on_processor import run_as
from vdla.compiler import te
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.gpu.template import OperatorKernel
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.stmt import Intrinsic
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.targets.gpu import CUDA, METAL, Dialect, build_kernel, source_of
from vdla.compiler.targets.gpu.intrinsics import dot_product
from vdla.compiler.targets.gpu.kernel import walk
from vdla.errors import LoweringError
from vdla.runtime.opencl import OpenClDevice


def _made(case: ByteCase) -> OperatorKernel:
    return operator_kernel(case.graph, case.graph.nodes[0])


def _check(found: np.ndarray, case: ByteCase) -> None:
    assert found.dtype == case.exact.dtype
    np.testing.assert_array_equal(found, case.exact)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_equals_the_interpreter(name: str, pocl: OpenClDevice) -> None:
    case = CASES[name]()
    made = _made(case)
    assert any(isinstance(part, Intrinsic) for part in walk(made.kernel.body))
    (found,) = pocl.build(made.kernel)(*case.inputs, *made.constants.values())
    _check(found, case)


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "name", ["int8 matmul 65x70x33", "uint8 matmul batch", "uint8 dense 33x75x34", "int8 conv 3x3"]
)
def test_its_other_sources_equal_the_interpreter(
    name: str, dialect: Dialect, tmp_path: Path
) -> None:
    case = CASES[name]()
    made = _made(case)
    _check(
        run_as(dialect, made.kernel, *case.inputs, *made.constants.values(), folder=tmp_path), case
    )


@pytest.mark.parametrize("name", ["int8 dense 7x13x5", "uint8 conv 3x3"])
def test_loops_before_threads_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schedules: list[te.Schedule] = []
    build = "vdla.compiler.gpu.template.build_kernel"
    monkeypatch.setattr(build, lambda name, schedule, args: schedules.append(schedule))
    case = CASES[name]()
    made = _made(case)
    body, arguments = lower(schedules[0])
    given = dict(zip(made.inputs, case.inputs, strict=True)) | dict(made.constants)
    (output,) = schedules[0].outputs
    values = {t: given[t.name] for t in arguments if t is not output}
    _check(interpret(body, arguments, values)[output].astype(case.exact.dtype), case)


def test_weights_of_9_bits_are_sums() -> None:
    case = CASES["uint8 dense 33x75x34"]()
    weight = case.graph.tensors["b"].data
    assert weight is not None
    assert (weight.astype(int) - 99 > 127).any()  # of which there are some
    (held,) = (array for array in _made(case).constants.values() if array.ndim == 3)
    assert held.dtype == np.int8
    assert held.shape[0] * 4 > 75  # channels that have them come twice, and those of 255 thrice


@pytest.mark.parametrize(
    ("dtypes", "built_in", "instruction"),
    [
        (("int8", "int8"), "dot_4x8packed_ss_int", "dp4a.s32.s32"),
        (("uint8", "int8"), "dot_4x8packed_us_int", "dp4a.u32.s32"),
        (("uint8", "uint8"), "dot_4x8packed_uu_uint", "dp4a.u32.u32"),
    ],
)
def test_languages_have_it_by_these_names(
    dtypes: tuple[str, str], built_in: str, instruction: str
) -> None:
    name = {
        ("int8", "int8"): "int8 matmul 1x1x1",
        ("uint8", "int8"): "uint8 conv 3x3",
        ("uint8", "uint8"): "uint8 matmul batch",
    }[dtypes]
    kernel = _made(CASES[name]()).kernel
    assert f"{built_in}(left, right)" in source_of(kernel)
    assert f'asm("{instruction} %0, %1, %2, %3;"' in source_of(kernel, CUDA)
    assert dot_product(*dtypes).name in source_of(kernel, METAL)


def test_factors_of_other_dtypes_are_refused() -> None:
    message = r"Factors of a dot product must be int8 or uint8, not int16 and int8\."
    with pytest.raises(LoweringError, match=message):
        dot_product("int16", "int8")


def test_words_that_begin_inside_others_are_refused() -> None:
    a, b = te.placeholder((12,), "int8", "a"), te.placeholder((4,), "int8", "b")
    k = te.reduce_axis(4, "k")
    out = te.compute(
        (8,), lambda i: te.sum_over(a[i + k].astype("int32") * b[k].astype("int32"), k), "out"
    )
    s = te.create_schedule(out)
    sums = s.cache_write(out, "register")
    (i,) = s[out].axis
    s[out].bind(i, "threadIdx.x")
    s[sums].compute_at(s[out], i)
    for tensor in (a, b):
        shared = s[s.cache_read(tensor, "shared", [sums])]
        shared.compute_at(s[out], i)
        _, thread = shared.split(shared.axis[0], factor=8)
        shared.bind(thread, "threadIdx.x")
    s[sums].tensorize(s[sums].reduce_axis[0], dot_product("int8", "int8"))
    message = (
        r"Intrinsic dot_int8_int8 reads whole words of 4 elements, and a\.shared\[thread_x\] may "
        r"begin inside one: give the tensor's last dimension 4 elements\."
    )
    with pytest.raises(LoweringError, match=message):
        build_kernel("sliding", s, [a, b, out])
