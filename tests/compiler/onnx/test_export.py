"""Exported models: onnxruntime runs them, and gives what the interpreter gives."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import onnx
import pytest

from tests.compiler.onnx.running import Array
from tests.compiler.onnx.test_nodes import OPERATORS, as_array, bound, cases_of, refusal
from tests.compiler.passes.nets import assert_same, random_net, run
from vdla.compiler.graph import Graph, Node, Tensor, import_tflite
from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo import resnet18, sample_image
from vdla.errors import ModelError
from vdla.runtime.cli.light import drawn_model
from vdla.runtime.cli.peer import peer_outputs
from vdla.runtime.cli.topologies import largest_steps

TFLITE = {
    "resnet8_float": ("mlperf_tiny/resnet8_float.tflite", "images/cifar10_test_500.npz", "images"),
    "resnet8": ("mlperf_tiny/resnet8_int8.tflite", "images/cifar10_test_500.npz", "images"),
    "vww": ("mlperf_tiny/vww96_int8.tflite", "images/imagenet_sample_100.npz", "images_96"),
    "mobilenet": (
        "coral/mobilenet_v1_0.25_128_quant.tflite",
        "images/imagenet_sample_100.npz",
        "images_128",
    ),
}
# What each export consists of, beside the quantization: counted in the TFLite files.
CONTENTS = {
    "resnet8_float": {"Conv": 9, "Relu": 7, "Add": 3, "Gemm": 1, "Transpose": 1},
    "resnet8": {"Conv": 9, "Add": 3, "Gemm": 1, "Transpose": 1},
    "vww": {"Conv": 27, "Gemm": 1, "Transpose": 1},
    "mobilenet": {"Conv": 28, "Transpose": 1},
}


def pixels(images: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return uint8 pixels as a network takes them."""
    return (images.astype(np.int16) - (128 if dtype == np.int8 else 0)).astype(dtype)


def largest_step(graph: Graph, model: onnx.ModelProto, image: Array) -> int:
    return max(largest_steps(graph, model, image).values())


@pytest.mark.parametrize("network", sorted(TFLITE))
def test_onnxruntime_agrees_on_tflite_networks(network: str, shared_data) -> None:
    file, archive, images = TFLITE[network]
    graph = import_tflite(shared_data / file)
    model = export_onnx(graph)
    onnx.checker.check_model(model, full_check=True)
    counts = Counter(node.op_type for node in model.graph.node)
    assert {op: counts[op] for op in CONTENTS[network]} == CONTENTS[network]
    dtype = graph.tensors["input"].dtype
    image = pixels(np.load(shared_data / archive)[images][:1], dtype)
    if dtype.kind == "f":
        expected = Interpreter(graph).run(image)
        for name, values in peer_outputs(model, {"input": image}).items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-6)
    else:
        assert largest_step(graph, model, image) <= 1


@pytest.mark.slow
def test_onnxruntime_agrees_on_resnet18() -> None:
    graph = resnet18()
    assert largest_step(graph, export_onnx(graph), sample_image()) <= 1
    real = resnet18(quantized=False)
    image = np.random.default_rng(0).normal(0, 1, (1, 224, 224, 3)).astype(np.float32)
    expected = Interpreter(real).run(image)["dense.out"]
    found = peer_outputs(export_onnx(real), {"input": image})["dense.out"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_quantized_weights_are_integers_with_a_scale_a_channel() -> None:
    model = export_onnx(resnet18())
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    makers = {node.output[0]: node for node in model.graph.node}
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 20
    for node in convolutions:
        weight, bias = (makers[name] for name in node.input[1:])
        assert weight.op_type == bias.op_type == "DequantizeLinear"
        values, scale, zero = (constants[name] for name in weight.input)
        assert (values.dtype, zero.dtype, scale.shape) == (np.int8, np.int8, values.shape[:1])
        assert not zero.any()
        assert constants[bias.input[0]].dtype == np.int32
        # The bias counts in products: its scale is the weight's times the input's.
        source = constants[makers[node.input[0]].input[1]]
        np.testing.assert_allclose(constants[bias.input[1]], scale * source, rtol=1e-6)


def test_a_network_read_from_onnx_is_written_without_a_transpose() -> None:
    graph = import_onnx(drawn_model("squeezenet"))
    model = export_onnx(graph)
    assert "Transpose" not in {node.op_type for node in model.graph.node}
    again = import_onnx(model)
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]
    image = np.random.default_rng(2).normal(0, 1, (1, 3, 224, 224)).astype(np.float32)
    first, second = Interpreter(graph).run(image), Interpreter(again).run(image)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_allclose(second[name], first[name], rtol=1e-5)


