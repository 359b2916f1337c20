"""The ten convolution shapes of ResNet-18 that VTA offloaded, each measured alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vdla.compiler.graph import Graph
from vdla.compiler.zoo import resnet18
from vdla.runtime.cli.inputs import random_input

if TYPE_CHECKING:
    from vdla.config import Config

__all__ = ["SHAPES", "measure"]

SHAPES = {
    "C2": ("layer1_0_conv1", 4),
    "C3": ("layer2_0_conv1", 1),
    "C4": ("layer2_0_downsample", 1),
    "C5": ("layer2_0_conv2", 3),
    "C6": ("layer3_0_conv1", 1),
    "C7": ("layer3_0_downsample", 1),
    "C8": ("layer3_0_conv2", 3),
    "C9": ("layer4_0_conv1", 1),
    "C10": ("layer4_0_downsample", 1),
    "C11": ("layer4_0_conv2", 3),
}
"""VTA's name of each shape: a node of the built-in network, and how often its shape occurs."""

VTHREADS = (1, 2)


def measure(
    config: Config, *, check: bool, progress: Callable[[int, int, str], None]
) -> dict[str, Any]:
    """Compile and run every shape, bias and requantization included, on the cycle model.

    Parameters
    ----------
    config : Config
        The machine.
    check : bool
        Compare every output with the integer interpreter.
    progress : callable
        Called with the runs done, the runs in all, and the name of the shape.

    Returns
    -------
    dict
        ``layers``, each with ``cycles`` and ``mac_utilization`` by number of virtual threads, and
        ``mac_utilization`` over all, weighted by occurrence. A shape's cycles are those of a
        program of its own, start bit to done bit, so nothing overlaps its first load.
    """
    network = resnet18()
    layers = []
    for index, (name, (node, occurrences)) in enumerate(SHAPES.items()):
        progress(index, len(SHAPES), name)
        layers.append({"name": name, "occurrences": occurrences})
        layers[-1] |= _one(alone(network, node), config, check=check)
    result: dict[str, Any] = {
        "layers": layers,
        "mac_utilization": {str(n): _overall(layers, str(n)) for n in VTHREADS},
        "config": config.name,
        "config_hash": f"{config.hash:016x}",
    }
    if check:
        result["bit_exact"] = all(layer["bit_exact"] for layer in layers)
    return result


def alone(network: Graph, name: str) -> Graph:
    """Return a network of the one node `name`, with its weights and quantization."""
    node = network.node(name)
    tensors = [network.tensors[tensor] for tensor in (*node.inputs, *node.outputs)]
    return Graph(name, tensors, [node], node.inputs[:1], node.outputs)


def _one(graph: Graph, config: Config, *, check: bool) -> dict[str, Any]:
    from vdla.runtime import api

    (node,) = graph.nodes
    source, weight, *_ = graph.input_tensors(node)
    ideal = graph.macs(node) / config.macs_per_cycle
    image = random_input(source.shape, source.dtype)
    cycles: dict[str, int] = {}
    exact = True
    for vthreads in VTHREADS:
        compiled = api.compile(graph, config=config, vthreads=vthreads)
        run = compiled.run(image, device="cycle", check=check)
        cycles[str(vthreads)] = run.cycles or 0
        exact = exact and (not check or bool(run.bit_exact))
    _, height, width, channels = source.shape
    found: dict[str, Any] = {
        "shape": f"{height}x{width} {channels}->{weight.shape[0]}, "
        f"{weight.shape[1]}x{weight.shape[2]} s{node.attrs['strides'][0]}",
        "mac_cycles_ideal": int(ideal),
        "cycles": cycles,
        "mac_utilization": {threads: ideal / taken for threads, taken in cycles.items()},
    }
    if check:
        found["bit_exact"] = exact
    return found


def _overall(layers: list[dict[str, Any]], threads: str) -> float:
    ideal = sum(layer["occurrences"] * layer["mac_cycles_ideal"] for layer in layers)
    taken = sum(layer["occurrences"] * layer["cycles"][threads] for layer in layers)
    return float(ideal / taken)
