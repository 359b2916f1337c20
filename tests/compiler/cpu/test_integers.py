"""Networks of integers as machine code: equal to LiteRT's reference outputs, and to the bit."""

from __future__ import annotations

from pathlib import Path

import llvmlite.ir as ll
import numpy as np
import pytest

from tests.compiler.cpu.test_networks import compiled, run
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.cpu.intrinsics import pair_product
from vdla.compiler.targets.cpu.kernel import Kernel, emit_kernel, optimize
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import compute, create_schedule, placeholder, reduce_axis, sum_over
from vdla.errors import LoweringError
from vdla.runtime.api import read_graph

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
NETWORKS = {
    "resnet8": "mlperf_tiny/resnet8_int8.tflite",
    "vww96": "mlperf_tiny/vww96_int8.tflite",
    "mobilenet": "coral/mobilenet_v1_0.25_128_quant.tflite",
    "digits": "digits",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_integers_is_the_interpreters(name: str) -> None:
    file = NETWORKS[name]
    graph = read_graph(file if file == "digits" else DATA / file)
    tensor = graph.tensors[graph.inputs[0]]
    limits = np.iinfo(tensor.dtype)
    rng = np.random.default_rng(8)
    x = rng.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)
    expected = Interpreter(graph).run({tensor.name: x})[graph.outputs[0]]
    np.testing.assert_array_equal(run(compiled(graph), graph, {tensor.name: x}, "end", 2), expected)


def pairs(target: Target, lanes: int = 16, steps: int = 6) -> Kernel:
    """Return ``y[r, l] = sum(a[r, s, k] * b[s, l, k] for s, k)`` with the instruction inside."""
    intrin = pair_product(target, lanes)
    assert intrin is not None
    a, b = placeholder((3, steps, 2), "int16", "a"), placeholder((steps, lanes, 2), "int16", "b")
    s, k = reduce_axis(steps, "s"), reduce_axis(2, "k")
    y = compute(
        (3, lanes),
        lambda r, lane: sum_over(
            a[r, s, k].astype("int32") * b[s, lane, k].astype("int32"), (s, k)
        ),
        "y",
    )
    schedule = create_schedule(y)
    sums = schedule.cache_write(y, "register")
    schedule[sums].compute_at(schedule[y], schedule[y].axis[0])
    stage = schedule[sums]
    r, lane = stage.axis
    stage.reorder(r, s, lane, k)
    stage.vectorize(lane)
    stage.tensorize(lane, intrin)
    return Kernel("pairs", schedule, (a, b, y))


LEVELS = {
    "x86-64-avx2": "vpmaddwd\t",
    "x86-64-avx512": "vpmaddwd\t",
    "x86-64-vnni": "vpdpwssd\t",
    "x86-64-amx": "vpdpwssd\t",
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_with_the_instruction_gets_it_once_a_vector_and_step(level: str) -> None:
    module = ll.Module("test")
    target = Target.named(level)
    emit_kernel(module, pairs(target))
    parsed, machine = optimize(module, target)
    text = machine.emit_assembly(parsed)
    vectors = 2 if level == "x86-64-avx2" else 1
    loop = [line for line in text.splitlines() if LEVELS[level] in line]
    assert len(loop) % vectors == 0
    assert loop
    assert "vpmuldq" not in text


@pytest.mark.parametrize("level", ["x86-64", "aarch64-neon", "armv7-neon"])
def test_a_level_without_it_has_none(level: str) -> None:
    assert pair_product(Target.named(level), 16) is None


def test_an_intrinsic_of_another_target_is_refused() -> None:
    from vdla.compiler.te import TensorIntrin

    kernel = pairs(Target.named("x86-64-avx2"))
    stage = kernel.schedule.stages[0]
    (axis,) = stage.intrinsics
    known = stage.intrinsics[axis]
    stage.intrinsics[axis] = TensorIntrin(
        "gemm", known.declaration, known.operands, known.scopes, clears=False
    )
    with pytest.raises(LoweringError, match="A processor has no intrinsic gemm"):
        emit_kernel(ll.Module("test"), kernel)
