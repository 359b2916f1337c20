from __future__ import annotations

from vdla.compiler.zoo import resnet18
from vdla.config import PYNQ_Z1
from vdla.runtime.cli.convolutions import SHAPES, alone

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


def test_every_shape_occurs_as_often_as_said() -> None:
    network = resnet18()
    convolutions = [node for node in network.nodes if node.op == "conv2d"]

    def shape(name: str) -> tuple[object, ...]:
        node = network.node(name)
        source, weight, *_ = network.input_tensors(node)
        return source.shape, weight.shape, node.attrs["strides"]

    counts = {
        name: sum(shape(node.name) == shape(other) for node in convolutions)
        for name, (other, _) in SHAPES.items()
    }
    assert counts == {name: times for name, (_, times) in SHAPES.items()}
