"""Operators as kernels, run by PoCL, and as loops, equal numpy within what rounding allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu import byte_cases
from tests.compiler.gpu.byte_cases import ByteCase
from tests.compiler.gpu.cases import CASES, HALVES, Case, convolution, dense, matmul
from tests.compiler.targets.gpu.on_processor import run_as
from tests.one_operator import network
from vdla.compiler import te
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.gpu.loads import loads_of
from vdla.compiler.graph import Graph, Node
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.targets.gpu import CUDA, METAL, Dialect, source_of
from vdla.compiler.targets.gpu.kernel import (
    Barrier,
    Guard,
    Matrix,
    walk,
)
from vdla.errors import LoweringError
from vdla.runtime.opencl import OpenClDevice


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_equals_the_definition(name: str, pocl: OpenClDevice) -> None:
    case = CASES[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    (found,) = pocl.build(made.kernel)(*case.inputs, *made.constants.values())
    case.check(found)


@pytest.mark.parametrize("name", HALVES)
def test_a_kernel_of_halves_equals_the_definition(
    name: str, pocl: OpenClDevice, tmp_path: Path
) -> None:
    case = HALVES[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    given = (*case.inputs, *made.constants.values())
    case.check(*pocl.build(made.kernel)(*given))
    for dialect in (CUDA, METAL):
        folder = tmp_path / dialect.name
        folder.mkdir()
        case.check(run_as(dialect, made.kernel, *given, folder=folder))


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "name", ["dense 7x13x5", "dense 65x33x129", "matmul batch", "conv 3x3", "conv stride 3"]
)
def test_its_other_sources_equal_the_definition(
    name: str, dialect: Dialect, tmp_path: Path
) -> None:
    case = CASES[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    case.check(
        run_as(dialect, made.kernel, *case.inputs, *made.constants.values(), folder=tmp_path)
    )


def test_what_is_not_a_number_stays_so(pocl: OpenClDevice) -> None:
    case = dense(3, 2, 4)
    (x,) = case.inputs
    x[1] = np.nan
    x[2] = np.inf
    made = operator_kernel(case.graph, case.graph.nodes[0])
    (found,) = pocl.build(made.kernel)(x, *made.constants.values())
    assert np.isnan(found[1]).all()
    assert np.isin(found[2], (0.0, np.inf)).any()


@pytest.mark.parametrize(
    "case", [dense(7, 13, 5), convolution((2, 5, 4, 3), 5, (3, 3), (2, 1), ((1, 1), (1, 0)))]
)
def test_loops_before_threads_compute_the_same(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    schedules: list[te.Schedule] = []
    build = "vdla.compiler.gpu.template.build_kernel"
    monkeypatch.setattr(build, lambda name, schedule, args: schedules.append(schedule))
    made = operator_kernel(case.graph, case.graph.nodes[0])
    body, arguments = lower(schedules[0])
    given = dict(zip(made.inputs, case.inputs, strict=True)) | dict(made.constants)
    (output,) = schedules[0].outputs
    values = {t: given[t.name] for t in arguments if t is not output}
    case.check(interpret(body, arguments, values)[output])


@pytest.mark.parametrize("case", [dense(64, 32, 96), matmul((64, 64), (64, 64))])
def test_nothing_is_guarded_where_tiles_divide(case: Case) -> None:
    kernel = operator_kernel(case.graph, case.graph.nodes[0]).kernel
    assert not any(isinstance(part, Guard) for part in walk(kernel.body))
    source = source_of(kernel)
    assert "if (" not in source
    assert "?" not in source.split("{", 2)[2]


def test_threads_wait_twice_a_step() -> None:
    kernel = operator_kernel(*_node(dense(65, 33, 129))).kernel
    assert sum(isinstance(part, Barrier) for part in walk(kernel.body)) == 2


def test_threads_wait_once_where_there_is_one_step() -> None:
    case = convolution((4, 9, 11, 5), 19, (3, 3), (2, 2))
    kernel = operator_kernel(*_node(case)).kernel
    assert sum(isinstance(part, Barrier) for part in walk(kernel.body)) == 1


@pytest.mark.parametrize(("together", "elements"), [(True, 16_384), (False, 524_288)])
def test_what_is_fetched_together_is_read_once_a_block(
    together: bool, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four blocks of 32 x 32 sums need (32 + 32) x 64 elements each. Without sharing, each of
    # 64 x 64 x 64 products reads two.
    if not together:
        monkeypatch.setattr("vdla.compiler.gpu.fetch.fetch", lambda *_, **__: None)
    case = matmul((64, 64), (64, 64))
    kernel = operator_kernel(case.graph, case.graph.nodes[0]).kernel
    loads = loads_of(kernel)
    assert loads.memory == elements
    assert loads.unshared == 524_288
    assert (loads.fetched, loads.shared) == ((elements, 524_288) if together else (0, 0))
    assert (loads.calls, loads.written) == (1, 64 * 64)


def test_words_are_counted_by_their_elements() -> None:
    # Four blocks of 32 x 32 sums fetch (32 + 32) x 128 bytes each, and each of 64 x 128 x 64
    # products reads two.
    case = byte_cases.matmul((64, 128), (128, 64))
    loads = loads_of(operator_kernel(case.graph, case.graph.nodes[0]).kernel)
    assert (loads.memory, loads.fetched) == (4 * 64 * 128, 4 * 64 * 128)
    assert (loads.shared, loads.written) == (2 * 64 * 128 * 64, 64 * 64)


@pytest.mark.parametrize(
    ("case", "terms"),
    [(matmul((64, 64), (64, 64), "float16"), 64), (byte_cases.matmul((64, 128), (128, 64)), 128)],
    ids=["float16", "int8"],
)
def test_tiles_are_counted_by_what_warps_load(case: Case | ByteCase, terms: int) -> None:
    # A block of four warps fetches both matrices once. Each warp multiplies 32 rows and 32 columns
    # of all terms, and each sum passes through shared memory.
    kernel = operator_kernel(case.graph, case.graph.nodes[0], matrices=True).kernel
    assert any(isinstance(part, Matrix) for part in walk(kernel.body))
    loads = loads_of(kernel)
    assert (loads.memory, loads.fetched) == (2 * 64 * terms, 2 * 64 * terms)
    assert (loads.shared, loads.written) == (4 * (32 + 32) * terms + 64 * 64, 64 * 64)


def _node(case: Case) -> tuple[Graph, Node]:
    return case.graph, case.graph.nodes[0]


def _vector() -> Graph:
    return network("matmul", [np.zeros(4, np.float32), np.zeros((4, 5), np.float32)])


def _flattened() -> Graph:
    attrs = {"clip": (-np.inf, np.inf), "rounding": "double", "keep_dims": False}
    x, w = np.zeros((2, 3, 4), np.float32), np.zeros((5, 12), np.float32)
    return network("dense", [x, w], attrs, constant=[1])


def _enormous() -> Graph:
    return convolution((1, 100, 100, 1), 1, (91, 91)).graph


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (
            network("exp", [np.zeros(4, np.float32)]),
            r"An operator that has a template must be one of conv2d, dense, depthwise_conv2d, "
            r"matmul, and node 'exp' is exp: compile its network, which takes others as well\.",
        ),
        (
            _vector(),
            r"A matmul on a GPU must be of matrices, one or a batch, and node 'matmul' is of "
            r"shapes \[4\], \[4, 5\], \[5\]: reshape them, or leave it on the processor\.",
        ),
        (
            _flattened(),
            r"A dense on a GPU must be of matrices, and node 'dense' is of shapes \[2, 3, 4\], "
            r"\[5, 12\], \[2, 5\]: reshape them",
        ),
        (
            _enormous(),
            r"A window and its weights must fit 32,768 bytes of shared memory for one input "
            r"channel, and those of 91 x 91 do not: leave the operator on the processor\.",
        ),
    ],
)
def test_what_has_no_kernel_is_refused(graph: Graph, text: str) -> None:
    with pytest.raises(LoweringError, match=text):
        operator_kernel(graph, graph.nodes[0])


def test_a_square_is_refused() -> None:
    a = np.zeros((4, 4), np.float32)
    graph = network("matmul", [a, a])
    (node,) = graph.nodes
    one = Graph("one", graph.tensors.values(), [replace(node, inputs=("a", "a"))], ["a"], ["out"])
    with pytest.raises(LoweringError, match=r"must be of two tensors, and node 'matmul' multip"):
        operator_kernel(one, one.nodes[0])
