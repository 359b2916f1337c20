"""Where each operator runs."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler.graph import Graph, Node
from vdla.compiler.ops import unsupported
from vdla.config import Config
from vdla.errors import ModelError

from .host import host_refusal

__all__ = ["CPU", "VDLA", "Placement", "is_view", "place_nodes", "placements"]

CPU, VDLA = "cpu", "vdla"


@dataclass(frozen=True)
class Placement:
    """Where a node runs, and why not elsewhere.

    Attributes
    ----------
    device : str or None
        None where it can run nowhere.
    not_on_vdla, not_on_cpu : str or None
        Reasons; None where it could run there.
    """

    device: str | None
    not_on_vdla: str | None
    not_on_cpu: str | None


def placements(graph: Graph, config: Config) -> dict[str, Placement]:
    """Return where each node would run by its own merits, by name; what runs nowhere included."""
    found: dict[str, Placement] = {}
    for node in graph.nodes:
        on_vdla, on_cpu = _vdla_refusal(graph, node, config), host_refusal(graph, node)
        if is_view(graph, node):
            devices = {name: p.device or CPU for name, p in found.items()}
            on_vdla = _view_refusal(graph, node, devices)
        device = VDLA if on_vdla is None else CPU if on_cpu is None else None
        found[node.name] = Placement(device, on_vdla, on_cpu)
    return found


def place_nodes(graph: Graph, config: Config, place: Mapping[str, str] | None) -> dict[str, str]:
    """Return the device of each node by name.

    Softmax, reshape, quantize and whatever else VDLA does not take goes to the cpu. A reshape
    that changes no byte in blocked layout stays where its input is. Operators on VDLA between
    others on the cpu go there too where bringing their tensors in and out costs the cpu more than
    computing them.

    Parameters
    ----------
    graph : Graph
    config : Config
    place : mapping of str to str, optional
        ``'cpu'`` or ``'vdla'`` by node name, by pattern (``layer1_*``) or by operator
        (``max_pool2d``). A name goes before a pattern, a pattern before an operator, of two
        patterns the later one; patterns and operators mean those nodes that can run there.

    Raises
    ------
    ModelError
        Nodes can run nowhere: all of them are listed. Or `place` asks for what cannot be.
    """
    wishes = _wishes(graph, place or {})
    refusals = {
        node.name: (_vdla_refusal(graph, node, config), host_refusal(graph, node))
        for node in graph.nodes
    }
    _check_network(graph, refusals)
    placed: dict[str, str] = {}
    for node in graph.nodes:
        on_vdla, on_cpu = refusals[node.name]
        if is_view(graph, node):
            on_vdla = _view_refusal(graph, node, placed)
        wanted, named = wishes.get(node.name, (None, False))
        reason = on_vdla if wanted == VDLA else on_cpu
        if wanted is None or (reason is not None and not named):
            placed[node.name] = VDLA if on_vdla is None else CPU
            continue
        if reason is not None:
            raise ModelError(
                f"A node can be placed only where it can run; {node.name!r} ({node.op}) cannot run "
                f"on {wanted}: {reason}. Leave it out of place."
            )
        placed[node.name] = wanted
    for island in islands(graph, placed):
        free = all(n.name not in wishes and refusals[n.name][1] is None for n in island)
        if free and _host_work(graph, island) <= _moving_work(graph, island):
            placed |= {node.name: CPU for node in island}
    return placed


def islands(graph: Graph, placed: Mapping[str, str]) -> list[list[Node]]:
    """Return the operators on VDLA in groups that are connected by tensors."""
    groups: list[list[Node]] = []
    for node in graph.nodes:
        if placed[node.name] != VDLA:
            continue
        near = [g for g in groups if any(set(n.outputs) & set(node.inputs) for n in g)]
        groups = [g for g in groups if g not in near]
        groups.append([*(n for g in near for n in g), node])
    return groups


def _host_work(graph: Graph, island: Sequence[Node]) -> int:
    """Return roughly how many elements the cpu touches when it computes an island."""
    work = 0
    for node in island:
        inputs, output = graph.input_tensors(node), graph.output_tensor(node)
        taps = prod(node.attrs["window"]) if "window" in node.attrs else 1
        work += sum(tensor.size for tensor in inputs if not tensor.is_constant)
        work += output.size * taps + graph.macs(node)
    return work


def _moving_work(graph: Graph, island: Sequence[Node]) -> int:
    """Return how many elements the cpu touches when it packs and unpacks an island's tensors."""
    mine = {node.name for node in island}
    made = {name for node in island for name in node.outputs}
    read = {t.name for n in island for t in graph.input_tensors(n) if not t.is_constant}
    left = {
        name
        for name in made
        if name in graph.outputs or any(n.name not in mine for n in graph.consumers(name))
    }
    return 2 * sum(graph.tensors[name].size for name in (read - made) | left)


