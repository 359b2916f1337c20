"""Long reductions: their terms are shared, and what comes out is the same."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu.reduction_cases import CASES
from tests.compiler.targets.gpu.on_processor import run_as
from tests.one_operator import network
from vdla.compiler.gpu import compile_network
from vdla.compiler.gpu.reductions import schedule_reduction
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu import CUDA, METAL, OPENCL, Dialect, build_kernel
from vdla.compiler.targets.gpu.kernel import Barrier, walk
from vdla.compiler.te import Tensor, compute, max_over, placeholder, reduce_axis
from vdla.runtime.gpu_network import place_network
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray


@pytest.mark.parametrize("dialect", [OPENCL, CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("name", CASES)
def test_a_shared_reduction_is_the_whole_one(
    name: str, dialect: Dialect, pocl: OpenClDevice, tmp_path: Path
) -> None:
    (schedule, (a, out)), expected = CASES[name]
    kernel = build_kernel("reduced", schedule, [a, out])
    given = np.random.default_rng(6).standard_normal(a.shape).astype(np.float32)
    if dialect is OPENCL:
        (found,) = pocl.build(kernel)(given)
    else:
        found = run_as(dialect, kernel, given, folder=tmp_path)
    terms = given.size // found.size
    bound = (terms + 2) * 2.0**-24 * np.abs(given).max() ** 2 * terms
    assert found.shape == out.shape
    assert (np.abs(found - expected(given)) <= bound).all()


@pytest.mark.parametrize(
    ("name", "block", "barriers"),
    [
        # 128 threads an output: 128 parts in shared memory, then 64, ..., 2.
        ("rows of 1000", 128, 7),
        # 16 threads an output, six outputs a block: 6 divides 12 and 8 does not.
        ("rows of 45", 96, 4),
        # 32 channels a block, eight threads each.
        ("means", 256, 3),
    ],
)
def test_threads_halve_what_they_found(name: str, block: int, barriers: int) -> None:
    (schedule, tensors), _ = CASES[name]
    kernel = build_kernel("reduced", schedule, tensors)
    assert prod(kernel.block) == block
    assert sum(isinstance(part, Barrier) for part in walk(kernel.body)) == barriers
    # All parts of a level lie in shared memory: as many as threads, and half as many each time.
    sizes = [buffer.total for buffer in kernel.shared]
    assert sizes == [block >> k for k in range(barriers)]


def test_what_is_not_a_number_stays_so(pocl: OpenClDevice) -> None:
    (schedule, tensors), _ = CASES["rows of 1000"]
    given = np.full((3, 1000), -np.inf, np.float32)
    given[1, 777] = np.nan
    given[2, 999] = -5
    (found,) = pocl.build(build_kernel("reduced", schedule, tensors))(given)
    np.testing.assert_array_equal(found, [-np.inf, np.nan, -5])


def test_a_softmax_shares_its_maximum_and_its_sum(pocl: OpenClDevice) -> None:
    x = np.random.default_rng(1).standard_normal((5, 300)).astype(np.float32) * 9
    graph = network("softmax", [x], {"axis": 1, "beta": 1.0})
    made = compile_network(graph)
    shared = [bool(call.kernel.shared) for call in made.calls]
    assert shared == [True, False, True, False]
    given = dict(zip(graph.inputs, [x], strict=True))
    found = place_network(made, pocl).run(given)["out"]
    np.testing.assert_allclose(found, Interpreter(graph).run(given)["out"], rtol=1e-5)


def _maximum(outputs: int, terms: int, dtype: str = "float32") -> Tensor:
    a = placeholder((outputs, terms), dtype, "a")
    k = reduce_axis(terms, "k")
    return compute((outputs,), lambda i: max_over(a[i, k], k), "out")


def _doubled() -> Tensor:
    a = placeholder((8, 64), "float32", "a")
    return compute((8, 64), lambda i, j: a[i, j] * 2, "out")


@pytest.mark.parametrize(
    "output",
    [
        _maximum(8, 9),  # a thread is done with its own at once
        _maximum(100_000, 64),  # enough threads as it is
        _maximum(8, 64, "bool"),
        _doubled(),
    ],
)
def test_others_are_left_to_a_thread_each(output: Tensor) -> None:
    assert schedule_reduction(output) is None
