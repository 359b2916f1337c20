"""Real files, and files broken in each way that has a message."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
import tflite

from vdla.compiler.graph import import_tflite
from vdla.errors import ModelError


class Patch:
    """A copy of a TFLite file whose fields can be overwritten in place."""

    def __init__(self, model: bytes) -> None:
        self.data = bytearray(model)
        self.model = tflite.Model.GetRootAsModel(bytes(model), 0)
        self.graph = self.model.Subgraphs(0)

    def scalar(self, table, field, layout, value):
        """Overwrite scalar field number `field`; the file must hold it."""
        offset = table._tab.Offset(4 + 2 * field)
        assert offset, "the field has its default and takes no bytes"
        struct.pack_into(layout, self.data, table._tab.Pos + offset, value)

    def element(self, table, field, index, layout, value):
        """Overwrite one element of vector field number `field`."""
        start = table._tab.Vector(table._tab.Offset(4 + 2 * field))
        struct.pack_into(layout, self.data, start + index * struct.calcsize(layout), value)

    def length(self, table, field, value):
        """Overwrite the length of vector field number `field`."""
        self.element(table, field, -1, "<I", value)

    def drop(self, table, field):
        """Make field number `field` absent in every table that shares the vtable."""
        vtable = table._tab.Pos - struct.unpack_from("<i", self.data, table._tab.Pos)[0]
        struct.pack_into("<H", self.data, vtable + 4 + 2 * field, 0)

    def options(self, operator):
        """Return the table of an operator's options."""
        table = tflite.Conv2DOptions()
        union = self.graph.Operators(operator).BuiltinOptions()
        table.Init(union.Bytes, union.Pos)
        return table


# Field numbers in TFLite's schema.
MODEL_SUBGRAPHS = 2
CODE_DEPRECATED, CODE_BUILTIN = 0, 3
TENSOR_SHAPE, TENSOR_TYPE, TENSOR_QUANTIZATION = 0, 1, 4
QUANT_SCALE, QUANT_ZERO_POINT = 2, 3
GRAPH_INPUTS, GRAPH_OPERATORS = 1, 3
CONV_STRIDE_W, CONV_ACTIVATION = 1, 3


@pytest.fixture
def patch(network):
    return Patch(network)


@pytest.fixture
def load(tmp_path):
    def load(data):
        path = tmp_path / "net.tflite"
        path.write_bytes(bytes(data))
        return import_tflite(path)

    return load


def test_the_network_of_the_tests(load, network):
    graph = load(network)
    assert graph.name == "net"
    assert [n.name for n in graph.nodes] == [
        "conv2d_0",
        "depthwise_conv2d_1",
        "add_2",
        "max_pool2d_3",
        "mean_4",
        "dense_5",
        "softmax_6",
    ]
    assert graph.nodes[0].inputs == ("input", "conv2d_0.weight", "conv2d_0.bias")
    assert graph.nodes[2].inputs == ("depthwise_conv2d_1.out", "conv2d_0.out")
    assert graph.tensors["conv2d_0.weight"].quant.axis == 0
    assert graph.tensors["depthwise_conv2d_1.weight"].quant.axis == 3
    assert graph.nodes[0].attrs == {
        "strides": (2, 2),
        "padding": ((1, 1), (1, 1)),
        "dilation": (1, 1),
        "clip": (-128, 127),
        "rounding": "double",
    }
    assert graph.nodes[4].attrs == {"axes": (1, 2), "keep_dims": False, "rounding": "double"}
    # The axes of the mean became an attribute.
    assert all(t.dtype != np.int32 or "bias" in t.name for t in graph.tensors.values())


