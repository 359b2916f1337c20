"""Products of 8-bit integers by warps, in CUDA C on a processor, to the interpreter's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu.byte_cases import CASES, MATRICES, ByteCase
from tests.compiler.targets.gpu.broken import barriers_of, without
from tests.compiler.targets.gpu.on_processor import network_as, run_as
from vdla.compiler.gpu import GpuNetwork, compile_network, operator_kernel
from vdla.compiler.gpu.template import OperatorKernel
from vdla.compiler.graph import Graph, import_tflite
from vdla.compiler.ir.stmt import Buffer, Intrinsic
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu import CUDA, Kernel, source_of
from vdla.compiler.targets.gpu.kernel import Matrix, walk
from vdla.compiler.targets.gpu.matrices import aligned_bytes, registers_of

Array = np.ndarray


def _made(case: ByteCase) -> OperatorKernel:
    return operator_kernel(case.graph, case.graph.nodes[0], matrices=True)


def _functions(kernel: Kernel) -> set[str]:
    parts = (part for part in walk(kernel.body) if isinstance(part, Matrix))
    return {part.function.removeprefix("matrix_") for part in parts}


@pytest.mark.parametrize("name", MATRICES)
def test_a_product_by_warps_equals_the_interpreter(name: str, tmp_path: Path) -> None:
    case = MATRICES[name]()
    made = _made(case)
    found = run_as(CUDA, made.kernel, *case.inputs, *made.constants.values(), folder=tmp_path)
    assert found.dtype == case.exact.dtype
    np.testing.assert_array_equal(found, case.exact)


CENTRED = {"fill_int32", "load_left_centred", "load_right_int8", "multiply_int8", "store_int32"}


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("int8 conv 3x3", CENTRED - {"load_left_centred"} | {"load_left_int8"}),
        # Weights less their zero point have a sign, and factors must be alike.
        ("uint8 conv 3x3", CENTRED),
        ("uint8 dense 64x128x96", CENTRED),
        (
            "uint8 matmul batch",
            {"fill_int32", "load_left_uint8", "load_right_uint8", "multiply_uint8", "store_int32"},
        ),
    ],
)
def test_factors_are_alike(name: str, functions: set[str]) -> None:
    assert _functions(_made(MATRICES[name]()).kernel) == functions


@pytest.mark.parametrize(
    "name", ["int8 dense 7x13x5", "int8 matmul 1x1x1", "int8 matmul broadcast", "int8 conv dilated"]
)
def test_small_products_are_left_to_words(name: str) -> None:
    case = CASES[name]()
    sources = [
        source_of(operator_kernel(case.graph, case.graph.nodes[0], matrices=matrices).kernel)
        for matrices in (False, True)
    ]
    assert sources[0] == sources[1]
    assert any(isinstance(part, Intrinsic) for part in walk(_made(case).kernel.body))


@pytest.mark.parametrize(
    ("scope", "dtype", "registers", "aligned"),
    [
        # Of 256 elements each of 32 threads holds 8: bytes four to a register, sums one; halves
        # are there twice.
        ("matrix.left", "int8", 2, 16),
        ("matrix.right", "uint8", 2, 16),
        ("matrix.left", "float16", 8, 32),
        ("matrix.sums", "int32", 8, 32),
        ("matrix.sums", "float32", 8, 32),
    ],
)
def test_a_tile_in_registers(scope: str, dtype: str, registers: int, aligned: int) -> None:
    assert registers_of(scope, dtype) == registers
    assert aligned_bytes(dtype) == aligned


@pytest.mark.parametrize("name", MATRICES)
def test_rows_that_are_read_at_once_lie_in_different_banks(name: str) -> None:
    # Eight rows of 16 bytes are all 32 banks of 4 bytes.
    parts = [part for part in walk(_made(MATRICES[name]()).kernel.body) if isinstance(part, Matrix)]
    loads = [part for part in parts if "load" in part.function]
    assert loads
    for load in loads:
        banks = {(row * load.step + byte) // 4 % 32 for row in range(8) for byte in range(16)}
        assert len(banks) == 32
        assert load.step % 16 == 0


def test_no_barrier_can_be_left_out(tmp_path: Path) -> None:
    case = MATRICES["int8 conv batch 4"]()
    made = _made(case)
    barriers = barriers_of(made.kernel)
    assert len(barriers) == 3
    for number, barrier in enumerate(barriers):
        folder = tmp_path / str(number)
        folder.mkdir()
        broken = without(made.kernel, barrier)
        found = run_as(CUDA, broken, *case.inputs, *made.constants.values(), folder=folder)
        assert (found != case.exact).any()


def test_weights_end_with_whole_steps() -> None:
    # 3 x 3 taps of 17 channels are 153 terms, and a step takes 64.
    made = _made(MATRICES["int8 conv 3x3"]())
    (weight,) = (array for array in made.constants.values() if array.ndim == 2)
    assert weight.shape == (33, 192)
    assert not weight[:, 153:].any()


def test_a_product_of_few_terms_takes_a_short_step() -> None:
    shared = {b.name: b for b in _made(MATRICES["int8 dense 8x1x8"]()).kernel.shared}
    # 16 x 16 bytes of each factor.
    assert sorted(b.total for b in shared.values() if b.dtype == "int8") == [256, 256]


def _by_warps(made: GpuNetwork) -> list[Kernel]:
    return [call.kernel for call in made.calls if _functions(call.kernel)]


def test_a_quantized_network_is_the_interpreters(shared_data: Path, tmp_path: Path) -> None:
    graph: Graph = import_tflite(shared_data / "mlperf_tiny" / "resnet8_int8.tflite")
    made = compile_network(graph, matrices=True)
    # Nine convolutions; the dense layer has one row.
    assert len(_by_warps(made)) == 9
    assert sum(any(isinstance(p, Intrinsic) for p in walk(c.kernel.body)) for c in made.calls) == 1
    (name,) = graph.inputs
    shape = graph.tensors[name].shape
    image = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    want = Interpreter(graph).run({name: image})[graph.outputs[0]]
    found = network_as(CUDA, made, {name: image}, tmp_path)[graph.outputs[0]]
    np.testing.assert_array_equal(found, want)


def test_a_buffer_of_a_warp_has_its_dtype() -> None:
    kernel = _made(MATRICES["uint8 conv 3x3"]()).kernel
    held: dict[str, Buffer] = {buffer.scope: buffer for buffer in kernel.registers}
    assert held["matrix.left"].dtype == held["matrix.right"].dtype == "int8"
    assert held["matrix.sums"].dtype == "int32"
