"""Heavy operators on floats and plain integers, on the host and by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_operator import network, outcome, quant
from vdla.compiler.graph import Quant

FREE = {"clip": (-np.inf, np.inf), "rounding": "double"}
WINDOW = {"dilation": (1, 1), "padding": ((0, 0), (0, 0)), "strides": (1, 1)}


def floats(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def evaluate(op: str, inputs: list[np.ndarray], **attrs: Any) -> np.ndarray:
    """Return what ONNX Runtime gives for one operator."""
    onnx = pytest.importorskip("onnx", reason="pip install vdla[host] brings onnx")
    runtime = pytest.importorskip("onnxruntime", reason="pip install vdla[dev] brings onnxruntime")
    names = [f"x{k}" for k in range(len(inputs))]
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, ["y"], **attrs)],
        op,
        [onnx.helper.make_tensor_value_info(name, kind, None) for name in names],
        [onnx.helper.make_tensor_value_info("y", kind, None)],
    )
    opsets = [onnx.helper.make_opsetid("", 19)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = runtime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, dict(zip(names, inputs, strict=True)))[0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("op", ["mean", "reduce_max", "reduce_sum"])
def test_reductions(op: str, keep: bool, dtype: str) -> None:
    tolerance = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    truth = {"mean": np.mean, "reduce_max": np.max, "reduce_sum": np.sum}[op]
    rounding = {"rounding": "double"} if op == "mean" else {}
    for shape, axes in (
        ((5,), (0,)),
        ((2, 3), (0, 1)),
        ((1, 4, 5, 6), (1, 2)),
        ((2, 3, 4), (1,)),
        ((2, 3, 4), ()),
        ((), ()),
    ):
        x = floats(shape, dtype)
        attrs = {"axes": axes, "keep_dims": keep, **rounding}
        want = truth(x.astype(np.float64), axis=axes, keepdims=keep)
        found = outcome(network(op, [x], attrs), x)
        np.testing.assert_allclose(found, want, tolerance, tolerance)


def test_plain_integers_are_reduced_modulo_their_type() -> None:
    x = np.array([[100, 100, -3], [50, -128, 7]], np.int8)
    attrs = {"axes": (1,), "keep_dims": False}
    assert outcome(network("reduce_sum", [x], attrs), x).tolist() == [197 - 256, -71]
    assert outcome(network("reduce_max", [x], attrs), x).tolist() == [100, 50]
    flags = np.array([[True, False], [False, False]])
    assert outcome(network("reduce_max", [flags], attrs), flags).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_softmax_along_any_axis(dtype: str) -> None:
    for shape, axis in (((4,), 0), ((2, 3), 0), ((1, 3, 4, 5), 1), ((1, 3, 4, 5), 3)):
        x = floats(shape, dtype) * np.asarray(5, dtype)
        power = np.exp(1.5 * x.astype(np.float64))
        want = power / power.sum(axis, keepdims=True)
        found = outcome(network("softmax", [x], {"axis": axis, "beta": 1.5}), x)
        np.testing.assert_allclose(found, want, 5e-3 if dtype == "float16" else 1e-5, 1e-6)


def test_softmax_of_integers_along_another_axis() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, 3)).astype(np.int8)
    quants = [quant(0.05, 7), quant(1 / 256, -128)]
    found = outcome(network("softmax", [x], {"axis": 1, "beta": 1.0}, quants=quants), x)
    power = np.exp(0.05 * x)
    want = power / power.sum(1, keepdims=True)
    assert np.abs((found.astype(float) + 128) / 256 - want).max() <= 0.51 / 256


@pytest.mark.parametrize("size", [1, 3, 5, 11])
def test_local_responses(size: int) -> None:
    x = floats((2, 3, 4, 7))
    attrs = {"alpha": 0.3, "beta": 0.6, "bias": 1.7, "size": size}
    want = evaluate("LRN", [x.transpose(0, 3, 1, 2)], **attrs).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(outcome(network("lrn", [x], attrs), x), want, 1e-5, 1e-6)


def test_an_even_window_of_channels_reaches_further_after() -> None:
    x = np.float32([[1, 2, 3, 4, 5]])
    attrs = {"alpha": 4.0, "beta": 1.0, "bias": 1.0, "size": 4}
    # The squares of one channel before to two after.
    sums = [1 + 4 + 9, 1 + 4 + 9 + 16, 4 + 9 + 16 + 25, 9 + 16 + 25, 16 + 25]
    want = [[value / (1 + total) for value, total in zip([1, 2, 3, 4, 5], sums, strict=True)]]
    np.testing.assert_allclose(outcome(network("lrn", [x], attrs), x), want, 1e-6)


MATRICES = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((1, 3, 4), (7, 4, 1)),
    ((6, 3, 4), (4,)),
    ((4,), (6, 4, 3)),
]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8"])
def test_matrix_products(dtype: str) -> None:
    source = np.random.default_rng(0)
    for left, right in MATRICES:
        a, b = (source.integers(0, 5, shape).astype(dtype) for shape in (left, right))
        found = outcome(network("matmul", [a, b]), a, b)
        want = np.matmul(a.astype(np.int64), b.astype(np.int64))
        np.testing.assert_array_equal(found, want.astype(dtype))


def test_products_of_wide_integers_wrap_around() -> None:
    a = np.array([[1 << 40, 3]], np.int64)
    b = np.array([[1 << 40], [5]], np.int64)  # 2**80 is 0 modulo 2**64
    assert outcome(network("matmul", [a, b]), a, b).tolist() == [[15]]
    a = np.array([[1 << 30, 1 << 30]], np.int32)
    b = np.array([[2], [2]], np.int32)
    assert outcome(network("matmul", [a, b]), a, b).tolist() == [[0]]
    a, b = a.astype(np.int64), b.astype(np.int64) << 22  # more than a double holds
    b[0, 0] += 1
    assert outcome(network("matmul", [a, b]), a, b).tolist() == [[(1 << 54) + (1 << 30)]]


TRANSPOSED = [
    # channels, outputs, groups, window, strides, dilation, crop, output padding
    (3, 4, 1, (3, 3), (1, 1), (1, 1), ((0, 0), (0, 0)), (0, 0)),
    (3, 2, 1, (3, 2), (2, 3), (1, 1), ((1, 1), (0, 1)), (1, 0)),
    (4, 6, 2, (2, 3), (2, 2), (1, 2), ((0, 1), (1, 1)), (0, 1)),
    (5, 5, 5, (4, 4), (2, 2), (1, 1), ((1, 1), (1, 1)), (0, 0)),
    (2, 3, 1, (1, 1), (3, 3), (1, 1), ((0, 0), (0, 0)), (2, 2)),
    (2, 2, 1, (2, 2), (1, 1), (3, 2), ((2, 1), (1, 0)), (0, 0)),
    (2, 2, 1, (3, 3), (2, 2), (1, 1), ((0, 2), (2, 0)), (1, 1)),
]


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: Any) -> None:
    channels, outputs, groups, window, strides, dilation, crop, extra = case
    x, bias = floats((2, 4, 5, channels)), floats((outputs,), seed=1)
    weight = floats((channels, outputs // groups, *window), seed=2)
    want = evaluate(
        "ConvTranspose",
        [x.transpose(0, 3, 1, 2), weight, bias],
        dilations=dilation,
        group=groups,
        output_padding=extra,
        pads=[pair[k] for k in (0, 1) for pair in crop],
        strides=strides,
    ).transpose(0, 2, 3, 1)
    ohwi = np.concatenate([w.transpose(1, 2, 3, 0) for w in np.split(weight, groups)])
    attrs = {
        **FREE,
        "dilation": dilation,
        "groups": groups,
        "output_padding": extra,
        "padding": crop,
        "strides": strides,
    }
    found = outcome(network("conv_transpose2d", [x, ohwi, bias], attrs, constant=[1, 2]), x)
    np.testing.assert_allclose(found, want, 1e-4, 1e-5)


def test_a_quantized_transposed_convolution() -> None:
    source = np.random.default_rng(0)
    x = source.integers(-128, 128, (1, 3, 4, 4)).astype(np.int8)
    weight = source.integers(-127, 128, (6, 3, 3, 2)).astype(np.int8)
    bias = source.integers(-500, 500, 6).astype(np.int32)
    scale = np.float32([0.5, 0.25, 1, 2, 0.125, 0.3]) / 100
    quants = [quant(0.1, 5), Quant(scale, np.zeros(6), 0), None, quant(0.2, -3)]
    attrs = {
        "clip": (-128, 127),
        "dilation": (1, 1),
        "groups": 2,
        "output_padding": (1, 1),
        "padding": ((1, 1), (1, 1)),
        "rounding": "double",
        "strides": (2, 2),
    }
    graph = network(
        "conv_transpose2d",
        [x, weight, bias],
        attrs,
        constant=[1, 2],
        quants=quants,
        dtype="int8",
    )
    found = outcome(graph, x)
    exact = np.zeros((1, 8, 10, 6))  # before a margin of 1 is cropped
    for h, w, i, j, o in np.ndindex(3, 4, 3, 3, 6):
        part = x[0, h, w, 2 * (o // 3) : 2 * (o // 3) + 2].astype(int) - 5
        exact[0, 2 * h + i, 2 * w + j, o] += part @ weight[o, i, j].astype(int)
    real = (exact[:, 1:7, 1:9] + bias) * (0.1 * scale.astype(float) / 0.2) - 3
    want = np.clip(real, -128, 127)
    assert found.shape == want.shape
    assert np.abs(found - want).max() <= 0.51
    assert len(np.unique(found)) > 50


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d", "dense"])
@pytest.mark.parametrize("top", [5, 1 << 14, 1 << 28])
def test_sums_of_products_of_plain_integers(op: str, top: int) -> None:
    source = np.random.default_rng(0)
    x = source.integers(-top, top, (1, 4, 5, 3)).astype(np.int32)
    shape = {"conv2d": (2, 2, 3, 3), "depthwise_conv2d": (1, 2, 3, 6), "dense": (2, 3)}[op]
    weight = source.integers(-top, top, shape).astype(np.int32)
    bias = source.integers(-9, 9, 6 if op == "depthwise_conv2d" else 2).astype(np.int32)
    attrs: dict[str, Any] = {"keep_dims": True} if op == "dense" else dict(WINDOW)
    attrs |= {"clip": (-(1 << 31), (1 << 31) - 1), "rounding": "double"}
    found = outcome(network(op, [x, weight, bias], attrs, constant=[1, 2]), x)
    sums = np.zeros(found.shape, object)
    wide, factors = x.astype(object), weight.astype(object)
    for place in np.ndindex(*found.shape):
        _, h, w, o = place
        if op == "dense":
            sums[place] = wide[0, h, w] @ factors[o]
            continue
        for i, j in np.ndindex(2, 3):
            if op == "conv2d":
                sums[place] += wide[0, h + i, w + j] @ factors[o, i, j]
            else:
                sums[place] += wide[0, h + i, w + j, o // 2] * factors[0, i, j, o]
    want = (sums + bias.astype(object) + (1 << 31)) % (1 << 32) - (1 << 31)
    np.testing.assert_array_equal(found, want.astype(np.int64))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_convolutions_of_other_floats(dtype: str) -> None:
    x, weight = floats((1, 5, 6, 3), dtype), floats((4, 3, 3, 3), dtype, seed=1)
    attrs = {**FREE, **WINDOW, "strides": (2, 1), "padding": ((1, 1), (1, 0))}
    found = outcome(network("conv2d", [x, weight], attrs, constant=[1]), x)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 0), (0, 0))).astype(np.float64)
    for h, w in np.ndindex(*found.shape[1:3]):
        patch = padded[0, 2 * h : 2 * h + 3, w : w + 3]
        want = (weight.astype(np.float64) * patch).sum((1, 2, 3))
        tolerance = 3e-3 if dtype == "float16" else 1e-12
        np.testing.assert_allclose(found[0, h, w], want, tolerance, tolerance * 4)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float64"])
def test_maxima_of_other_numbers(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 200, (1, 5, 6, 2)).astype(dtype)
    limits = (-np.inf, np.inf) if x.dtype.kind == "f" else (0, 255)
    attrs = {"clip": limits, "padding": ((1, 0), (0, 1)), "strides": (2, 2), "window": (2, 3)}
    found = outcome(network("max_pool2d", [x], attrs), x)
    for h, w in np.ndindex(*found.shape[1:3]):
        part = x[0, max(2 * h - 1, 0) : 2 * h + 1, 2 * w : 2 * w + 3]
        np.testing.assert_array_equal(found[0, h, w], part.max((0, 1)))


def test_floats_are_quantized_to_even_where_asked() -> None:
    x = np.float32([0.25, 0.75, -0.25, -0.75, 1.25, 100])
    quants = [None, quant(0.5, 0)]
    for rounding, want in (
        ("even", [0, 2, 0, -2, 2, 127]),
        ("double", [1, 2, -1, -2, 3, 127]),
    ):
        graph = network("quantize", [x], {"rounding": rounding}, quants=quants, dtype="int8")
        assert outcome(graph, x).tolist() == want


@pytest.mark.parametrize("axis", [0, 1])
def test_scales_along_an_axis(axis: int) -> None:
    x = floats((3, 3)) * 20
    scale, zero = np.float32([0.5, 0.1, 2]), np.array([0, 10, -5])
    along = (-1, 1) if axis == 0 else (1, -1)
    per_axis = Quant(scale, zero, axis)
    graph = network("quantize", [x], {"rounding": "even"}, quants=[None, per_axis], dtype="int8")
    steps = np.rint(x / scale.reshape(along)) + zero.reshape(along)
    q = np.clip(steps, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(outcome(graph, x), q)
    graph = network("dequantize", [q], quants=[per_axis, None], dtype="float32")
    want = (q.astype(np.int64) - zero.reshape(along)) * scale.reshape(along).astype(np.float64)
    np.testing.assert_array_equal(outcome(graph, q), want.astype(np.float32))


def test_a_scalar_is_quantized() -> None:
    x = np.array(1.3, np.float32)
    graph = network(
        "quantize", [x], {"rounding": "even"}, quants=[None, quant(0.5, 3)], dtype="int8"
    )
    found = outcome(graph, x)
    assert (found.shape, found.tolist()) == ((), 6)
    graph = network("dequantize", [found], quants=[quant(0.5, 3), None], dtype="float32")
    assert outcome(graph, found).tolist() == 1.5
