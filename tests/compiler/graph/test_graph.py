"""What a graph refuses, and what it answers."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.graph import OPS, FusionClass, Graph, Node, Quant, Tensor
from vdla.errors import ModelError

INT8 = np.dtype(np.int8)
RELU = {"clip": (0, 127), "rounding": "double"}


def quant(scale=1.0, zero_point=0):
    return Quant(np.float32([scale]), np.array([zero_point]))


def tensor(name, shape=(1, 4), dtype=INT8):
    return Tensor(name, shape, dtype, quant())


def relu(name, source, target):
    return Node(name, "relu", (source,), (target,), RELU)


def graph(nodes, tensors="xyz", inputs=("x",), outputs=("z",)):
    return Graph("g", [tensor(name) for name in tensors], nodes, inputs, outputs)


CHAIN = [relu("first", "x", "y"), relu("second", "y", "z")]


def test_a_chain():
    chain = graph(CHAIN)
    assert chain.producer("z").name == "second"
    assert chain.producer("x") is None
    assert [n.name for n in chain.consumers("y")] == ["second"]
    assert chain.consumers("z") == ()
    assert chain.node("first").outputs == ("y",)
    assert chain.output_tensor(chain.nodes[1]).name == "z"
    assert chain.macs(chain.nodes[0]) == 0


def test_a_consumer_that_reads_twice_is_listed_once():
    attrs = {"clip": (-128, 127), "rounding": "double"}
    twice = graph([Node("a", "add", ("x", "x"), ("z",), attrs)], "xz")
    assert [n.name for n in twice.consumers("x")] == ["a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tensors": "xy"}, "must lead to a tensor of the graph; 'z' is not in 'g'. Add"),
        ({"tensors": "xyzz"}, "Tensor names must be unique; 'z' is used more than once. Rename"),
        ({"nodes": [CHAIN[0], relu("first", "y", "z")]}, "Node names must be unique; 'first'"),
        ({"nodes": CHAIN[::-1]}, "'second' reads 'y' before it is computed. Sort the nodes"),
        ({"nodes": [relu("a", "z", "y"), relu("b", "y", "z")]}, "or break the cycle"),
        ({"nodes": [*CHAIN, relu("third", "x", "z")]}, "must have one source; 'z' has 2. Give"),
        ({"nodes": CHAIN[1:]}, "'second' reads 'y', which nothing computes. Make it a graph in"),
        ({"nodes": CHAIN[:1]}, "Every graph output must have a source; nothing computes 'z'"),
        (
            {"nodes": [Node("a", "cumsum", ("x",), ("z",), {})]},
            r"must be one of add, .*, not 'cumsum' \(node 'a'\)",
        ),
        (
            {"nodes": [Node("a", "relu", ("x", "y"), ("z",), RELU)], "inputs": ("x", "y")},
            "'a' has 2 inputs and 1 outputs",
        ),
        (
            {"nodes": [Node("a", "relu", ("x",), ("z",), {"clip": (0, 127)})]},
            "relu has the attributes clip, rounding; node 'a' has clip. Give",
        ),
        (
            {"nodes": [Node("a", "relu", ("x",), ("z",), {**RELU, "rounding": "up"})]},
            "rounding must be 'double' or 'single', not 'up'",
        ),
    ],
)
def test_broken_graphs_are_refused(change, message):
    with pytest.raises(ModelError, match=message):
        graph(**{"nodes": CHAIN, **change})


def test_a_shape_that_does_not_follow_is_refused():
    tensors = [tensor("x"), tensor("z", (1, 5))]
    with pytest.raises(ModelError, match=r"relu node 'a' gives \(1, 4\), not \(1, 5\). Correct"):
        Graph("g", tensors, [relu("a", "x", "z")], ["x"], ["z"])


def test_the_node_is_named_where_a_shape_rule_fails():
    tensors = [tensor("x"), tensor("z", (1, 5))]
    nodes = [Node("r", "reshape", ("x",), ("z",), {"shape": (1, 5)})]
    with pytest.raises(ModelError, match="Node 'r': A reshape must keep the number of elements"):
        Graph("g", tensors, nodes, ["x"], ["z"])


def test_mixed_dtypes_are_refused():
    tensors = [tensor("x"), tensor("z", dtype=np.dtype(np.uint8))]
    with pytest.raises(
        ModelError,
        match="relu node 'a' must have .* one dtype, not int8, uint8. .*put quantize and dequ",
    ):
        Graph("g", tensors, [relu("a", "x", "z")], ["x"], ["z"])


def test_an_unknown_node_is_answered_with_those_there_are():
    with pytest.raises(ModelError, match="not 'third'. 'g' has: first, second"):
        graph(CHAIN).node("third")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tensor("t", (1, -1)), r"'t' has shape \(1, -1\). Export the model with static"),
        (
            lambda: Tensor("t", (2,), INT8, None, np.zeros(3, np.int8)),
            r"'t' is int8\[2\] and its data int8\[3\]",
        ),
        (lambda: quant(0.0), "A scale must be positive and finite, not 0.0. Quantize"),
        (lambda: Quant(np.ones(2, np.float32), np.zeros(1)), "vectors of one length, not of sh"),
        (lambda: Quant(np.ones(2, np.float32), np.zeros(2)), "must have one scale, not 2. Name"),
        (
            lambda: Tensor("t", (3, 4), INT8, Quant(np.ones(2, np.float32), np.zeros(2), 0)),
            r"'t' has shape \(3, 4\), axis 0 and 2 scales",
        ),
    ],
)
def test_broken_tensors_are_refused(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_a_message_gives_the_name_in_the_file():
    assert Tensor("conv2d_0.out", (1,), INT8, None, source="a/b").label == (
        "'conv2d_0.out' ('a/b' in the file)"
    )


def test_fusion_classes():
    of = {op: spec.fusion for op, spec in OPS.items()}
    assert of["conv2d"] is of["dense"] is FusionClass.COMPLEX_OUT_FUSABLE
    assert of["add"] is of["relu"] is FusionClass.INJECTIVE
    assert of["mean"] is of["max_pool2d"] is FusionClass.REDUCTION
    assert of["softmax"] is FusionClass.OPAQUE