def is_view(graph: Graph, node: Node) -> bool:
    """Whether a reshape keeps every byte in blocked layout: (1, 1, 1, C) to (1, C) or back."""
    if node.op != "reshape":
        return False
    shapes = graph.input_tensors(node)[0].shape, graph.output_tensor(node).shape
    return all(len(s) in (2, 4) and set(s[:-1]) == {1} for s in shapes) and (
        shapes[0][-1] == shapes[1][-1]
    )


def _vdla_refusal(graph: Graph, node: Node, config: Config) -> str | None:
    inputs = graph.input_tensors(node)
    for tensor in (*inputs, graph.output_tensor(node)):
        shape = tensor.shape
        if not tensor.is_constant and (len(shape) not in (2, 4) or shape[0] != 1):
            return f"{tensor.label} has the shape {shape}, neither NHWC nor NC with N = 1"
    if node.op == "dense" and node.attrs["keep_dims"] and any(d != 1 for d in inputs[0].shape[:-1]):
        return f"it is a layer for each place of {inputs[0].label}"
    try:
        return unsupported(graph, node, config)
    except ModelError as error:
        return str(error)


def _check_network(graph: Graph, refusals: Mapping[str, tuple[str | None, str | None]]) -> None:
    lost = [
        f"{place} {node.name} ({node.op}): vdla: {vdla}; cpu: {cpu}"
        for place, node in enumerate(graph.nodes)
        for vdla, cpu in [refusals[node.name]]
        if vdla is not None and cpu is not None
    ]
    if lost:
        raise ModelError(
            f"Every operator must run on vdla or on the cpu; of {graph.name!r}, {len(lost)} of "
            f"{len(graph.nodes)} can run on neither (index, name, reasons): {' | '.join(lost)}. "
            "Rewrite the network without them."
        )


def _wishes(graph: Graph, place: Mapping[str, str]) -> dict[str, tuple[str, bool]]:
    """Return the device that is asked for each node, and whether it is by its own name."""
    for key, device in place.items():
        if device not in (CPU, VDLA):
            raise ModelError(f"A placement must be 'cpu' or 'vdla', not {device!r} (of {key!r}).")
    names = [node.name for node in graph.nodes]
    meant: dict[str, list[str]] = {
        key: [name]
        if (name := key) in names
        else fnmatch.filter(names, key) or [n.name for n in graph.nodes if n.op == key]
        for key in place
    }
    unknown = [key for key, found in meant.items() if not found]
    if unknown:
        raise ModelError(
            "A placement must mean nodes of the network, by name, pattern or operator; "
            f"{', '.join(map(repr, unknown))} means none. {graph.name!r} has: {', '.join(names)}."
        )
    # The most particular comes last and stays: one name, then few nodes of many.
    operators = {node.op for node in graph.nodes}
    order = sorted(place, key=lambda key: (key in names, key not in operators))
    return {name: (place[key], key == name) for key in order for name in meant[key]}


def _view_refusal(graph: Graph, node: Node, placed: Mapping[str, str]) -> str | None:
    source = graph.producer(node.inputs[0])
    if source is not None and placed[source.name] == VDLA:
        return None
    return "it is a view of a tensor that is not on vdla"