def test_resnet8(shared_data):
    graph = import_tflite(shared_data / "mlperf_tiny" / "resnet8_int8.tflite")
    ops = [n.op for n in graph.nodes]
    assert (ops.count("conv2d"), ops.count("add"), len(ops)) == (9, 3, 16)
    # 432*1024 + 2*2304*1024 + 4608*256 + 9216*256 + 512*256 + 18432*64 + 36864*64 + 2048*64 + 640
    assert sum(graph.macs(n) for n in graph.nodes) == 12501632
    assert graph.tensors["input"].quant.zero_point == [-128]
    assert graph.tensors["conv2d_0.weight"].quant.scale.size == 16
    assert graph.node("conv2d_4").attrs["padding"] == ((0, 1), (0, 1))
    assert graph.node("dense_14").attrs["rounding"] == "single"
    assert graph.tensors["add_3.out"].source == "model/activation_2/Relu;model/add/add"


def test_visual_wake_words(shared_data):
    graph = import_tflite(shared_data / "mlperf_tiny" / "vww96_int8.tflite")
    ops = [n.op for n in graph.nodes]
    assert (ops.count("conv2d"), ops.count("depthwise_conv2d")) == (14, 13)
    assert graph.tensors["dense_29.out"].shape == (1, 2)


def test_uint8_mobilenet(shared_data):
    graph = import_tflite(shared_data / "coral" / "mobilenet_v1_0.25_128_quant.tflite")
    first = graph.nodes[0]
    assert graph.tensors["conv2d_0.weight"].quant.zero_point == [157]
    assert first.attrs["clip"] == (0, 255)  # RELU6 at scale 6/255
    assert graph.outputs == ("softmax_30.out",)


def test_float_resnet8(shared_data):
    graph = import_tflite(shared_data / "mlperf_tiny" / "resnet8_float.tflite")
    assert graph.tensors["conv2d_0.weight"].dtype == np.float32
    assert graph.nodes[0].attrs["clip"] == (0.0, np.inf)
    assert graph.nodes[2].attrs["clip"] == (-np.inf, np.inf)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelError, match="must be a readable file, not .*no.tflite: No such file"):
        import_tflite(tmp_path / "no.tflite")


def test_another_format_is_refused(load):
    with pytest.raises(ModelError, match=r"must carry 'TFL3' in bytes 4..7, not b'\\x04\\x05"):
        load(bytes(range(64)))
    with pytest.raises(ModelError, match=r"not b''.*Check that the download is whole"):
        load(b"")


def test_a_file_cut_short_is_refused_wherever_it_is_cut(load, network):
    for size in range(8, len(network) - 8, 37):
        with pytest.raises(ModelError, match="must lead inside it|must be|must have|must hold"):
            load(network[:size])


def test_a_cut_file_says_so(load, network):
    with pytest.raises(ModelError, match=r"\(2000 bytes\) one does not.* cut short or damaged"):
        load(network[:2000])


def test_damage_is_refused_or_harmless(load, network):
    source = random.Random(0)
    messages = []
    for _ in range(300):
        data = bytearray(network)
        for _ in range(4):
            data[source.randrange(8, len(data))] = source.randrange(256)
        try:
            load(data)
        except ModelError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert min(map(len, messages)) > 40


def test_every_unknown_operator_is_listed_with_its_place(load, patch):
    for code in range(patch.model.OperatorCodesLength()):
        table = patch.model.OperatorCodes(code)
        if table.BuiltinCode() in (tflite.BuiltinOperator.CONV_2D, tflite.BuiltinOperator.MEAN):
            patch.scalar(table, CODE_DEPRECATED, "<b", tflite.BuiltinOperator.TANH)
            patch.scalar(table, CODE_BUILTIN, "<i", tflite.BuiltinOperator.TANH)
    rule = r"must be one of ADD, .*SQUEEZE; .*\(index and name\): 0 TANH, 4 TANH. Rewrite"
    with pytest.raises(ModelError, match=rule):
        load(patch.data)


def test_operators_past_the_schema_are_named_by_number(load, patch):
    patch.scalar(patch.model.OperatorCodes(0), CODE_BUILTIN, "<i", 9999)
    with pytest.raises(ModelError, match="0 builtin 9999. Rewrite"):
        load(patch.data)


