"""Dense layers that flatten an image."""

from __future__ import annotations

import pytest

import vdla
from tests.configs import MATRIX
from tests.networks import Draft, images_for
from vdla.compiler.graph import Graph
from vdla.compiler.network import compile_graph
from vdla.compiler.passes.fold_flatten import fold_flatten
from vdla.config import PYNQ_Z1, Config


def flattening(size: tuple[int, int] = (5, 3), channels: int = 20) -> Graph:
    net = Draft("flatten", (1, *size, 20))
    x = net.conv("a", "input", channels)
    x = net.reshape("flat", x, (1, size[0] * size[1] * channels))
    return net.finish(net.dense("fc", x, 10))


@pytest.mark.parametrize("config", MATRIX, ids=lambda c: c.name)
def test_a_flattened_image_is_read_where_it_lies(config: Config) -> None:
    graph = flattening()
    run = vdla.compile(graph, config=config).run(images_for(graph, 3), check=True)
    assert run.bit_exact, run.first_difference
    places = {x["name"]: x["device"] for x in run.summary()["layers"]}
    assert "flat" not in places
    assert places["fc"] == "vdla"


def test_it_is_one_program() -> None:
    assert len(compile_graph(flattening((7, 7), 64), PYNQ_Z1).programs) == 1


def test_a_flattened_image_that_others_read_stays() -> None:
    graph = flattening()
    both = Graph("both", graph.tensors, graph.nodes, graph.inputs, ["flat.out", "fc.out"])
    nodes = {node.name: node for node in fold_flatten(both).nodes}
    assert nodes["fc"].inputs[0] == "a.out"
    assert nodes["flat"].inputs == ("a.out",)
    run = vdla.compile(both).run(images_for(graph, 2), check=True)
    assert run.bit_exact, run.first_difference


def test_a_wider_reshape_stays() -> None:
    net = Draft("wide", (1, 4, 4, 16))
    x = net.reshape("flat", net.conv("a", "input", 16), (1, 16, 16))
    x = net.reshape("again", x, (1, 256))
    graph = net.finish(net.dense("fc", x, 10))
    assert [node.name for node in fold_flatten(graph).nodes] == ["a", "flat", "again", "fc"]
