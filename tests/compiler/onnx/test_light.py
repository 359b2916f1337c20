"""The networks that onnx ships: all are read, and those that run in seconds give its outputs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from tests.compiler.onnx.running import DATA, run_on_host
from vdla.compiler.onnx import import_onnx
from vdla.runtime.cli.light import drawn_model
from vdla.runtime.cli.peer import peer_outputs

# How many of the heavy operators each has, counted from the files with onnx alone.
NETWORKS = {
    "bvlc_alexnet": {"conv2d": 5, "dense": 3, "lrn": 2},
    "densenet121": {"conv2d": 121, "concat": 58},
    "inception_v1": {"conv2d": 57, "dense": 1, "concat": 9},
    "inception_v2": {"conv2d": 69, "dense": 1, "concat": 10},
    "resnet50": {"conv2d": 53, "dense": 1},
    "shufflenet": {"dense": 1},
    "squeezenet": {"conv2d": 26, "concat": 8},
    "vgg19": {"conv2d": 16, "dense": 3},
    "zfnet512": {"conv2d": 5, "dense": 3, "lrn": 2},
}


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_every_light_network_is_read_as_one_run_of_nhwc_operators(name: str) -> None:
    path = DATA / "light" / f"light_{name}.onnx"
    # Equal weights make equal branches, which would become one.
    graph = import_onnx(path, without=["common_subexpressions"])
    counts = Counter(node.op for node in graph.nodes)
    assert {op: counts[op] for op in NETWORKS[name]} == NETWORKS[name]
    convolutions = counts["conv2d"] + counts["depthwise_conv2d"]
    assert convolutions == sum(n.op_type == "Conv" for n in onnx.load(path).graph.node)
    # The caller's NCHW image is brought to NHWC; ShuffleNet moves channels in its 16 units.
    assert counts["transpose"] == (17 if name == "shufflenet" else 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
)
def test_networks_agree_with_onnxruntime(name: str) -> None:
    model = drawn_model(name)
    graph = import_onnx(model)
    shape = graph.tensors[graph.inputs[0]].shape
    image = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    expected = peer_outputs(model, {graph.inputs[0]: image})
    outputs = run_on_host(graph, {graph.inputs[0]: image})
    assert outputs.keys() == expected.keys()
    for output, values in expected.items():
        peak = np.abs(values).max()
        np.testing.assert_allclose(outputs[output], values, rtol=1e-3, atol=1e-5 * peak)