def test_several_subgraphs_are_refused(load, patch):
    patch.length(patch.model, MODEL_SUBGRAPHS, 2)
    with pytest.raises(ModelError, match="must hold one subgraph, not 2 .*without control flow"):
        load(patch.data)


def test_missing_quantization_is_refused(load, patch):
    patch.drop(patch.graph.Tensors(0), TENSOR_QUANTIZATION)
    rule = r"8-bit tensor must have a scale and a zero point; 'x' of .* \(int8\) has none. Quant"
    with pytest.raises(ModelError, match=rule):
        load(patch.data)


@pytest.mark.parametrize("axis", [1, 3])
def test_open_shapes_are_refused(load, patch, axis):
    patch.element(patch.graph.Tensors(0), TENSOR_SHAPE, axis, "<i", -1)
    with pytest.raises(ModelError, match=r"known but for the batch; tensor 'x' .*-1.*fixed input"):
        load(patch.data)


def test_a_constant_that_does_not_fill_its_shape_is_refused(load, patch):
    weight = patch.graph.Operators(0).Inputs(1)
    patch.element(patch.graph.Tensors(weight), TENSOR_SHAPE, 0, "<i", 9)
    rule = r"stored whole: 243 bytes for int8\[9, 3, 3, 3\], not 216 \(tensor 'c0_w'"
    with pytest.raises(ModelError, match=rule):
        load(patch.data)


def test_an_activation_of_the_wrong_shape_is_refused(load, patch):
    output = patch.graph.Operators(0).Outputs(0)
    patch.element(patch.graph.Tensors(output), TENSOR_SHAPE, 1, "<i", 6)
    with pytest.raises(ModelError, match=r"node 'conv2d_0' gives \(1, 5, 5, 8\), not \(1, 6, 5"):
        load(patch.data)


def test_dtypes_that_no_operator_takes_are_refused(load, patch):
    patch.scalar(patch.graph.Tensors(0), TENSOR_TYPE, "<b", tflite.TensorType.INT16)
    with pytest.raises(ModelError, match="int8, uint8, int32 or float32, not INT16 .tensor 'x'"):
        load(patch.data)


def test_a_zero_point_outside_the_dtype_is_refused(load, patch):
    quant = patch.graph.Tensors(0).Quantization()
    patch.element(quant, QUANT_ZERO_POINT, 0, "<q", 128)
    with pytest.raises(ModelError, match=r"value of its tensor's dtype int8, not 128..128"):
        load(patch.data)


def test_a_scale_of_zero_is_refused(load, patch):
    patch.element(patch.graph.Tensors(0).Quantization(), QUANT_SCALE, 0, "<f", 0.0)
    with pytest.raises(ModelError, match="A scale must be positive and finite, not 0.0"):
        load(patch.data)


def test_a_fused_activation_that_is_no_clip_is_refused(load, patch):
    patch.scalar(patch.options(0), CONV_ACTIVATION, "<b", tflite.ActivationFunctionType.TANH)
    rule = r"Operator 0 \(CONV_2D\): .*RELU6, RELU_N1_TO_1 or none, not TANH. Make it an operator"
    with pytest.raises(ModelError, match=rule):
        load(patch.data)


def test_a_stride_of_zero_is_refused(load, patch):
    patch.scalar(patch.options(0), CONV_STRIDE_W, "<i", 0)
    with pytest.raises(ModelError, match=r"Operator 0 \(CONV_2D\): .*strides .* at least 1"):
        load(patch.data)


def test_a_tensor_index_outside_the_file_is_refused(load, patch):
    patch.element(patch.graph, GRAPH_INPUTS, 0, "<i", 1000)
    with pytest.raises(ModelError, match="must lead inside it.*tensor 1000 of"):
        load(patch.data)


def test_a_vector_longer_than_the_file_is_refused_at_once(load, patch):
    patch.length(patch.graph, GRAPH_OPERATORS, 1 << 30)
    with pytest.raises(ModelError, match="must lead inside it.*a vector of 1073741824 entries"):
        load(patch.data)
