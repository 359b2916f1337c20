"""Every operator of integers and of float64, as kernels, to the bit of the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.cpu.cases import CASES, Case
from tests.compiler.targets.gpu.on_processor import network_as
from vdla.compiler.gpu import compile_network
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu import CUDA, METAL, Dialect
from vdla.runtime.gpu_network import place_network
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray


def _dtypes(case: Case) -> frozenset[str]:
    return frozenset(str(t.dtype) for t in case.graph.tensors.values() if not t.is_constant)


def _whole(case: Case) -> bool:
    """Tell whether a case computes with more than float32 and bool."""
    return not {"float32", "bool"} >= _dtypes(case) and "float16" not in _dtypes(case)


WHOLE = {op: kept for op, cases in CASES.items() if (kept := list(filter(_whole, cases)))}
MOST_CASES = 2
"""Of an operator and its dtypes: PoCL takes half a second for a kernel. All others are made."""


def _spread(cases: list[Case]) -> list[Case]:
    """Return some cases of each combination of dtypes: the first and the last of them."""
    by_dtypes: dict[frozenset[str], list[Case]] = {}
    for case in cases:
        by_dtypes.setdefault(_dtypes(case), []).append(case)
    chosen = []
    for alike in by_dtypes.values():
        steps = np.linspace(0, len(alike) - 1, min(MOST_CASES, len(alike)))
        chosen += [alike[round(step)] for step in steps]
    return chosen


def _equal(found: Array, want: Array, case: str) -> None:
    assert (found.dtype, found.shape) == (want.dtype, want.shape), case
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(found, want, err_msg=case)
        return
    # Sums are in another order than the interpreter's, and functions of floats others'.
    tolerance = 32 * np.finfo(want.dtype).eps
    size = np.abs(want[np.isfinite(want)], dtype=np.float64).max(initial=1e-3)
    np.testing.assert_allclose(found, want, tolerance, tolerance * size, err_msg=case)


def _expected(case: Case) -> tuple[dict[str, Array], Array]:
    given = dict(zip(case.graph.inputs, case.values, strict=True))
    with np.errstate(all="ignore"):
        return given, Interpreter(case.graph).run(given)["out"]


@pytest.mark.parametrize("op", WHOLE)
def test_an_operator_equals_the_interpreter(op: str, pocl: OpenClDevice) -> None:
    chosen = {id(case) for case in _spread(WHOLE[op])}
    for case in WHOLE[op]:
        made = compile_network(case.graph)
        if id(case) in chosen:
            given, want = _expected(case)
            _equal(place_network(made, pocl).run(given)["out"], want, str(case))


OTHERS = {
    "add": ("int8",),
    "avg_pool2d": ("uint8",),
    "cast": ("float32", "int64"),
    "conv2d": ("uint8",),
    "conv_transpose2d": ("int8",),
    "dense": ("int8",),
    "dequantize": ("float32", "int16"),
    "div": ("int64",),
    "gather": ("float32", "int32"),
    "matmul": ("int32",),
    "mean": ("int8",),
    "mul": ("uint16",),
    "pow": ("int32",),
    "quantize": ("float32", "uint16"),
    "reduce_max": ("uint8",),
    "softmax": ("int8",),
    "sub": ("int16",),
}


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("op", OTHERS)
def test_other_sources_equal_the_interpreter(op: str, dialect: Dialect, tmp_path: Path) -> None:
    case = next(case for case in CASES[op] if _dtypes(case) == set(OTHERS[op]))
    given, want = _expected(case)
    found = network_as(dialect, compile_network(case.graph), given, tmp_path)["out"]
    _equal(found.reshape(want.shape), want, str(case))
