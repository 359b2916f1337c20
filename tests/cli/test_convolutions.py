from __future__ import annotations

import pytest

from vdla.compiler.zoo import resnet18
from vdla.config import PYNQ_Z1
from vdla.runtime.cli.convolutions import SETS, SHAPES, alone, measure

# Ideal cycles of a 16 x 16 core, as VTA's users published them.
IDEAL = {
    "C2": 451_584,
    "C3": 225_792,
    "C4": 25_088,
    "C5": 451_584,
    "C6": 225_792,
    "C7": 25_088,
    "C8": 451_584,
    "C9": 225_792,
    "C10": 25_088,
    "C11": 451_584,
}


def test_the_shapes_are_the_published_ones() -> None:
    network = resnet18()
    found = {}
    for name, (node, _) in SHAPES.items():
        graph = alone(network, node)
        found[name] = graph.macs(graph.nodes[0]) // PYNQ_Z1.macs_per_cycle
    assert found == IDEAL
    assert sum(times * IDEAL[name] for name, (_, times) in SHAPES.items()) == 6_623_232


# (size, channels, stride) of MobileNets' table 1, and products: 9 taps a vector of the result.
DEPTHWISE = {
    "D1": (112, 32, 1, 112 * 112 * 2 * 9),
    "D2": (112, 64, 2, 56 * 56 * 4 * 9),
    "D3": (56, 128, 1, 56 * 56 * 8 * 9),
    "D4": (56, 128, 2, 28 * 28 * 8 * 9),
    "D5": (28, 256, 1, 28 * 28 * 16 * 9),
    "D6": (28, 256, 2, 14 * 14 * 16 * 9),
    "D7": (14, 512, 1, 14 * 14 * 32 * 9),
    "D8": (14, 512, 2, 7 * 7 * 32 * 9),
    "D9": (7, 1024, 1, 7 * 7 * 64 * 9),
}


def silent(done: int, total: int, doing: str) -> None:
    """Show no progress."""


@pytest.mark.slow
def test_depthwise_convolutions_come_near_their_bound() -> None:
    """Products and requantization in one stream, or the bus: the higher of the two."""
    result = measure(PYNQ_Z1, shapes="mobilenet", check=True, progress=silent)
    assert result["bit_exact"]
    for layer in result["layers"]:
        size, channels, stride, products = DEPTHWISE[layer["name"]]
        assert layer["shape"] == f"{size}x{size} {channels}->{channels}, 3x3 s{stride}"
        assert layer["bounds"]["products"] == products
        assert layer["bounds"]["compute"] == products * 10 // 9
        assert layer["cycles"]["2"] < 1.12 * max(layer["bounds"].values())


@pytest.mark.parametrize("shapes", SETS)
def test_every_shape_occurs_as_often_as_said(shapes: str) -> None:
    make, chosen = SETS[shapes]
    network = make()
    op = network.node(next(iter(chosen.values()))[0]).op
    convolutions = [node for node in network.nodes if node.op == op]

    def shape(name: str) -> tuple[object, ...]:
        node = network.node(name)
        source, weight, *_ = network.input_tensors(node)
        return source.shape, weight.shape, node.attrs["strides"]

    counts = {
        name: sum(shape(node.name) == shape(other) for node in convolutions)
        for name, (other, _) in chosen.items()
    }
    assert counts == {name: times for name, (_, times) in chosen.items()}
