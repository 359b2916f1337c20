"""What the user asks for: which nodes on which device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from vdla.compiler.graph import Graph
from vdla.errors import ModelError

__all__ = ["CPU", "GPU", "VDLA", "check_possible", "check_wishes", "meant_by", "wishes_of"]

CPU, VDLA = "cpu", "vdla"
GPU = "gpu"
"""Where what was meant for the cpu goes as far as there are kernels; nothing is asked to."""


def meant_by(graph: Graph, key: str) -> list[str]:
    """Return the nodes that a key of place means: its name, the file's, a pattern, an operator."""
    every = graph.nodes
    exact = [n.name for n in every if n.name == key] or [n.name for n in every if n.source == key]
    return (
        exact
        or [n.name for n in every if any(fnmatchcase(t, key) for t in (n.name, n.source) if t)]
        or [n.name for n in every if n.op == key]
    )


def wishes_of(
    graph: Graph, place: Mapping[str, str], meant: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, bool]]:
    """Return the device that is asked for each node, and whether it is by its own name."""
    for key, device in place.items():
        if device not in (CPU, VDLA):
            raise ModelError(f"A placement must be 'cpu' or 'vdla', not {device!r} (of {key!r}).")
    # The most particular comes last and stays: one name, then few nodes of many.
    names = {name for node in graph.nodes for name in (node.name, node.source)}
    operators = {node.op for node in graph.nodes}
    order = sorted(place, key=lambda key: (key in names, key not in operators))
    return {name: (place[key], key == name) for key in order for name in meant[key]}


def check_possible(
    graph: Graph,
    key: str,
    device: str,
    names: Sequence[str],
    able: Mapping[str, tuple[str | None, str | None]],
) -> None:
    """Refuse a wish that no node it means can follow."""
    which = 0 if device == VDLA else 1
    reasons = {name: able[name][which] for name in names}
    if not reasons or None in reasons.values():
        return
    why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    there = ", ".join(node.name for node in graph.nodes if able[node.name][which] is None)
    raise ModelError(
        f"A placement must mean nodes that can run there; of {key!r} none can run on {device}: "
        f"{why}. Leave it out; what can is: {there or 'nothing'}."
    )


def check_wishes(graphs: Sequence[Graph], place: Mapping[str, str]) -> None:
    """Refuse what names no node of any of a network's graphs.

    Raises
    ------
    ModelError
        Names, patterns or operators mean no node; all of them are listed.
    """
    unknown = [key for key in place if not any(meant_by(graph, key) for graph in graphs)]
    if unknown:
        graph = graphs[-1]
        names = ", ".join(n.name + (f" ({n.source})" if n.source else "") for n in graph.nodes)
        raise ModelError(
            "A placement must mean nodes of the network, by name, pattern or operator; "
            f"{', '.join(map(repr, unknown))} means none, or one that is folded into another. "
            f"{graph.name!r} has: {names}."
        )
