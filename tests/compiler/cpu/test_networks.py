"""Runs as machine code: convolutions of every shape against numpy, networks against others'."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest

from tests.compiler.cpu import running
from tests.compiler.cpu.convolutions import close, convolution, numpy_convolution, run
from tests.compiler.targets.cpu.guarded import ENDS, in_child
from tests.networks import Draft, as_uint8
from vdla.compiler import zoo
from vdla.compiler.cpu.pipeline import CpuCode, compile_runs
from vdla.compiler.cpu.winograd import F2, F4, Algorithm
from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.onnx import export_onnx
from vdla.compiler.targets.cpu.target import host_target

Array = np.ndarray


def compiled(graph: Graph) -> CpuCode:
    return compile_runs(graph, [graph.nodes], host_target())


CONVOLUTIONS = {
    "winograd, whole tiles": ((1, 8, 12, 16), 16, 3, 1, (1, 1)),
    "winograd, shorter last tiles": ((1, 7, 9, 16), 24, 3, 1, (1, 1)),
    "winograd, no margin": ((1, 9, 10, 12), 9, 3),
    "winograd, one margin": ((2, 10, 7, 8), 40, 3, 1, (0, 1)),
    "winograd, four images": ((4, 4, 4, 32), 32, 3, 1, (1, 1)),
    "winograd, many tiles": ((1, 30, 28, 64), 64, 3, 1, (1, 1)),
    "winograd, small tiles": ((2, 5, 7, 344), 344, 3, 1, (1, 1)),
    "pixels in a row": ((2, 14, 13, 20), 24, 3, 2, (1, 1)),
    "pixels in a row, in place": ((1, 7, 7, 32), 40, 1),
    "three channels": ((1, 17, 23, 3), 20, 7, 2, (3, 3)),
    "one pixel": ((1, 1, 1, 32), 40, 1),
    "one channel to one": ((1, 5, 5, 1), 1, 3, 1, (1, 1)),
    "odd channels": ((1, 6, 11, 17), 13, 3, 2, (1, 1)),
    "stride three": ((1, 13, 10, 8), 16, 1, 3),
    "dilation": ((1, 12, 12, 16), 16, 3, 1, (2, 2), 2),
    "margin on one side": ((3, 9, 8, 20), 33, 2, 2, (0, 1)),
    "window of the image": ((2, 5, 5, 24), 10, 5),
    "batch eight": ((8, 3, 3, 16), 16, 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("residual", [False, True], ids=["alone", "added"])
def test_a_convolution_is_numpys_and_stays_inside_its_arrays(name: str, residual: bool) -> None:
    graph = convolution(*CONVOLUTIONS[name], clip=(0.0, 6.0), residual=residual)
    rng = np.random.default_rng(1)
    values = {n: rng.normal(size=graph.tensors[n].shape).astype(np.float32) for n in graph.inputs}
    code, expected = compiled(graph), numpy_convolution(graph, values)

    def check() -> None:
        for at, threads in zip(ENDS, (1, 3), strict=True):
            close(run(code, graph, values, at, threads), expected)

    in_child(check)


WHOLE = {
    "rows": ((1, 8, 12, 16), 24, 3, 1),
    "pixels in a row": ((2, 14, 13, 20), 24, 3, 2),
    "pixels in a row, one channel odd": ((1, 7, 7, 5), 9, 1, 1),
    "one pixel": ((1, 1, 1, 32), 40, 1, 1),
    "stride three": ((1, 13, 10, 7), 16, 5, 3),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_convolution_of_integers_is_the_interpreters_to_the_bit(name: str, kind: str) -> None:
    shape, *convolution = WHOLE[name]
    net = Draft("whole", shape)
    graph = net.finish(net.conv("conv", "input", *convolution))
    graph = graph if kind == "int8" else as_uint8(graph)
    limits = np.iinfo(kind)
    image = np.random.default_rng(4).integers(limits.min, limits.max, shape, kind, endpoint=True)
    values = {graph.inputs[0]: image}
    code = compiled(graph)

    def check() -> None:
        for at, threads in zip(ENDS, (1, 3), strict=True):
            result = run(code, graph, values, at, threads)
            np.testing.assert_array_equal(result, running.expected(graph, [image]))
            assert len(np.unique(result)) > 8 or result.size < 50

    in_child(check)


@pytest.mark.parametrize("by", [F2, F4], ids=["two", "four"])
def test_winograds_matrices_are_a_correlation_exactly(by: Algorithm) -> None:
    """Over a line of pixels d and weights g: A' ((G g) * (B' d)) is the sum of d[k + i] g[i]."""
    exact = np.vectorize(lambda value: Fraction(value).limit_denominator(24), otypes=[object])
    image, sums, weights = (exact(m) for m in (by.of_image, by.of_sums, by.of_weights))
    for k in range(by.read):
        for i in range(3):
            d, g = np.eye(by.read, dtype=int)[k], np.eye(3, dtype=int)[i]
            expected = [int(k == row + i) for row in range(by.tile)]
            assert list(sums @ ((weights @ g) * (image @ d))) == expected


def test_nans_and_infinities_reach_the_outputs_that_read_them_and_no_other() -> None:
    graph = convolution((1, 12, 12, 16), 16, 3, 2, (1, 1))
    values = {"x": np.random.default_rng(2).normal(size=(1, 12, 12, 16)).astype(np.float32)}
    values["x"][0, 2, 3, 5], values["x"][0, 9, 8, 0] = np.nan, np.inf
    result = run(compiled(graph), graph, values, "end", 1)
    reached = np.isfinite(numpy_convolution(graph, values))
    np.testing.assert_array_equal(np.isfinite(result), reached)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    graph = convolution((2, 21, 19, 32), 48, 3, 1, (1, 1))
    values = {"x": np.random.default_rng(3).normal(size=(2, 21, 19, 32)).astype(np.float32)}
    code = compiled(graph)
    alone = run(code, graph, values, "end", 1)
    np.testing.assert_array_equal(run(code, graph, values, "end", threads), alone)


def test_groups_that_differ_in_weights_alone_share_a_kernel() -> None:
    one = convolution((1, 12, 12, 16), 16, 3, 1, (1, 1))
    node, tensors = one.nodes[0], one.tensors
    other = Tensor("w2", tensors["w"].shape, np.dtype(np.float32), data=tensors["w"].data[::-1])
    second = Node("again", "conv2d", ("y", "w2", "b"), ("z",), node.attrs)
    more = [*tensors.values(), other, Tensor("z", tensors["y"].shape, np.dtype(np.float32))]
    two = Graph("two", more, [node, second], ("x",), ("z",))
    assert len(compiled(two).library) < 1.1 * len(compiled(one).library)
    values = {"x": np.random.default_rng(5).normal(size=(1, 12, 12, 16)).astype(np.float32)}
    between = {"x": numpy_convolution(one, values)}
    again = Graph(
        "again",
        [replace(tensors["x"]), other, tensors["b"], tensors["y"]],
        [replace(second, inputs=("x", "w2", "b"), outputs=("y",))],
        ("x",),
        ("y",),
    )
    expected = numpy_convolution(again, between)
    close(run(compiled(two), two, values, "end", 1), expected)


@pytest.mark.parametrize("network", ["resnet18"])
def test_a_network_is_onnxruntimes(network: str) -> None:
    graph = getattr(zoo, network)(quantized=False)
    x = np.random.default_rng(4).normal(size=graph.tensors[graph.inputs[0]].shape)
    x = x.astype(np.float32)
    session = onnxruntime.InferenceSession(
        export_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (given,) = session.get_inputs()
    turned = x if tuple(given.shape) == x.shape else x.transpose(0, 3, 1, 2)
    (expected,) = session.run(None, {given.name: np.ascontiguousarray(turned)})
    result = run(compiled(graph), graph, {graph.inputs[0]: x}, "end", 2)
    assert np.abs(result - expected).max() <= 1e-4 * np.abs(expected).max()
    assert result.argmax() == expected.argmax()
