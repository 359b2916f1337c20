"""Where each operator runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler.graph import Graph, Node
from vdla.compiler.ops import unsupported
from vdla.config import Config
from vdla.errors import ModelError

from .host import host_refusal
from .joining import join_refusal
from .wishes import CPU, GPU, VDLA, check_possible, check_wishes, meant_by, wishes_of

__all__ = [
    "CPU",
    "GPU",
    "VDLA",
    "Placement",
    "devices",
    "is_view",
    "place_nodes",
    "placements",
]


@dataclass(frozen=True)
class Placement:
    """Where a node runs, and why not elsewhere.

    Attributes
    ----------
    device : str or None
        None where it can run nowhere.
    not_on_vdla : str or None
        Why it is not on VDLA: it cannot run there, costs more there, or was asked away.
    not_on_cpu : str or None
        Why it cannot run on the cpu; None where it can.
    """

    device: str | None
    not_on_vdla: str | None
    not_on_cpu: str | None


def place_nodes(graph: Graph, config: Config, place: Mapping[str, str] | None) -> dict[str, str]:
    """Return the device of each node by name, of a network all of which can run.

    Parameters
    ----------
    graph : Graph
    config : Config
    place : mapping of str to str, optional
        As `placements` takes it.

    Raises
    ------
    ModelError
        Nodes can run nowhere: all of them are listed. Or `place` asks for what cannot be, or for
        nodes that are not there.
    """
    check_wishes([graph], place or {})
    return devices(graph, placements(graph, config, place))


def placements(
    graph: Graph, config: Config, place: Mapping[str, str] | None = None, *, joined: bool = True
) -> dict[str, Placement]:
    """Return where each node runs, by name; what runs nowhere included.

    Softmax, reshape, quantize and whatever else VDLA does not take goes to the cpu. A reshape
    that changes no byte in blocked layout stays where its input is, and so does a concatenation of
    whole blocks, whose parts are written side by side. Operators on VDLA between
    others on the cpu go there too where bringing their tensors in and out costs the cpu more than
    computing them.

    Parameters
    ----------
    graph : Graph
    config : Config
    place : mapping of str to str, optional
        ``'cpu'`` or ``'vdla'`` by node name, the graph's or the file's, by pattern (``layer1_*``)
        or by operator (``max_pool2d``). A name goes before a pattern, a pattern before an
        operator, of two patterns the later one; all but the graph's own names mean those nodes
        that can run there. What means no node is passed over: `check_wishes` refuses it.
    joined : bool
        Whether concatenations may be on VDLA.

    Raises
    ------
    ModelError
        `place` asks for what cannot be.
    """
    meant = {key: meant_by(graph, key) for key in place or {}}
    wishes = wishes_of(graph, place or {}, meant)
    found: dict[str, Placement] = {}
    able: dict[str, tuple[str | None, str | None]] = {}
    parts: set[str] = set()
    for node in graph.nodes:
        on_vdla, on_cpu = _vdla_refusal(graph, node, config), host_refusal(graph, node)
        if node.op == "concat" and joined:
            on_vdla = _shape_refusal(graph, node) or join_refusal(
                graph, node, config.block_out, {n for n, p in found.items() if p.device == VDLA}
            )
            if on_vdla is None and parts & set(node.inputs):
                on_vdla = "some of what it joins is part of another tensor already"
        elif node.op == "reshape" and is_view(graph, node):
            on_vdla = _view_refusal(graph, node, found)
        able[node.name] = on_vdla, on_cpu
        device = VDLA if on_vdla is None else CPU if on_cpu is None else None
        wanted, named = wishes.get(node.name, (None, False))
        if wanted is not None:
            reason = on_vdla if wanted == VDLA else on_cpu
            if reason is not None and named:
                raise ModelError(
                    f"A node can be placed only where it can run; {node.name!r} ({node.op}) cannot "
                    f"run on {wanted}: {reason}. Leave it out of place."
                )
            if reason is None:
                device, on_vdla = wanted, _ASKED_AWAY if wanted == CPU else None
        found[node.name] = Placement(device, on_vdla, on_cpu)
        if node.op == "concat" and device == VDLA:
            parts.update(node.inputs)
    for key, names in meant.items():
        check_possible(graph, key, (place or {})[key], names, able)
    for island in islands(graph, found):
        free = all(n.name not in wishes and able[n.name][1] is None for n in island)
        if free and _host_work(graph, island) <= _moving_work(graph, island):
            found |= {node.name: Placement(CPU, _CHEAPER, None) for node in island}
    return found


_ASKED_AWAY = "place asks for it on the cpu"
_CHEAPER = "the cpu computes it in less time than packing and unpacking its tensors would take"


def devices(graph: Graph, found: Mapping[str, Placement]) -> dict[str, str]:
    """Return the device of each node by name.

    Raises
    ------
    ModelError
        Nodes can run nowhere: all of them are listed.
    """
    lost = [
        f"{index} {node.name} ({node.op}): vdla: {where.not_on_vdla}; cpu: {where.not_on_cpu}"
        for index, node in enumerate(graph.nodes)
        if (where := found[node.name]).device is None
    ]
    if lost:
        raise ModelError(
            f"Every operator must run on vdla or on the cpu; of {graph.name!r}, {len(lost)} of "
            f"{len(graph.nodes)} can run on neither (index, name, reasons): {' | '.join(lost)}. "
            "Rewrite the network without them."
        )
    return {name: where.device for name, where in found.items() if where.device is not None}


def islands(graph: Graph, found: Mapping[str, Placement]) -> list[list[Node]]:
    """Return the operators on VDLA in groups that are connected by tensors."""
    groups: list[list[Node]] = []
    for node in graph.nodes:
        if found[node.name].device != VDLA:
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
    """Whether a node has nothing to do on VDLA, if it is there.

    Concatenations there have not, nor reshapes that keep every byte in blocked layout, (1, 1, 1, C)
    to (1, C) or back.
    """
    if node.op == "concat":
        return True
    if node.op != "reshape":
        return False
    shapes = graph.input_tensors(node)[0].shape, graph.output_tensor(node).shape
    return all(len(s) in (2, 4) and set(s[:-1]) == {1} for s in shapes) and (
        shapes[0][-1] == shapes[1][-1]
    )


def _shape_refusal(graph: Graph, node: Node) -> str | None:
    for tensor in (*graph.input_tensors(node), graph.output_tensor(node)):
        shape = tensor.shape
        if not tensor.is_constant and (len(shape) not in (2, 4) or shape[0] != 1):
            return f"{tensor.label} has the shape {shape}, neither NHWC nor NC with N = 1"
    return None


def _vdla_refusal(graph: Graph, node: Node, config: Config) -> str | None:
    reason = _shape_refusal(graph, node)
    if reason is not None:
        return reason
    inputs = graph.input_tensors(node)
    if node.op == "dense" and node.attrs["keep_dims"] and any(d != 1 for d in inputs[0].shape[:-1]):
        return f"it is a layer for each place of {inputs[0].label}"
    try:
        return unsupported(graph, node, config)
    except ModelError as error:
        return str(error)


def _view_refusal(graph: Graph, node: Node, found: Mapping[str, Placement]) -> str | None:
    source = graph.producer(node.inputs[0])
    if source is not None and found[source.name].device == VDLA:
        return None
    return "it is a view of a tensor that is not on vdla"
