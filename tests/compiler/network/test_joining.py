"""Concatenations whose parts are written side by side: same values, nothing copied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.configs import MATRIX
from tests.networks import Draft, as_uint8, images_for
from vdla.compiler.graph import Graph, Quant
from vdla.compiler.network import compile_graph
from vdla.compiler.network.layout import Layout
from vdla.compiler.network.memory import lives, place_buffers
from vdla.compiler.network.placement import placements
from vdla.compiler.reference import Interpreter
from vdla.config import PYNQ_Z1, Config
from vdla.module import Execute, Launch, PlacedLayer
from vdla.runtime import api


def dense_block() -> Graph:
    """Return a concatenation in a concatenation, one of a part that the host makes, one of ends."""
    net = Draft("dense_block", (1, 6, 5, 16))
    x = net.conv("stem", "input", 32)
    one = net.concat("one", x, net.conv("a", x, 16))
    two = net.concat("two", one, net.conv("b", one, 16))
    y = net.conv("c", two, 32, window=1)
    three = net.concat("three", y, net.pad("pad", y, 0), net.add("sum", y, y))
    z = net.concat("four", net.conv("d", three, 16), net.conv("e", three, 7))
    return net.finish(net.conv("f", z, 16), z)


@pytest.mark.parametrize(
    ("config", "signed"),
    [*((config, True) for config in MATRIX), (PYNQ_Z1, False)],
    ids=lambda value: getattr(value, "name", value),
)
def test_values_are_those_of_copies(config: Config, signed: bool) -> None:
    graph = dense_block() if signed else as_uint8(dense_block())
    images = images_for(dense_block(), 2)
    if not signed:
        images = (images.astype(np.int16) + 128).astype(np.uint8)
    run = api.compile(graph, config=config).run(images, device="functional", check=True)
    assert run.bit_exact, run.first_difference
    for name, want in Interpreter(graph).run(images).items():
        np.testing.assert_array_equal(run.outputs[name], want)
    on_vdla = {x.name for x in run.module.layers if x.op == "concat" and x.device == "vdla"}
    wide = {"one", "three"} if config.block_out == 32 else {"one", "two", "three", "four"}
    assert on_vdla == wide


@pytest.mark.parametrize("left_out", ["layout", "join", "memory", "fusion"])
def test_whatever_else_is_left_out(left_out: str) -> None:
    graph = dense_block()
    network = api.compile(graph, without=[left_out])
    run = network.run(images_for(graph, 1), device="functional", check=True)
    assert run.bit_exact, run.first_difference


def test_nothing_is_copied() -> None:
    module = compile_graph(dense_block(), PYNQ_Z1)
    (host,) = (module.layers[step.layer] for step in module.steps if isinstance(step, Execute))
    assert host.name == "pad"
    assert sum(isinstance(step, Launch) for step in module.steps) == 2
    buffers = {buffer.tensor: buffer for buffer in module.buffers}
    place = 6 * 5 * 16  # bytes of a block of channels
    at = {name: buffers[f"{name}.out"].offset for name in ("stem", "a", "one", "b", "two")}
    assert at["stem"] == at["one"] == at["two"]
    assert (at["a"] - at["stem"], at["b"] - at["stem"]) == (2 * place, 3 * place)
    apart = compile_graph(dense_block(), PYNQ_Z1, without=["concat"])
    assert sum(isinstance(step, Execute) for step in apart.steps) == 5
    assert {x.device for x in apart.layers if x.op == "concat"} == {"cpu"}


def test_a_whole_lives_as_long_as_its_parts() -> None:
    steps = [Launch(0, (PlacedLayer(0, (), 0), PlacedLayer(1, (0,), 1), PlacedLayer(2, (2,), 3)))]
    shape = (1, 1, 64, 64, 1, 16)  # 16 pages
    buffers = [("a", shape), ("b", shape), ("ab", (1, 2, *shape[2:])), ("y", shape)]
    layout = Layout(steps, buffers, {0: (2, 0), 1: (2, 64 * 64 * 16)})
    assert [(life.first, life.last) for life in lives(layout)] == [(0, 2)] * 3 + [(2, 2)]
    offsets, end = place_buffers(layout, 4096)
    assert offsets == [4096, 4096 + 65536, 4096, 4096 + 2 * 65536]
    assert end == 4096 + 3 * 65536


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("rows", "it joins along axis 1, not along channels"),
        ("scale", "'b.out' has another scale than 'join.out'"),
        ("block", "'a.out' ends within a block of 16 channels"),
        ("twice", "it joins a tensor with itself"),
        ("again", "some of what it joins is part of another tensor already"),
        ("host", "nothing that it joins is on vdla"),
    ],
)
def test_what_needs_a_copy_stays_on_the_cpu(case: str, why: str) -> None:
    net = Draft("copied", (1, 6, 5, 16))
    a = net.conv("a", "input", 12 if case == "block" else 16)
    b = a if case == "twice" else net.conv("b", "input", 16)
    place = {"a": "cpu", "b": "cpu"} if case == "host" else {}
    if case == "again":
        net.concat("first", a, b)
    graph = net.finish(net.conv("c", net.concat("join", a, b, axis=1 if case == "rows" else 3), 16))
    if case == "scale":
        other = Quant(np.float32([0.3]), np.array([1]))
        tensors = [replace(t, quant=other) if t.name == b else t for t in graph.tensors.values()]
        graph = Graph("copied", tensors, graph.nodes, ["input"], graph.outputs)
    found = placements(graph, PYNQ_Z1, place)
    assert (found["join"].device, found["join"].not_on_vdla) == ("cpu", why)
    images = images_for(graph, 1)
    run = api.compile(graph, place=place).run(images, device="functional", check=True)
    assert run.bit_exact, run.first_difference
