"""The four classes of operators and what fuses with what."""

from __future__ import annotations

import numpy as np

from tests.networks import Draft, residual
from vdla.compiler.graph import FusionClass, Graph, Node, Tensor
from vdla.compiler.passes.groups import fusion_groups
from vdla.compiler.zoo import resnet18


def names(graph: Graph) -> list[list[str]]:
    return [[node.name for node in group.nodes] for group in fusion_groups(graph)]


def floats(*nodes: tuple[str, str, str], outputs: tuple[str, ...]) -> Graph:
    """Return a graph over (1, 4) floats: ``(output, op, inputs)`` each."""
    shape, attrs = (1, 4), {"clip": (0.0, np.inf), "rounding": "double"}
    made = [
        Node(
            out,
            op,
            tuple(inputs.split()),
            (out,),
            {"softmax": {"axis": 1, "beta": 1.0}, "mean": MEAN}.get(op, attrs),
        )
        for out, op, inputs in nodes
    ]
    tensors = [Tensor(name, shape, np.dtype(np.float32)) for name in ["x", *(n[0] for n in nodes)]]
    return Graph("floats", tensors, made, ["x"], outputs)


MEAN = {"axes": (), "keep_dims": True, "rounding": "double"}


def test_an_addition_joins_the_later_convolution() -> None:
    assert names(residual())[:3] == [["stem"], ["body", "sum"], ["down"]]


def test_in_resnet18_every_addition_joins_a_convolution() -> None:
    groups = [group for group in names(resnet18()) if len(group) > 1]
    assert len(groups) == 8
    assert ["layer1_0_conv2", "layer1_0_add"] in groups
    assert ["layer2_0_downsample", "layer2_0_add"] in groups


def test_injective_operators_make_one() -> None:
    graph = floats(("a", "relu", "x"), ("b", "relu", "a"), ("c", "add", "b x"), outputs=("c",))
    assert names(graph) == [["a", "b", "c"]]


def test_what_is_read_twice_or_by_the_caller_ends_its_group() -> None:
    twice = floats(("a", "relu", "x"), ("b", "relu", "a"), ("c", "add", "a b"), outputs=("c",))
    assert names(twice) == [["a"], ["b", "c"]]
    seen = floats(("a", "relu", "x"), ("b", "relu", "a"), outputs=("a", "b"))
    assert names(seen) == [["a"], ["b"]]


def test_an_opaque_operator_stays_alone() -> None:
    graph = floats(("a", "relu", "x"), ("b", "softmax", "a"), ("c", "relu", "b"), outputs=("c",))
    assert names(graph) == [["a"], ["b"], ["c"]]


def test_a_reduction_takes_injective_producers_and_no_consumers() -> None:
    graph = floats(("a", "relu", "x"), ("b", "mean", "a"), ("c", "relu", "b"), outputs=("c",))
    found = fusion_groups(graph)
    assert [[n.name for n in g.nodes] for g in found] == [["a", "b"], ["c"]]
    assert found[0].fusion is FusionClass.REDUCTION


def test_a_reduction_does_not_join_a_convolution() -> None:
    net = Draft("net", (1, 4, 4, 16))
    graph = net.finish(net.average("mean", net.conv("conv", "input", 16)))
    assert names(graph) == [["conv"], ["mean"]]


def test_groups_stand_in_an_order_in_which_they_can_run() -> None:
    made: set[str] = set()
    graph = resnet18()
    ready = {t.name for t in graph.tensors.values() if t.is_constant} | set(graph.inputs)
    for group in fusion_groups(graph):
        for node in group.nodes:
            assert set(node.inputs) <= ready | made
            made |= set(node.outputs)
