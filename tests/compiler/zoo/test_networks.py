"""The other built-in networks: figures as published, integers as they were when written."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from vdla.compiler.reference import Interpreter
from vdla.compiler.zoo import (
    BUILT_IN,
    built_in,
    mobilenet_v1,
    mobilenet_v2,
    resnet34,
    resnet50,
    sample_image,
)
from vdla.errors import ModelError

# Multiply-accumulates as torchvision gives them (_ops of its weights, in units of 10**9, rounded)
# and as the MobileNet papers count them; parameters as published, which count a gain and an
# offset for each channel of a batch norm where a folded network has one bias.
PUBLISHED = [
    (resnet34, 3.664e9, 21_797_672),
    (resnet50, 4.089e9, 25_557_032),
    (mobilenet_v1, 0.569e9, 4_231_976),
    (mobilenet_v2, 0.301e9, 3_504_872),
]


@pytest.mark.parametrize(("make", "macs", "parameters"), PUBLISHED)
def test_work_and_parameters_are_those_published(make, macs, parameters):
    graph = make(quantized=False)
    assert sum(graph.macs(n) for n in graph.nodes) == pytest.approx(macs, abs=0.5e6)
    constants = [t for t in graph.tensors.values() if t.is_constant]
    normalized = sum(
        graph.tensors[n.inputs[2]].size for n in graph.nodes if n.op.endswith("conv2d")
    )
    assert sum(t.size for t in constants) + normalized == parameters
    assert graph.tensors["dense.out"].shape == (1, 1000)


def test_strides_stand_where_they_should():
    graph = resnet50(quantized=False)
    assert graph.node("layer2_0_conv1").attrs["strides"] == (1, 1)
    assert graph.node("layer2_0_conv2").attrs["strides"] == (2, 2)
    graph = mobilenet_v2(quantized=False)
    assert graph.tensors["block17_project.out"].shape == (1, 7, 7, 320)
    assert graph.node("conv1").attrs["padding"] == ((0, 1), (0, 1))  # SAME of 224 by 2


# CRC-32 of scales, zero points, weights and biases, and of the outputs on sample_image(1).
PINNED = {
    "mobilenet_v1": (3170250668, 175860467),
    "mobilenet_v2": (3620970750, 1268469517),
    "resnet34": (4225447593, 2636553568),
    "resnet50": (683559527, 3903669637),
}


@pytest.mark.parametrize("name", PINNED)
def test_nothing_moves(name):
    graph = built_in(name)
    constants = 0
    for tensor in graph.tensors.values():
        if tensor.quant is not None:
            scale = tensor.quant.scale.astype(np.float32)
            constants = zlib.crc32(scale.tobytes(), constants)
            constants = zlib.crc32(tensor.quant.zero_point.tobytes(), constants)
        if tensor.data is not None:
            constants = zlib.crc32(tensor.data.tobytes(), constants)
    values = Interpreter(graph).run(sample_image(1), keep_all=True)
    outputs = zlib.crc32(values["dense.out"].tobytes())
    assert (constants, outputs) == PINNED[name]
    for node in graph.nodes:
        found = values[node.outputs[0]]
        assert found.dtype == np.int8
        # Spread over the codes; rectified at 6, a tenth may stand at the upper end.
        assert np.unique(found).size > 100, node.name
        assert (found == 127).mean() < 0.1, node.name
    source = graph.tensors["input"].quant
    assert source.scale[0] * 255 == pytest.approx(2.64 + 2.1179, rel=1e-6)


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(ModelError, match="must be one of digits, .*, not 'resnet51'"):
        built_in("resnet51")
    assert sorted(BUILT_IN) == list(BUILT_IN)
