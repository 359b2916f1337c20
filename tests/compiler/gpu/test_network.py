"""Networks as kernels: every operator in float32, fused groups, whole networks, on PoCL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.compiler.cpu.cases import CASES, Case
from tests.compiler.targets.gpu.on_processor import run_as
from tests.one_operator import network
from vdla.compiler import zoo
from vdla.compiler.gpu import GpuNetwork, compile_network
from vdla.compiler.graph import Graph
from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu import CUDA, METAL, Dialect
from vdla.compiler.zoo.builder import Builder
from vdla.errors import InputError, LoweringError
from vdla.runtime.gpu_network import place_network
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray

OF_INTEGERS = {"dequantize", "quantize"}
MOST_CASES = 3
"""Of an operator: PoCL takes half a second for a kernel. All others are made, and not run."""
RTOL = 1e-5
"""Sums are in another order than the interpreter's, and functions of floats others'."""
RTOL_HALF = 2e-3
"""Half floats are rounded once here, and after every step there."""


def _of_floats(case: Case) -> bool:
    moving = [tensor for tensor in case.graph.tensors.values() if not tensor.is_constant]
    dtypes = {str(tensor.dtype) for tensor in moving}
    return "float32" in dtypes <= {"float32", "bool"}


def _of_halves(case: Case) -> bool:
    moving = [tensor for tensor in case.graph.tensors.values() if not tensor.is_constant]
    dtypes = {str(tensor.dtype) for tensor in moving}
    return "float16" in dtypes <= {"float16", "float32", "bool"}


FLOATS = {op: kept for op, cases in CASES.items() if (kept := list(filter(_of_floats, cases)))}
HALVES = {op: kept for op, cases in CASES.items() if (kept := list(filter(_of_halves, cases)))}


def _spread(cases: list[Case]) -> list[Case]:
    """Return some of the cases: the first, the last, and what lies between."""
    steps = np.linspace(0, len(cases) - 1, min(MOST_CASES, len(cases)))
    return [cases[k] for k in sorted(set(steps.round().astype(int).tolist()))]


def _close(found: Array, want: Array, case: str) -> None:
    assert (found.dtype, found.shape) == (want.dtype, want.shape), case
    if want.dtype == bool:
        np.testing.assert_array_equal(found, want, err_msg=case)
        return
    size = np.abs(want[np.isfinite(want)], dtype=np.float64).max(initial=1e-3)
    rtol = RTOL_HALF if want.dtype == np.float16 else RTOL
    np.testing.assert_allclose(found, want, rtol, rtol / 10 * min(size, 100), err_msg=case)


def test_every_operator_of_floats_is_here() -> None:
    assert set(CASES) - set(FLOATS) == OF_INTEGERS


@pytest.mark.parametrize("op", FLOATS)
def test_an_operator_equals_the_interpreter(op: str, pocl: OpenClDevice) -> None:
    _check_cases(FLOATS[op], pocl)


@pytest.mark.parametrize("op", HALVES)
def test_an_operator_of_halves_equals_the_interpreter(op: str, pocl: OpenClDevice) -> None:
    _check_cases(HALVES[op], pocl)


def test_integers_become_half_floats(pocl: OpenClDevice) -> None:
    # What is computed in float64 on the way is rounded to float32 first.
    for case in _spread(CASES["dequantize"]):
        given = dict(zip(case.graph.inputs, case.values, strict=True))
        with np.errstate(over="ignore"):
            want = Interpreter(case.graph).run(given)["out"]
        made = compile_network(case.graph, dtype="float16")
        found = place_network(made, pocl).run(given)["out"]
        within = np.abs(want) <= np.finfo(np.float16).max  # of scales that are drawn, not all
        assert within.any()
        np.testing.assert_allclose(found[within], want[within], 2**-10, 2**-24, err_msg=str(case))


def _check_cases(cases: list[Case], pocl: OpenClDevice) -> None:
    for case in cases:
        made = compile_network(case.graph)
        if case not in _spread(cases):
            continue
        given = dict(zip(case.graph.inputs, case.values, strict=True))
        with np.errstate(all="ignore"):
            want = Interpreter(case.graph).run(given)["out"]
        _close(place_network(made, pocl).run(given)["out"], want, str(case))


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("op", ["concat", "conv_transpose2d", "max_pool2d"])
def test_other_sources_equal_the_interpreter(op: str, dialect: Dialect, tmp_path: Path) -> None:
    case = FLOATS[op][1]
    given = dict(zip(case.graph.inputs, case.values, strict=True))
    made = compile_network(case.graph)
    (call,) = made.calls
    arrays = [(given | dict(made.constants))[name] for name in call.arrays[:-1]]
    with np.errstate(all="ignore"):
        want = Interpreter(case.graph).run(given)["out"]
    _close(run_as(dialect, call.kernel, *arrays, folder=tmp_path), want, str(case))


def test_what_has_no_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise LoweringError("A grid must have blocks.")

    monkeypatch.setattr("vdla.compiler.gpu.parts.build_kernel", refuse)
    message = r"No kernel can be made of exp 'exp': A grid must have blocks\."
    with pytest.raises(LoweringError, match=message):
        compile_network(network("exp", [np.zeros(4, np.float32)]))


def _block() -> Graph:
    """Return a network of odd sizes: two blocks alike, a pool, a product."""
    net = Builder("block", (2, 13, 11, 3))
    x = net.conv("stem", "input", 12, 3, 2, (0.0, np.inf), same=True)
    for number in ("1", "2"):
        y = net.depthwise(f"wide{number}", x, 1, (0.0, 6.0))
        y = net.conv(f"narrow{number}", y, 12, 1)
        x = net.add(f"sum{number}", x, y)
    x = net.max_pool("pool", x, 3, 2, 1)
    return net.finish(net.dense("classes", net.mean("mean", x), 10))


def _image(graph: Graph) -> dict[str, Array]:
    (name,) = graph.inputs
    drawn = np.random.default_rng(4).normal(size=graph.tensors[name].shape)
    return {name: drawn.astype(np.float32)}


def _operators(made: GpuNetwork) -> list[str]:
    """Return which tensors of the graph are written, in order."""
    return [call.arrays[-1].removesuffix(".out") for call in made.calls]


def test_what_follows_a_tile_is_computed_on_it() -> None:
    made = compile_network(_block())
    operators = _operators(made)
    assert operators == ["stem", "wide1", "sum1", "wide2", "sum2", "pool", "mean", "classes"]
    # The second block is the first one on other weights.
    _, *first, third, fourth, _, _, _ = made.calls
    for one, other in zip(first, (third, fourth), strict=True):
        assert one.kernel is other.kernel
        assert not set(one.arrays) & set(other.arrays) - {"sum1.out"}
    assert len(made.kernels) == len(made.calls) - 2


def test_activations_share_memory_and_never_overlap_while_they_live() -> None:
    made = compile_network(_block())
    assert made.arena_bytes < sum(region.size for region in made.regions.values())
    for call in made.calls:
        taken = [made.regions[name] for name in call.arrays if name in made.regions]
        for k, one in enumerate(taken):
            for other in taken[k + 1 :]:
                apart = (one.offset + one.size, other.offset + other.size)
                assert apart[0] <= other.offset or apart[1] <= one.offset


def _peer(model: onnx.ModelProto, values: Mapping[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = zip(session.get_inputs(), values.values(), strict=True)
    return session.run(None, {one.name: value for one, value in feeds})


def _check(
    graph: Graph,
    model: onnx.ModelProto,
    device: OpenClDevice,
    tolerance: float = 1e-4,
    dtype: str = "float32",
) -> None:
    values = _image(graph)
    ran = place_network(compile_network(graph, dtype=dtype), device)
    for _ in range(2):  # the second time over what the first has left
        for found, want in zip(ran.run(values).values(), _peer(model, values), strict=True):
            assert (found.dtype, found.shape) == (want.dtype, want.shape)
            assert np.abs(found - want).max() <= tolerance * np.abs(want).max()
            np.testing.assert_array_equal(found.argmax(-1), want.argmax(-1))


def _of_rounding(graph: Graph) -> float:
    """Return how far a network in halves may be from one in float32, of the largest output.

    Weights and activations are each rounded by up to 2^-11 of themselves, at every convolution and
    product. Where no layer makes relative errors larger, the first order is their sum.
    """
    layers = [n for n in graph.nodes if n.op in ("conv2d", "depthwise_conv2d", "dense")]
    return 2 * (len(layers) + 1) * 2.0**-11


def test_a_network_of_odd_sizes_is_onnxruntimes(pocl: OpenClDevice, tmp_path: Path) -> None:
    model = export_onnx(_block())
    onnx.save(model, tmp_path / "block.onnx")
    graph = import_onnx(tmp_path / "block.onnx")
    _check(graph, model, pocl)
    _check(graph, model, pocl, _of_rounding(graph), "float16")


def test_a_network_in_halves_holds_half_the_bytes() -> None:
    single, half = (compile_network(_block(), dtype=dtype) for dtype in ("float32", "float16"))
    sizes = [sum(array.nbytes for array in made.constants.values()) for made in (single, half)]
    assert sizes[0] == 2 * sizes[1]
    assert {t.dtype for t in half.graph.tensors.values()} == {np.dtype("f2"), np.dtype("f4")}
    edges = {*half.graph.inputs, *half.graph.outputs}
    assert {t.name for t in half.graph.tensors.values() if t.dtype == np.float32} == edges


def test_only_floats_of_two_sizes_are_known() -> None:
    with pytest.raises(InputError, match=r"must be in float16 or float32, not in float64\."):
        compile_network(_block(), dtype="float64")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_a_network_is_onnxruntimes(name: str, dtype: str, pocl: OpenClDevice) -> None:
    graph = getattr(zoo, name)(quantized=False)
    tolerance = 1e-4 if dtype == "float32" else _of_rounding(graph)
    _check(graph, export_onnx(graph), pocl, tolerance, dtype)