# Cases of test_nodes that are no test of the export, and why.
NOT_EXPORTED = (
    # Refused: products of plain integers, computed weights of groups.
    "test_convinteger.*|test_convtranspose_group_2.*"
    # Types that onnxruntime or opset 18 has not for the operator: 16-bit integers, booleans.
    "|test_(max|min|quantizelinear|dequantizelinear)_u?int16|test_reduce_max_bool_inputs"
    "|test_(clip|leakyrelu|prelu)_.*expanded"
    # Here onnxruntime keeps an older reading of the rule than onnx's own expectation.
    "|test_resize_downsample_scales_(linear|cubic)_align_corners"
)


@pytest.mark.parametrize("operator", OPERATORS)
def test_onnxruntime_agrees_on_every_operator_exported(operator: str) -> None:
    for case in cases_of(operator):
        if refusal(case) or re.fullmatch(NOT_EXPORTED, case.name):
            continue
        for inputs, outputs in case.data_sets:
            model, given = bound(case, inputs, OPERATORS[operator])
            written = export_onnx(import_onnx(model))
            onnx.checker.check_model(written, full_check=True)
            found = peer_outputs(written, given)
            for info, expected in zip(case.model.graph.output, outputs, strict=True):
                np.testing.assert_allclose(
                    found[info.name], as_array(expected), rtol=1e-3, atol=1e-5
                )


@pytest.mark.parametrize("seed", range(30))
def test_random_networks_survive_the_round_trip(seed: int) -> None:
    graph = random_net(seed)
    model = export_onnx(graph)
    onnx.checker.check_model(model, full_check=True)
    source = np.random.default_rng(1)
    given = {
        name: source.normal(0, 1, graph.tensors[name].shape).astype(np.float32)
        for name in graph.inputs
    }
    expected, found = run(graph), peer_outputs(model, given)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5)
    assert_same(graph, import_onnx(model))


def test_a_quantized_network_survives_the_round_trip() -> None:
    graph = resnet18()
    again = import_onnx(export_onnx(graph))
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]
    for one, other in zip(graph.nodes, again.nodes, strict=True):
        assert one.attrs.get("clip") == other.attrs.get("clip")
        for mine, theirs in zip(graph.input_tensors(one), again.input_tensors(other), strict=True):
            if mine.data is not None:
                np.testing.assert_array_equal(mine.data, theirs.data)
            np.testing.assert_allclose(mine.quant.scale, theirs.quant.scale, rtol=1e-6)
            np.testing.assert_array_equal(mine.quant.zero_point, theirs.quant.zero_point)


def test_what_has_no_form_in_onnx_is_refused_with_all_of_it() -> None:
    attrs = {"block": 2, "padding": ((0, 0), (0, 0)), "value": 0.0}
    nodes = [Node("s", "space_to_depth", ("x",), ("y",), attrs)]
    tensors = [
        Tensor("x", (1, 4, 4, 2), np.dtype(np.float32)),
        Tensor("y", (1, 2, 2, 8), np.dtype(np.float32)),
    ]
    graph = Graph("net", tensors, nodes, ["x"], ["y"])
    with pytest.raises(ModelError, match=r"'net' holds others \(count\): space_to_depth \(1\)"):
        export_onnx(graph)


def test_a_file_is_written(tmp_path) -> None:
    export_onnx(resnet18(), tmp_path / "net.onnx")
    assert onnx.load(tmp_path / "net.onnx").producer_name == "vdla"
    with pytest.raises(ModelError, match="must go to a folder that can be written"):
        export_onnx(resnet18(), tmp_path / "absent" / "net.onnx")
