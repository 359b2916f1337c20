"""Convolution shapes of well-known networks, each measured alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vdla.compiler.graph import Graph
from vdla.compiler.zoo import mobilenet_v1, resnet18
from vdla.runtime.inputs import random_input

if TYPE_CHECKING:
    from vdla.config import Config

__all__ = ["SETS", "SHAPES", "measure"]

Shapes = Mapping[str, tuple[str, int]]

SHAPES: Shapes = {
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

_DEPTHWISE: Shapes = {
    f"D{number}": (f"pair{pair}_depthwise", times)
    for number, (pair, times) in enumerate(
        [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 5), (12, 1), (13, 1)], start=1
    )
}

SETS: Mapping[str, tuple[Callable[[], Graph], Shapes]] = {
    "resnet18": (resnet18, SHAPES),
    "mobilenet": (mobilenet_v1, _DEPTHWISE),
}
"""By name: the ten convolutions of ResNet-18 that VTA offloaded, the nine depthwise ones of
MobileNetV1."""

VTHREADS = (1, 2)


def measure(
    config: Config,
    *,
    shapes: str = "resnet18",
    check: bool,
    progress: Callable[[int, int, str], None],
) -> dict[str, Any]:
    """Compile and run every shape, bias and requantization included, on the cycle model.

    Parameters
    ----------
    config : Config
        The machine.
    shapes : str
        A key of `SETS`.
    check : bool
        Compare every output with the integer interpreter.
    progress : callable
        Called with the runs done, the runs in all, and the name of the shape.

    Returns
    -------
    dict
        ``layers``, each with ``cycles`` and ``mac_utilization`` by number of virtual threads;
        ``mac_utilization`` and ``product_share``, of ``products`` in the cycles, over all, weighted
        by occurrence. A shape's cycles are those of a
        program of its own, start bit to done bit, so nothing overlaps its first load. ``bounds``
        are the cycles that no schedule goes below: ``products``, a micro-op a block of weights and
        entry of the result; ``compute``, which requantizes every entry as well; ``load`` and
        ``store``, all bytes once over the bus.
    """
    make, chosen = SETS[shapes]
    network = make()
    layers = []
    for index, (name, (node, occurrences)) in enumerate(chosen.items()):
        progress(index, len(chosen), name)
        layers.append({"name": name, "occurrences": occurrences})
        layers[-1] |= _one(alone(network, node), config, check=check)
    result: dict[str, Any] = {
        "layers": layers,
        "mac_utilization": _overall(layers, lambda layer: layer["mac_cycles_ideal"]),
        "product_share": _overall(layers, lambda layer: layer["bounds"]["products"]),
        "set": shapes,
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
        "shape": f"{height}x{width} {channels}->{graph.output_tensor(node).shape[3]}, "
        f"{weight.shape[1]}x{weight.shape[2]} s{node.attrs['strides'][0]}",
        "mac_cycles_ideal": int(ideal),
        "bounds": _bounds(graph, config),
        "cycles": cycles,
        "mac_utilization": {threads: ideal / taken for threads, taken in cycles.items()},
    }
    if check:
        found["bit_exact"] = exact
    return found


def _bounds(graph: Graph, config: Config) -> dict[str, int]:
    (node,) = graph.nodes
    source, weight, *_ = graph.input_tensors(node)
    _, height, width, channels = source.shape
    _, rows, columns, outputs = graph.output_tensor(node).shape
    inp, out = -(-channels // config.block_in), -(-outputs // config.block_out)
    depthwise = node.op == "depthwise_conv2d"
    # A block of outputs meets the blocks that hold its own channels, or all of them.
    met = -(-config.block_out // config.block_in) if depthwise else inp
    blocks = out * met * weight.shape[1] * weight.shape[2]
    loaded = inp * height * width * config.inp_elem_bytes + blocks * config.wgt_elem_bytes
    loaded += 3 * out * config.acc_elem_bytes
    return {
        "products": blocks * rows * columns,
        "compute": (blocks + out) * rows * columns,
        "load": -(-loaded // config.axi_bytes),
        "store": out * rows * columns * config.out_elem_bytes // config.axi_bytes,
    }


def _overall(
    layers: list[dict[str, Any]], ideal: Callable[[dict[str, Any]], int]
) -> dict[str, float]:
    """Return what all layers would take over what they take, by number of virtual threads."""
    least = sum(layer["occurrences"] * ideal(layer) for layer in layers)
    return {
        str(n): least / sum(layer["occurrences"] * layer["cycles"][str(n)] for layer in layers)
        for n in VTHREADS
    }
