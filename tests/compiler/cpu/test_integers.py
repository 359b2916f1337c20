"""Networks of integers as machine code: equal to LiteRT's reference outputs, and to the bit."""

from __future__ import annotations

import re
from pathlib import Path

import llvmlite.ir as ll
import numpy as np
import pytest

from tests.compiler.cpu.test_networks import compiled, run
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.cpu.intrinsics import dot_product
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


def dots(target: Target, group: int, lanes: int = 16, steps: int = 6) -> Kernel:
    """Return ``y[r, l] = sum(a[r, s, k] * b[s, l, k] for s, k)`` with the instruction inside."""
    intrin = dot_product(target, lanes, group)
    assert intrin is not None
    shared, own = (operand.dtype for operand in intrin.operands)
    a = placeholder((3, steps, group), shared, "a")
    b = placeholder((steps, lanes, group), own, "b")
    s, k = reduce_axis(steps, "s"), reduce_axis(group, "k")
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
    return Kernel("dots", schedule, (a, b, y))


LEVELS = [
    ("x86-64-avx2", 2, "vpmaddwd", 2),
    ("x86-64-avxvnni", 2, "vpdpwssd", 2),  # LLVM makes one of vpmaddwd and the addition
    ("x86-64-avxvnni", 4, "vpdpbusd", 2),
    ("x86-64-avx512", 2, "vpmaddwd", 1),
    ("x86-64-vnni", 2, "vpdpwssd", 1),
    ("x86-64-vnni", 4, "vpdpbusd", 1),
    ("x86-64-amx", 2, "vpdpwssd", 1),
    ("x86-64-amx", 4, "vpdpbusd", 1),
    ("aarch64-dot", 4, "sdot", 4),
]


@pytest.mark.parametrize(("level", "group", "instruction", "vectors"), LEVELS)
def test_a_level_with_the_instruction_gets_it_once_a_vector_and_step(
    level: str, group: int, instruction: str, vectors: int
) -> None:
    module = ll.Module("test")
    target = Target.named(level)
    emit_kernel(module, dots(target, group))
    parsed, machine = optimize(module, target)
    text = machine.emit_assembly(parsed)
    found = re.findall(rf"\s{instruction}\s", text)
    assert len(found) % vectors == 0
    assert found
    assert "vpmuldq" not in text


@pytest.mark.parametrize(
    ("level", "groups"),
    [
        ("x86-64", (2, 4)),
        ("x86-64-avx2", (4,)),
        ("x86-64-avx512", (4,)),
        ("aarch64-neon", (2, 4)),
        ("aarch64-dot", (2,)),
        ("armv7-neon", (2, 4)),
    ],
)
def test_a_level_without_it_has_none(level: str, groups: tuple[int, ...]) -> None:
    for group in groups:
        assert dot_product(Target.named(level), 16, group) is None


def test_an_intrinsic_of_another_target_is_refused() -> None:
    from vdla.compiler.te import TensorIntrin

    kernel = dots(Target.named("x86-64-avx2"), 2)
    stage = kernel.schedule.stages[0]
    (axis,) = stage.intrinsics
    known = stage.intrinsics[axis]
    stage.intrinsics[axis] = TensorIntrin(
        "gemm", known.declaration, known.operands, known.scopes, clears=False
    )
    with pytest.raises(LoweringError, match="A processor has no intrinsic gemm"):
        emit_kernel(ll.Module("test"), kernel)
