"""Quantized models become integer operators, each at most a step from onnxruntime's."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compiler.onnx.models import Model, image, mixed_network, quantized
from tests.compiler.onnx.running import Array, node_output, run_on_host
from vdla.compiler.graph import Graph
from vdla.compiler.onnx import import_onnx
from vdla.compiler.passes.sign_integers import MOVEMENTS
from vdla.compiler.reference import Interpreter
from vdla.runtime.cli.peer import peer_outputs

# Activations and weights; the tool makes no other pair.
TYPES = [("QInt8", "QInt8"), ("QUInt8", "QInt8"), ("QUInt8", "QUInt8")]


def values_in(graph: Graph, found: dict[str, Array]) -> dict[str, Array]:
    """Return a model's values as the graph's tensors of the same source hold them."""
    values = {}
    for tensor in graph.tensors.values():
        value = found.get(tensor.source, found.get(tensor.name))
        if value is None or tensor.is_constant:
            continue
        if (value.dtype, tensor.dtype) == (np.uint8, np.int8):
            value = (value.astype(np.int16) - 128).astype(np.int8)
        if value.shape != tensor.shape and value.ndim == 4:
            value = value.transpose(0, 2, 3, 1)
        if (value.shape, value.dtype) == (tensor.shape, tensor.dtype):
            values[tensor.name] = value
    for node in graph.nodes:  # what only moves elements may have no counterpart
        known = all(t.is_constant or t.name in values for t in graph.input_tensors(node))
        if known and node.op in MOVEMENTS and node.outputs[0] not in values:
            values[node.outputs[0]] = node_output(graph, node, values)
    return values


def steps_apart(graph: Graph, model: onnx.ModelProto, x: Array) -> dict[str, int]:
    """Return how far each integer node, fed onnxruntime's inputs, is from its outputs."""
    name = model.graph.input[0].name
    made = [name for node in model.graph.node for name in node.output]
    values = values_in(graph, {**peer_outputs(model, {name: x}, made), name: x})
    apart = {}
    for node in graph.nodes:
        output = graph.output_tensor(node)
        wanted = [t.name for t in (*graph.input_tensors(node), output) if not t.is_constant]
        if output.dtype.kind in "iu" and all(n in values for n in wanted):
            ours = node_output(graph, node, values).astype(int)
            apart[node.name] = int(np.abs(ours - values[output.name]).max())
    return apart


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize(("act", "weight"), TYPES)
@pytest.mark.parametrize("per_channel", [False, True])
def test_every_layer_is_a_step_from_onnxruntime_at_most(
    form: str, act: str, weight: str, per_channel: bool, tmp_path: Path
) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType

    model = quantized(
        mixed_network(),
        tmp_path,
        quant_format=QuantFormat[form],
        activation_type=QuantType[act],
        weight_type=QuantType[weight],
        per_channel=per_channel,
    )
    graph = import_onnx(model)
    x = image(9)
    apart = steps_apart(graph, model, x)
    counts = Counter(graph.node(name).op for name in apart)
    assert counts["conv2d"] + counts["depthwise_conv2d"] == 5
    assert {op: counts[op] for op in ("add", "concat", "dense", "mean")} == {
        "add": 2,
        "concat": 1,
        "dense": 1,
        "mean": 1,
    }
    assert max(apart.values()) <= 1
    floats = [n.op for n in graph.nodes if graph.output_tensor(n).dtype == np.float32]
    assert set(floats) <= {"dequantize", "softmax"}
    found = peer_outputs(model, {"image": x})
    for name, values in Interpreter(graph).run(x).items():
        assert np.abs(values - found[name]).max() < 0.03


