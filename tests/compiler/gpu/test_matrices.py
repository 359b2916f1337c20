"""Products of half floats by warps: CUDA C on a processor equals numpy, but for rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.compiler.gpu.cases import HALVES, Case, dense
from tests.compiler.gpu.cases import MATRICES as CASES
from tests.compiler.gpu.test_network import _block, _image, _of_rounding
from tests.compiler.targets.gpu.broken import barriers_of, without
from tests.compiler.targets.gpu.on_processor import run_as
from vdla.compiler.gpu import compile_network, operator_kernel
from vdla.compiler.gpu.matrix import default_matrix_tile, schedule_matrices
from vdla.compiler.gpu.part import part_of
from vdla.compiler.gpu.rows import Product, product_of
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.onnx import export_onnx
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu import CUDA, METAL, OPENCL, Kernel, source_of
from vdla.compiler.targets.gpu.barriers import check_barriers
from vdla.compiler.targets.gpu.bounds import check_bounds
from vdla.compiler.targets.gpu.kernel import Guard, Loop, Matrix, Sequence, Statement, walk
from vdla.errors import LoweringError

Array = np.ndarray


def _made(name: str) -> tuple[Case, Kernel, tuple[Array, ...]]:
    case = CASES[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0], matrices=True)
    return case, made.kernel, (*case.inputs, *made.constants.values())


def _matrices(kernel: Kernel) -> list[Matrix]:
    return [part for part in walk(kernel.body) if isinstance(part, Matrix)]


@pytest.mark.parametrize("name", CASES)
def test_a_product_by_warps_equals_the_definition(name: str, tmp_path: Path) -> None:
    case, kernel, given = _made(name)
    functions = {part.function.removeprefix("matrix_") for part in _matrices(kernel)}
    assert functions == {
        "fill_float32",
        "load_left_float16",
        "load_right_float16",
        "multiply_float16",
        "store_float32",
    }
    case.check(run_as(CUDA, kernel, *given, folder=tmp_path))


def _product(case: Case) -> tuple[Product, dict[object, Array]]:
    part = part_of(case.graph, case.graph.nodes)
    product = product_of(part.output)
    assert product is not None
    inputs = dict(zip(part.inputs, case.inputs, strict=True))
    return product, {**inputs, **part.constants}


@pytest.mark.parametrize("made", [HALVES["dense 7x13x5"], CASES["conv dilated"]])
def test_its_loops_compute_the_same(made: Callable[[], Case]) -> None:
    case = made()
    product, values = _product(case)
    tile = default_matrix_tile(product.rows, product.columns)
    body, arguments = lower(schedule_matrices(product, tile))
    given = {t: values[t] for t in arguments if t is not product.output}
    case.check(interpret(body, arguments, given)[product.output])


def test_its_source_is_as_it_was(golden: Callable[[str, str], None]) -> None:
    _, kernel, _ = _made("dense 64x32x96")
    golden(source_of(kernel, CUDA), "dense.cu")


def test_no_barrier_can_be_left_out(tmp_path: Path) -> None:
    case, kernel, given = _made("matmul 129x100x70")
    barriers = barriers_of(kernel)
    assert len(barriers) == 3
    for number, barrier in enumerate(barriers):
        broken = without(kernel, barrier)
        with pytest.raises(LoweringError, match=r"nothing makes them wait for"):
            check_barriers(broken.body)
        folder = tmp_path / str(number)
        folder.mkdir()
        found = run_as(CUDA, broken, *given, folder=folder)
        with pytest.raises(AssertionError):
            case.check(found)


def _changed(stmt: Statement, change: Callable[[Matrix], Matrix]) -> Statement:
    if isinstance(stmt, (Guard, Loop)):
        return replace(stmt, body=_changed(stmt.body, change))
    if isinstance(stmt, Sequence):
        return Sequence(tuple(_changed(child, change) for child in stmt.stmts))
    return change(stmt) if isinstance(stmt, Matrix) else stmt


def test_a_tile_must_lie_in_its_array() -> None:
    _, kernel, _ = _made("dense 64x32x96")
    steeper = _changed(kernel.body, lambda one: replace(one, step=one.step and one.step + 1))
    with pytest.raises(LoweringError, match=r"must lie inside its array wherever a thread stands"):
        check_bounds(replace(kernel, body=steeper))


def test_rows_that_no_instruction_takes_are_noticed(tmp_path: Path) -> None:
    _, kernel, given = _made("dense 8x1x8")
    odd = _changed(kernel.body, lambda one: replace(one, step=one.step and one.step - 8))
    with pytest.raises(AssertionError, match="no instruction takes"):
        run_as(CUDA, replace(kernel, body=odd), *given, folder=tmp_path)


def test_a_network_by_warps_is_onnxruntimes(tmp_path: Path) -> None:
    graph = _block()
    values = _image(graph)
    made = compile_network(graph, dtype="float16", matrices=True)
    held: dict[str, Array] = {**values, **made.constants}
    by_warps = 0
    for number, call in enumerate(made.calls):
        folder = tmp_path / str(number)
        folder.mkdir()
        given = [held[name] for name in call.arrays[:-1]]
        held[call.arrays[-1]] = run_as(CUDA, call.kernel, *given, folder=folder)
        by_warps += bool(_matrices(call.kernel))
    assert by_warps == 3  # the stem, and each block's narrow convolution with the sum behind it
    session = onnxruntime.InferenceSession(
        export_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (want,) = session.run(None, {session.get_inputs()[0].name: next(iter(values.values()))})
    found = held[graph.outputs[0]]
    assert np.abs(found - want).max() <= _of_rounding(graph) * np.abs(want).max()
    np.testing.assert_array_equal(found.argmax(-1), want.argmax(-1))
    # And of what the half floats of that graph are, it is as near as sums in another order.
    halves = Interpreter(made.graph).run(values)[graph.outputs[0]]
    assert np.abs(found - halves).max() <= 2e-3 * np.abs(want).max()


def test_what_is_no_product_of_halves_has_the_other_template() -> None:
    for case in (dense(64, 32, 96), HALVES["dense 7x13x5"]()):
        sources = [
            source_of(operator_kernel(case.graph, case.graph.nodes[0], matrices=matrices).kernel)
            for matrices in (False, True)
        ]
        assert sources[0] == sources[1]


@pytest.mark.parametrize("dialect", [METAL, OPENCL], ids=lambda dialect: dialect.name)
def test_other_languages_have_none(dialect: object) -> None:
    _, kernel, _ = _made("dense 64x32x96")
    with pytest.raises(
        LoweringError,
        match=r"Products of matrices by a warp are for CUDA C, and .* has no "
        r"matrix_fill_float32: use the template without\.",
    ):
        source_of(kernel, dialect)
