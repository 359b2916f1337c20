"""Convolutions of few channels laid out anew: the same sums, more lanes at work."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.configs import MATRIX
from tests.networks import Draft, images_for, residual
from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.network import compile_graph
from vdla.compiler.network.placement import placements
from vdla.compiler.network.thin import space_to_depth, unfold, widen_thin_convolutions
from vdla.compiler.ops import Scheduling
from vdla.compiler.reference import Interpreter
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.database import built_in as known_by_vdla
from vdla.compiler.tune.task import Record, Task
from vdla.compiler.zoo import built_in, resnet18
from vdla.config import PYNQ_Z1, Config


def thin(
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    dilation: tuple[int, int] = (1, 1),
    dtype: str = "int8",
) -> Graph:
    """Return one convolution of (1, 13, 11, 3) to 5 channels, its weights' zero point not 0."""
    source = np.random.default_rng(3)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    levels = source.integers(low, high, (5, *window, 3), endpoint=True).astype(dtype)
    zero = 0 if dtype == "int8" else 119
    size = [
        (side + sum(padding[k]) - dilation[k] * (window[k] - 1) - 1) // strides[k] + 1
        for k, side in enumerate((13, 11))
    ]
    quants = [
        Quant(np.array([scale], np.float32), np.array([point]))
        for scale, point in ((0.1, low + 7), (0.01, zero), (0.2, low + 100))
    ]
    tensors = [
        Tensor("x", (1, 13, 11, 3), np.dtype(dtype), quants[0]),
        Tensor("w", levels.shape, levels.dtype, quants[1], levels),
        Tensor("y", (1, *size, 5), np.dtype(dtype), quants[2]),
    ]
    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "rounding": "double"}
    node = Node("conv", "conv2d", ("x", "w"), ("y",), {**attrs, "clip": (low, high)})
    return Graph("thin", tensors, [node], ["x"], ["y"])


CASES = [
    *product(((7, 7), (3, 3), (2, 5)), ((2, 2), (3, 3)), (((0, 0), (0, 0)), ((1, 1), (0, 1)))),
    ((3, 3), (1, 2), ((1, 1), (1, 1))),
    ((3, 3), (1, 1), ((1, 0), (1, 1))),
]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("window", "strides", "padding"), CASES)
def test_both_forms_give_the_same_sums(window, strides, padding, dtype) -> None:
    graph = thin(window, strides, padding, dtype=dtype)
    source = np.random.default_rng(4)
    limits = np.iinfo(dtype)
    images = source.integers(limits.min, limits.max, (2, 13, 11, 3), endpoint=True).astype(dtype)
    want = Interpreter(graph).run(images)["y"]
    node = graph.nodes[0]
    forms = [unfold(graph, node), space_to_depth(graph, node)]
    assert (forms[1] is None) == (strides[0] == 1 or reaches_less_than_the_image(graph))
    for form in filter(None, forms):
        np.testing.assert_array_equal(Interpreter(form).run(images)["y"], want)


def reaches_less_than_the_image(graph: Graph) -> bool:
    """Whether some last rows or columns are in no square that a window needs."""
    attrs, taps = graph.nodes[0].attrs, graph.tensors["w"].shape[1:3]
    return any(
        (graph.tensors["y"].shape[1 + k] - 1 + -(-taps[k] // attrs["strides"][k]))
        * attrs["strides"][k]
        < graph.tensors["x"].shape[1 + k] + attrs["padding"][k][0]
        for k in range(2)
    )


def test_a_dilated_window_unfolds_and_has_no_squares() -> None:
    graph = thin((3, 3), (2, 2), ((1, 1), (1, 1)), dilation=(2, 1))
    images = np.random.default_rng(5).integers(-128, 128, (1, 13, 11, 3)).astype(np.int8)
    unfolded = unfold(graph, graph.nodes[0])
    np.testing.assert_array_equal(
        Interpreter(unfolded).run(images)["y"], Interpreter(graph).run(images)["y"]
    )
    assert space_to_depth(graph, graph.nodes[0]) is None


def test_resnet18_unfolds_its_first_convolution_and_keeps_its_macs() -> None:
    graph = resnet18()
    placed = placements(graph, PYNQ_Z1)
    widened = widen_thin_convolutions(graph, PYNQ_Z1, placed, Scheduling())
    assert [node.name for node in widened.graph.nodes[:2]] == ["conv1.unfold", "conv1"]
    assert widened.macs == {"conv1": 112 * 112 * 64 * 7 * 7 * 3}


@pytest.mark.parametrize("network", ["resnet18", "mobilenet_v1"])
def test_all_forms_of_a_first_convolution_were_searched_before(network: str) -> None:
    class Asked(Database):
        def find(self, task: Task, network: str = "") -> Record | None:
            asked.append(task)
            return known_by_vdla().find(task, network)

    asked: list[Task] = []
    graph = built_in(network)
    widen_thin_convolutions(graph, PYNQ_Z1, placements(graph, PYNQ_Z1), Scheduling(records=Asked()))
    assert len({task.key for task in asked}) == 3
    assert all(known_by_vdla().find(task) for task in asked)


@pytest.mark.parametrize("place", [{"stem": "cpu"}, {}])
def test_what_stays_on_the_cpu_is_left_alone(place: dict[str, str]) -> None:
    module = compile_graph(residual(), PYNQ_Z1, place=place)
    names = [layer.name for layer in module.layers]
    assert ("stem.unfold" in names) == (not place)


def test_a_thin_convolution_between_others_on_vdla_is_left_alone() -> None:
    net = Draft("narrow", (1, 6, 6, 16))
    graph = net.finish(net.conv("wide", net.conv("narrow", "input", 3), 16))
    assert [layer.name for layer in compile_graph(graph, PYNQ_Z1).layers] == ["narrow", "wide"]


@pytest.mark.parametrize("config", MATRIX, ids=lambda c: c.name)
def test_the_rewritten_network_equals_the_original(config: Config) -> None:
    from vdla.runtime import api

    graph = residual()
    images = images_for(graph, 2)
    run = api.compile(graph, config=config).run(images, device="functional", check=True)
    assert run.bit_exact, run.first_difference
    (got,), (want,) = run.outputs.values(), Interpreter(graph).run(images).values()
    np.testing.assert_array_equal(got, want)
