"""``vdla bench topologies``: networks that onnx ships, against ONNX Runtime."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.networks import images_for, residual
from vdla.compiler.graph import Graph
from vdla.compiler.onnx import export_onnx
from vdla.runtime.cli import topologies
from vdla.runtime.cli.light import TOPOLOGIES, drawn_model, scale_scores, scores_of
from vdla.runtime.cli.peer import peer_outputs

FAST = ("shufflenet", "squeezenet")
# Some operators of each, counted in the files with onnx alone; 62 batch norms of DenseNet precede
# a convolution, behind a concat or a pooling.
ON_VDLA = {
    "bvlc_alexnet": {"conv2d": 5, "dense": 3},
    "densenet121": {"conv2d": 121, "depthwise_conv2d": 62, "avg_pool2d": 3, "concat": 58},
    "inception_v1": {"conv2d": 57, "dense": 1, "concat": 9},
    "inception_v2": {"conv2d": 69, "dense": 1, "avg_pool2d": 8, "concat": 8},
    "resnet50": {"conv2d": 53, "dense": 1, "add": 16},
    "shufflenet": {"conv2d": 33, "depthwise_conv2d": 16, "dense": 1, "add": 13},
    "squeezenet": {"conv2d": 26, "max_pool2d": 3, "concat": 8},
    "vgg19": {"conv2d": 16, "dense": 3, "max_pool2d": 5},
    "zfnet512": {"conv2d": 5, "dense": 3},
}


@pytest.mark.parametrize(
    "name",
    [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in TOPOLOGIES],
)
def test_a_topology_is_within_a_step_of_onnxruntime_everywhere(
    vdla_command: Any, name: str
) -> None:
    outcome = vdla_command("bench", "topologies", name, "--json")
    (row,) = json.loads(outcome.out)["topologies"]
    assert outcome.code == 0
    assert row["name"] == name
    assert row["largest_step"] <= 1
    assert row["bit_exact"] is True
    assert row["same_argmax"] is True
    assert row["cycles"] > 0
    # A convolution or dense layer has one output at least; all of them were compared.
    assert row["layers"] >= sum(ON_VDLA[name].values())
    assert {op: row["vdla_layers"].get(op, 0) for op in ON_VDLA[name]} == ON_VDLA[name]


def test_the_table_has_a_row_and_a_line_for_each(
    vdla_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "name": "squeezenet",
        "layers": 40,
        "largest_step": 1,
        "equal_layers": 0.875,
        "equal_outputs": 1.0,
        "equal_scores": 0.5,
        "equal_scores_peer": 0.25,
        "same_argmax": True,
        "bit_exact": True,
        "vdla_layers": {"conv2d": 26},
        "cpu_layers": {"concat": 8, "softmax": 1},
        "cycles": 1234567,
        "milliseconds": 12.3,
        "compile_cpu_seconds": 7.0,
    }
    found = {"topologies": [row]}
    monkeypatch.setattr(topologies, "measure_topologies", lambda *_, **__: found)
    outcome = vdla_command("bench", "topologies", "squeezenet")
    assert outcome.code == 0
    line = next(line for line in outcome.out.splitlines() if line.startswith("squeezenet "))
    figures = ["1", "88 % of 40", "100.0 %", "50.0 %", "25.0 %", "same", "26", "9", "1,234,567"]
    assert " ".join(line.split()) == " ".join(["squeezenet", *figures, "7.0 s"])
    assert "squeezenet: equal to the integer interpreter; on the cpu: 8 concat, 1 soft" in (
        outcome.out
    )
    row["largest_step"] = 2
    assert vdla_command("bench", "topologies", "squeezenet").code == 1


def test_an_unknown_topology_is_refused(vdla_command: Any) -> None:
    outcome = vdla_command("bench", "topologies", "vgg16")
    assert outcome.code == 2
    assert outcome.err.startswith("vdla: A topology must be one of bvlc_alexnet, densenet121, ")
    assert outcome.err.endswith("zfnet512, not vgg16.\n")


def test_weights_are_drawn_by_what_reads_them() -> None:
    model = drawn_model("shufflenet")
    assert [value.name for value in model.graph.input] == ["gpu_0/data_0"]
    nodes = list(model.graph.node)
    assert "ConstantOfShape" not in {node.op_type for node in nodes}
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}

    first = values[nodes[0].input[1]]  # 3x3 convolution of 3 channels, a ReLU after its batch norm
    assert first.shape == (24, 3, 3, 3)
    assert first.std() == pytest.approx((2 / 27) ** 0.5, rel=0.1)
    depthwise = next(n for n in nodes if n.op_type == "Conv" and values[n.input[1]].shape[1] == 1)
    assert values[depthwise.input[1]].std() == pytest.approx((1 / 9) ** 0.5, rel=0.1)
    dense = values[next(n for n in nodes if n.op_type == "Gemm").input[1]]
    assert dense.std() == pytest.approx((1 / dense.shape[1]) ** 0.5, rel=0.01)

    for node in nodes:
        if node.op_type == "BatchNormalization":
            scale, bias, mean, variance = (values[name] for name in node.input[1:])
            assert min(scale.min(), variance.min()) >= 0.5
            assert max(scale.max(), variance.max()) <= 1.5
            assert max(np.abs(bias).max(), np.abs(mean).max()) < 0.6

    again = drawn_model("shufflenet")
    assert again.SerializeToString() == model.SerializeToString()
    other = drawn_model("shufflenet", seed=1)
    assert other.SerializeToString() != model.SerializeToString()


def test_scores_are_what_the_softmax_reads_and_deviate_by_two() -> None:
    model = drawn_model("squeezenet")
    assert model.graph.node[-1].op_type == "Softmax"
    scores = scores_of(model)
    assert scores == model.graph.node[-1].input[0]
    image = np.random.default_rng(3).normal(0, 1, (1, 3, 224, 224)).astype(np.float32)
    before = peer_outputs(model, {"data_0": image}, [scores])[scores]
    scale_scores(model, before)
    after = peer_outputs(model, {"data_0": image}, [scores])[scores]
    assert after.std() == pytest.approx(2, rel=1e-3)
    np.testing.assert_allclose(after, before * (2 / before.std()), rtol=1e-3, atol=1e-4)
    assert scores_of(drawn_model("densenet121")) == "fc6_1"  # it ends without a softmax


def test_a_layer_that_differs_is_found_and_no_other() -> None:
    graph = residual()
    exported = export_onnx(graph)
    (image,) = images_for(graph, 1)
    image = image[np.newaxis]
    steps = topologies.largest_steps(graph, exported, image)
    assert set(steps) == {node.name for node in graph.nodes}
    assert max(steps.values()) <= 1

    bias = graph.tensors["body.bias"]
    weight, source = graph.tensors["body.weight"], graph.tensors["stem.out"]
    output = graph.tensors["body.out"]
    # Three output steps more for every channel, as a bias counts them.
    step = 3 * output.quant.scale[0] / (weight.quant.scale * source.quant.scale[0])
    moved = replace(bias, data=bias.data + np.rint(step).astype(np.int32))
    tensors = [moved if t.name == bias.name else t for t in graph.tensors.values()]
    changed = Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)
    found = topologies.largest_steps(changed, exported, image)
    assert 2 <= found.pop("body") <= 4
    assert found == {name: step for name, step in steps.items() if name != "body"}
