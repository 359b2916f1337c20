"""Where operators go, what the user may ask for, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.onnx.models import Model, image
from tests.networks import Draft, residual
from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.network import compile_graph
from vdla.compiler.network.host import host_refusal
from vdla.compiler.network.placement import Placement, place_nodes, placements
from vdla.compiler.onnx import import_onnx
from vdla.compiler.quantize import quantize
from vdla.config import PYNQ_Z1
from vdla.errors import ModelError
from vdla.runtime.hostops import KERNELS

DEFAULT = {
    "stem": "vdla",
    "body": "vdla",
    "sum": "vdla",
    "down": "vdla",
    "pool": "vdla",
    "flat": "vdla",
    "dense": "vdla",
    "softmax": "cpu",
}


def test_by_default_all_goes_to_vdla_but_softmax() -> None:
    assert place_nodes(residual(), PYNQ_Z1, None) == DEFAULT


def test_all_of_resnet18_goes_to_vdla() -> None:
    from vdla.compiler.zoo import resnet18

    assert set(place_nodes(resnet18(), PYNQ_Z1, None).values()) == {"vdla"}


def test_the_user_decides() -> None:
    placed = place_nodes(residual(), PYNQ_Z1, {"stem": "cpu", "sum": "cpu"})
    assert placed == {**DEFAULT, "stem": "cpu", "sum": "cpu"}


def test_a_pattern_or_an_operator_means_several() -> None:
    assert place_nodes(residual(), PYNQ_Z1, {"conv2d": "cpu"}) == {
        **DEFAULT,
        **dict.fromkeys(("stem", "body", "down"), "cpu"),
        "sum": "cpu",  # alone between the others it is not worth the way
    }
    placed = place_nodes(residual(), PYNQ_Z1, {"s*": "vdla", "conv2d": "cpu", "body": "vdla"})
    assert (placed["stem"], placed["sum"], placed["body"]) == ("vdla", "vdla", "vdla")
    assert (placed["down"], placed["softmax"]) == ("cpu", "cpu")  # vdla has no softmax


def test_a_name_goes_before_a_pattern_and_a_pattern_before_an_operator() -> None:
    wishes = {"down": "vdla", "d*": "cpu", "conv2d": "vdla"}
    for order in (wishes, dict(reversed(wishes.items()))):
        placed = place_nodes(residual(), PYNQ_Z1, order)
        assert (placed["down"], placed["dense"], placed["body"]) == ("vdla", "cpu", "vdla")


def test_what_costs_more_to_bring_in_than_to_compute_stays_on_the_cpu() -> None:
    net = Draft("lonely", (1, 8, 8, 16))
    pad = net.pad("pad", "input", 1)  # only the cpu pads
    graph = net.finish(net.pad("again", net.add("sum", pad, pad), 1))
    assert set(place_nodes(graph, PYNQ_Z1, None).values()) == {"cpu"}
    assert place_nodes(graph, PYNQ_Z1, {"sum": "vdla"})["sum"] == "vdla"
    assert place_nodes(graph, PYNQ_Z1, {"add": "vdla"})["sum"] == "vdla"


def test_a_view_follows_its_input() -> None:
    placed = place_nodes(residual(), PYNQ_Z1, {"pool": "cpu"})
    assert (placed["pool"], placed["flat"], placed["dense"]) == ("cpu", "cpu", "vdla")


def test_a_dense_layer_takes_an_image_as_it_lies() -> None:
    net = Draft("flatten", (1, 4, 4, 16))
    graph = net.finish(net.dense("fc", net.conv("a", "input", 16), 10))
    assert place_nodes(graph, PYNQ_Z1, None) == {"a": "vdla", "fc": "vdla"}


def test_tensors_that_are_no_images_stay_on_the_cpu() -> None:
    quant = Quant(np.float32([1]), np.array([0]))
    tensors = [Tensor(name, (1, 7, 16), np.dtype(np.int8), quant) for name in "xy"]
    relu = Node("relu", "relu", ("x",), ("y",), {"clip": (0, 127), "rounding": "double"})
    assert place_nodes(Graph("g", tensors, [relu], ["x"], ["y"]), PYNQ_Z1, None) == {"relu": "cpu"}
    two = [Tensor(name, (2, 7), np.dtype(np.int8), quant) for name in "xy"]
    graph = Graph("g", two, [relu], ["x"], ["y"])
    assert place_nodes(graph, PYNQ_Z1, None) == {"relu": "cpu"}
    with pytest.raises(ModelError, match=r"vdla: 'x' has the shape \(2, 7\), neither NHWC nor NC"):
        place_nodes(graph, PYNQ_Z1, {"relu": "vdla"})


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            {"nosuch": "cpu", "dense": "cpu"},
            "pattern or operator; 'nosuch' means none, or one that is folded into another. "
            "'residual' has: stem.unfold, stem, body, sum, down, pool, flat, dense, softmax",
        ),
        (
            {"soft*": "vdla"},
            r"must mean nodes that can run there; of 'soft\*' none can run on vdla: softmax: the "
            r"accelerator has no softmax\. Leave it out; what can is: stem, body, sum, down, ",
        ),
        ({"dense": "gpu"}, r"must be 'cpu' or 'vdla', not 'gpu' \(of 'dense'\)"),
        (
            {"softmax": "vdla"},
            r"only where it can run; 'softmax' \(softmax\) cannot run on vdla: the accelerator has "
            r"no softmax\. Leave it out of place\.",
        ),
        (
            {"pool": "cpu", "flat": "vdla"},
            r"'flat' \(reshape\) cannot run on vdla: it is a view of a tensor that is not on vdla",
        ),
    ],
)
def test_an_impossible_wish_is_refused(place: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        compile_graph(residual(), PYNQ_Z1, place=place)


def test_the_files_own_names_mean_nodes_too() -> None:
    m = Model()
    x = m.input("image", (1, 16, 8, 8))
    y = m.node("Relu", m.node("Conv", x, m.drawn(16, 16, 3, 3), m.drawn(16)))
    model = m.finish(m.node("Conv", y, m.drawn(16, 16, 1, 1), m.drawn(16)))
    graph = quantize(import_onnx(model), image(shape=(1, 16, 8, 8)), report=False).graph
    sources = {node.source: node.name for node in graph.nodes if node.op == "conv2d"}
    assert sources == {"n0": "conv2d_0", "n2": "conv2d_2"}  # as Model names nodes
    for key in ("n2", "n[2]"):
        placed = place_nodes(graph, PYNQ_Z1, {key: "cpu", "conv2d": "vdla"})
        assert (placed["conv2d_0"], placed["conv2d_2"]) == ("vdla", "cpu")
    with pytest.raises(ModelError, match=r"'n1' means none, or one .* has: .*conv2d_0 \(n0\)"):
        place_nodes(graph, PYNQ_Z1, {"n1": "cpu"})


def test_why_a_node_is_not_on_vdla_is_known() -> None:
    net = Draft("lonely", (1, 8, 8, 16))
    pad = net.pad("pad", "input", 1)
    graph = net.finish(net.pad("again", net.add("sum", pad, pad), 1))
    assert placements(graph, PYNQ_Z1)["sum"] == Placement(
        "cpu",
        "the cpu computes it in less time than packing and unpacking its tensors would take",
        None,
    )
    found = placements(residual(), PYNQ_Z1, {"stem": "cpu", "d*": "vdla"})
    assert found["stem"] == Placement("cpu", "place asks for it on the cpu", None)
    assert found["dense"] == Placement("vdla", None, None)


def test_a_network_that_nothing_takes_is_refused_with_all_of_it() -> None:
    quant = Quant(np.float32([1]), np.array([0]))
    tensors = [
        Tensor("x", (1, 4), np.dtype(np.int32), quant),
        Tensor("y", (1, 4), np.dtype(np.int32), quant),
        Tensor("z", (1, 4), np.dtype(np.int32), quant),
    ]
    relu = {"clip": (0, 127), "rounding": "double"}
    nodes = [
        Node("first", "relu", ("x",), ("y",), relu),
        Node("second", "softmax", ("y",), ("z",), {"axis": 1, "beta": 1.0}),
    ]
    with pytest.raises(ModelError) as caught:
        compile_graph(Graph("odd", tensors, nodes, ["x"], ["z"]), PYNQ_Z1)
    text = str(caught.value)
    assert "of 'odd', 2 of 2 can run on neither (index, name, reasons)" in text
    assert "0 first (relu): vdla: " in text
    assert "; cpu: 'x' is int32 with a scale, not one of int8, uint8" in text
    assert "1 second (softmax): vdla: the accelerator has no softmax; cpu: 'y' is int32" in text


@pytest.mark.parametrize(
    ("tensors", "node", "reason"),
    [
        (
            [("x", (1, 4), "int8", 1.0), ("y", (4,), "int8", 2.0)],
            Node("a", "reshape", ("x",), ("y",), {"shape": (4,)}),
            "it must keep the scale and zero point of 'x'",
        ),
        (
            [("x", (1, 4), "int8", 1.0), ("y", (4, 1), "int8", None)],
            Node("a", "transpose", ("x",), ("y",), {"perm": (1, 0)}),
            "it must keep the scale and zero point of 'x'",
        ),
        (
            [("x", (4,), "complex64", None), ("y", (4,), "complex64", None)],
            Node("a", "maximum", ("x", "x"), ("y",), {}),
            "'x' is complex64, not one of bool, int8, int16, int32, int64, uint8, uint16, uint32, "
            "uint64, float16, float32, float64",
        ),
        (
            [("x", (4,), "int8", 1.0), ("y", (4,), "int8", 1.0)],
            Node("a", "mul", ("x", "x"), ("y",), {}),
            "'x' is quantized, and mul computes on real numbers",
        ),
        (
            [("x", (4,), "int64", None), ("y", (), "int64", None)],
            Node(
                "a",
                "mean",
                ("x",),
                ("y",),
                {"axes": (0,), "keep_dims": False, "rounding": "double"},
            ),
            "'x' is int64 without scale and zero point",
        ),
        (
            [("x", (1, 4), "int8", None), ("y", (1, 4), "int8", 1.0)],
            Node("a", "softmax", ("x",), ("y",), {"axis": 1, "beta": 1.0}),
            "'x' is int8 without scale and zero point",
        ),
    ],
)
def test_what_the_host_does_not_take(
    tensors: list[tuple[str, tuple[int, ...], str, float | None]], node: Node, reason: str
) -> None:
    made = [
        Tensor(n, s, np.dtype(d), None if q is None else Quant(np.float32([q]), np.array([0])))
        for n, s, d, q in tensors
    ]
    assert host_refusal(Graph("g", made, [node], ["x"], ["y"]), node) == reason


def test_the_host_has_a_kernel_for_every_operator() -> None:
    from vdla.compiler.graph import OPS

    assert set(KERNELS) == set(OPS)
