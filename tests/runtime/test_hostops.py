"""The host's kernels against the interpreter, which shares no code with them."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from tests.compiler.ops.nodes import conv2d
from tests.networks import images_for
from vdla.compiler.graph import Graph, Node, Quant, Tensor, import_tflite
from vdla.compiler.zoo import resnet18, sample_image
from vdla.runtime.hostops.arithmetic import divide_half_away, exact_float, requantize


def on_cpu(graph: Graph, images: np.ndarray) -> None:
    """Run a graph on the cpu alone and compare every layer."""
    place = {node.name: "cpu" for node in graph.nodes}
    run = vdla.compile(graph, place=place).run(images, device="functional", check=True)
    assert run.bit_exact, run.first_difference


@pytest.mark.parametrize("name", ["resnet8_int8", "vww96_int8"])
def test_trained_networks(name: str, shared_data: Path) -> None:
    graph = import_tflite(shared_data / "mlperf_tiny" / f"{name}.tflite")
    on_cpu(graph, images_for(graph, 3))


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(24, 16, 4), (6, 9, 3), (7, 7, 7)])
def test_grouped_convolutions(channels: int, outputs: int, groups: int) -> None:
    graph = conv2d(
        (1, 9, 8, channels),
        outputs,
        (3, 2),
        groups=groups,
        strides=(2, 1),
        dilation=(1, 3),
        pads=((1, 0), (2, 1)),
    )
    on_cpu(graph, np.random.default_rng(0).integers(-128, 128, (3, 9, 8, channels), np.int8))


def test_a_uint8_network(shared_data: Path) -> None:
    graph = import_tflite(shared_data / "coral" / "mobilenet_v1_0.25_128_quant.tflite")
    data = np.load(shared_data / "images" / "imagenet_sample_100.npz")
    on_cpu(graph, data["images_128"][:3])


def test_resnet18() -> None:
    on_cpu(resnet18(), sample_image())


def test_a_float_resnet18() -> None:
    image = np.random.default_rng(0).standard_normal((1, 224, 224, 3)).astype(np.float32)
    on_cpu(resnet18(quantized=False), image)


def one(
    op: str,
    dtypes: tuple[str, str],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    quants: tuple[tuple[float, int] | None, tuple[float, int] | None],
    attrs: dict[str, Any],
) -> Graph:
    """Return a network of one operator with one input."""
    tensors = [
        Tensor(
            n, s, np.dtype(d), None if q is None else Quant(np.float32([q[0]]), np.array([q[1]]))
        )
        for n, s, d, q in zip("xy", shapes, dtypes, quants, strict=True)
    ]
    return Graph(op, tensors, [Node(op, op, ("x",), ("y",), attrs)], ["x"], ["y"])


PIXELS = (1, 5, 4, 3)
CASES = {
    "relu": (("int8", "int8"), ((0.1, 3), (0.03, -7)), {"clip": (-7, 127), "rounding": "double"}),
    "relu6": (("uint8", "uint8"), ((0.1, 3), (0.3, 9)), {"clip": (9, 29), "rounding": "double"}),
    "quantize": (("int8", "int8"), ((0.02, -5), (0.31, 11)), {"rounding": "double"}),
    "dequantize": (("int8", "float32"), ((0.02, -5), None), {}),
    "softmax": (("uint8", "uint8"), ((0.1, 100), (1 / 256, 0)), {"axis": 3, "beta": 0.7}),
}


@pytest.mark.parametrize("op", CASES)
def test_operators_of_one_input(op: str) -> None:
    dtypes, quants, attrs = CASES[op]
    graph = one(op, dtypes, (PIXELS, PIXELS), quants, attrs)
    values = np.random.default_rng(0).integers(0, 256, (4, 5, 4, 3)).astype(np.uint8)
    on_cpu(graph, values.view(dtypes[0]))


def test_real_numbers_are_quantized_half_away_from_zero() -> None:
    shape = (1, 6)
    quants = (None, (0.5, 10))
    graph = one("quantize", ("float32", "int8"), (shape, shape), quants, {"rounding": "double"})
    x = np.array([[0.25, -0.25, 0.75, 1e6, -1e6, 0.2]], np.float32)
    run = vdla.compile(graph).run(x, device="functional")
    np.testing.assert_array_equal(run.outputs["y"], [[11, 9, 12, 127, -128, 10]])


def test_padding_has_a_value() -> None:
    attrs = {"mode": "constant", "paddings": ((0, 0), (1, 0), (0, 2), (0, 0)), "value": -3}
    graph = one("pad", ("int8", "int8"), (PIXELS, (1, 6, 6, 3)), ((1, -3), (1, -3)), attrs)
    images = images_for(graph, 2)
    out = vdla.compile(graph).run(images, device="functional").outputs["y"]
    np.testing.assert_array_equal(out[:, 1:, :4], images)
    assert (out[:, 0] == -3).all()
    assert (out[:, :, 4:] == -3).all()


def half_up(x: Fraction) -> int:
    return floor(x + Fraction(1, 2))


def away(x: Fraction) -> int:
    return half_up(x) if x >= 0 else -half_up(-x)


def test_requantization_is_the_definition_in_fractions() -> None:
    source = np.random.default_rng(0)
    x = source.integers(-(1 << 31), 1 << 31, 4000)
    x[:1000] >>= 20  # ties are more frequent among small numbers
    m = source.integers(1 << 30, 1 << 31, 4000)
    m[::2] = 1 << 30
    shift = source.integers(0, 32, 4000)
    twice = requantize(x, m, shift, "double")
    once = requantize(x, m, shift, "single")
    for a, b, s, double, single in zip(
        *(v.tolist() for v in (x, m, shift, twice, once)), strict=True
    ):
        assert double == away(Fraction(half_up(Fraction(a * b, 1 << 31)), 1 << s))
        assert single == half_up(Fraction(a * b, 1 << (31 + s)))


def test_a_multiplier_above_one_shifts_left_first() -> None:
    x = np.array([3, -3, 100])
    assert requantize(x, 3 << 29, -2, "double").tolist() == [9, -9, 300]


def test_averages_round_half_away() -> None:
    total = np.arange(-50, 51)
    for count in (1, 2, 3, 6, 9):
        found = divide_half_away(total, np.int64(count)).tolist()
        assert found == [away(Fraction(t, count)) for t in total.tolist()]


def test_the_float_that_sums_exactly() -> None:
    assert exact_float(258) is np.float32
    assert exact_float(259) is np.float64
    assert 258 * 255 * 255 < 2**24 <= 259 * 255 * 255