def test_a_convolution_between_dequantize_and_quantize_is_one_integer_operator() -> None:
    m = Model()
    x = m.input("x", (1, 2, 4, 4), onnx.TensorProto.UINT8)
    half, zero = m.constant(np.float32(0.5)), m.constant(np.uint8(128))
    weights = np.arange(-18, 18, dtype=np.int8).reshape(2, 2, 3, 3)
    scale = m.constant(np.array([0.25, 0.125], np.float32))
    zeros = m.constant(np.zeros(2, np.int8))
    w = m.node("DequantizeLinear", m.constant(weights), scale, zeros, axis=0)
    bias = m.constant(np.array([1.0, -2.0], np.float32))
    y = m.node("Conv", m.node("DequantizeLinear", x, half, zero), w, bias)
    y = m.node("Relu", y)
    two = m.constant(np.float32(2.0))
    y = m.node("QuantizeLinear", y, two, m.constant(np.uint8(0)))
    graph = import_onnx(m.finish(y, code=onnx.TensorProto.UINT8))
    # The caller's uint8 stays uint8; inside, all is int8.
    assert [n.op for n in graph.nodes] == [
        "quantize",
        "transpose",
        "conv2d",
        "transpose",
        "quantize",
    ]
    (conv,) = (n for n in graph.nodes if n.op == "conv2d")
    data, weight, stored = graph.input_tensors(conv)
    assert (data.dtype, weight.dtype, stored.dtype) == (np.int8, np.int8, np.int32)
    assert int(data.quant.zero_point[0]) == 0
    np.testing.assert_array_equal(weight.data, weights.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(weight.quant.scale, [0.25, 0.125])
    # 1.0 / (0.5 * 0.25) and -2.0 / (0.5 * 0.125).
    np.testing.assert_array_equal(stored.data, [8, -32])
    assert conv.attrs["clip"] == (-128, 127)
    assert conv.attrs["rounding"] == "single"
    values = np.random.default_rng(0).integers(0, 256, (1, 2, 4, 4), np.uint8)
    real = (values.astype(np.float64) - 128) * 0.5
    factors = weights * np.array([0.25, 0.125])[:, None, None, None]
    expected = np.zeros((1, 2, 2, 2))
    for i, j in product(range(2), range(2)):
        patch = real[0, :, i : i + 3, j : j + 3]
        expected[0, :, i, j] = (factors * patch).sum((1, 2, 3)) + [1.0, -2.0]
    expected = np.clip(np.floor(np.maximum(expected, 0) / 2 + 0.5), 0, 255)
    (made,) = Interpreter(graph).run(values).values()
    np.testing.assert_array_equal(made, expected.astype(np.uint8))


def test_what_has_no_integer_form_stays_float_between_two() -> None:
    m = Model()
    x = m.input("x", (1, 8), onnx.TensorProto.INT8)
    scale, zero = m.constant(np.float32(0.05)), m.constant(np.int8(3))
    y = m.node("Tanh", m.node("DequantizeLinear", x, scale, zero))
    y = m.node("QuantizeLinear", y, scale, zero)
    graph = import_onnx(m.finish(y, code=onnx.TensorProto.INT8))
    assert [n.op for n in graph.nodes] == ["dequantize", "tanh", "quantize"]


def test_an_activation_quantized_by_channels_is_dequantized_by_channels() -> None:
    m = Model()
    x = m.input("x", (1, 3, 2, 2), onnx.TensorProto.INT8)
    scale = np.array([0.5, 2.0, 4.0], np.float32)
    zero = np.array([0, 1, -3], np.int8)
    y = m.node("DequantizeLinear", x, m.constant(scale), m.constant(zero), axis=1)
    graph = import_onnx(m.finish(y))
    values = np.arange(12, dtype=np.int8).reshape(1, 3, 2, 2)
    expected = (values - zero[:, None, None].astype(np.float32)) * scale[:, None, None]
    (made,) = Interpreter(graph).run(values).values()
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_signal_is_an_image_of_one_row(per_channel: bool, tmp_path: Path) -> None:
    m = Model()
    x = m.node("Conv", m.input("x", (1, 16, 40)), m.drawn(16, 16, 3), m.drawn(16), pads=[1, 1])
    x = m.node("MaxPool", m.node("Relu", x), kernel_shape=[2], strides=[2])
    model = quantized(
        m.finish(m.node("Conv", x, m.drawn(16, 16, 3))), tmp_path, per_channel=per_channel
    )
    graph = import_onnx(model)
    # No reshape between, and all on integers.
    ops = ["quantize", "reshape", "transpose", "conv2d", "max_pool2d", "conv2d", "reshape"]
    assert [n.op for n in graph.nodes] == [*ops, "transpose", "dequantize"]
    assert {n.op for n in graph.nodes if graph.output_tensor(n).dtype == np.float32} == {
        "dequantize"
    }
    signal = image(9, (1, 16, 40))
    found = peer_outputs(model, {"x": signal})
    for name, values in Interpreter(graph).run(signal).items():
        np.testing.assert_allclose(values, found[name], atol=1e-6)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("act", ["QInt8", "QUInt8"])
def test_integers_are_resized_between_elements(form: str, act: str, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType

    m = Model()
    x = m.node("Conv", m.input("x", (1, 16, 6, 6)), m.drawn(16, 16, 3, 3), m.drawn(16))
    scales = m.constant(np.float32([1, 1, 2, 2]))
    x = m.node("Conv", m.node("Resize", x, "", scales, mode="linear"), m.drawn(8, 16, 1, 1))
    options = {"quant_format": QuantFormat[form], "activation_type": QuantType[act]}
    model = quantized(m.finish(x), tmp_path, **options)
    data = image(9, (1, 16, 6, 6))
    found = peer_outputs(model, {"x": data})
    for name, values in run_on_host(import_onnx(model), {"x": data}).items():
        # In floats a half may be rounded either way, and a step goes through the convolution.
        close = np.abs(values - found[name]) < (0.05 if form == "QDQ" else 1e-6)
        assert close.all()


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_bytes_are_resized_as_onnxs_own_reference_does(mode: str) -> None:
    m = Model()
    x = m.input("x", (1, 3, 5, 4), onnx.TensorProto.UINT8)
    scales = m.constant(np.float32([1, 1, 1.6, 2]))
    graph = import_onnx(m.finish(m.node("Resize", x, "", scales, mode=mode), code=2))
    data = np.random.default_rng(0).integers(0, 256, (1, 3, 5, 4), np.uint8)
    (made,) = run_on_host(graph, {"x": data}).values()
    real = Model()
    scales = real.constant(np.float32([1, 1, 1.6, 2]))
    x = real.input("x", (1, 3, 5, 4))
    model = real.finish(real.node("Resize", x, "", scales, mode=mode))
    (wanted,) = peer_outputs(model, {"x": data.astype(np.float32)}).values()
    # Cubics overshoot; what is beyond a byte is its end.
    np.testing.assert_array_equal(made, np.clip(wanted + 1e-4, 0, 255).astype(np.uint8))
