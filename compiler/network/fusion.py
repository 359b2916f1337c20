"""Additions computed on the tiles of the convolution before them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vdla.compiler.graph import Graph, Node
from vdla.compiler.ops import LoweredNode, Scheduling, lower_node, unsupported_addition
from vdla.compiler.passes import fusion_groups
from vdla.config import Config
from vdla.errors import LoweringError

from .placement import VDLA

__all__ = ["fuse_additions"]


def fuse_additions(
    graph: Graph,
    placed: Mapping[str, str],
    lowered: Mapping[str, LoweredNode],
    config: Config,
    scheduling: Scheduling,
) -> tuple[dict[str, LoweredNode], dict[str, Node]]:
    """Compute additions with the convolutions before them, where the estimate says that it pays.

    So do those whose schedule was chosen in this network with both in one: what it takes alone says
    less than the whole did.

    The convolution's result then never leaves the accelerator: it is not stored and loaded again.

    Before: ``conv b (store); add c = a + b (load a, load b, store)``. After: ``add c = a + conv b
    (load a, store)``.

    Parameters
    ----------
    graph : Graph
    placed : mapping of str to str
        Device of each node.
    lowered : mapping of str to LoweredNode
        Each node on VDLA alone.
    config : Config
    scheduling : Scheduling

    Returns
    -------
    lowered : dict of str to LoweredNode
        Under an addition's name both; its convolution is gone.
    heads : dict of str to Node
        That convolution, by the addition's name.
    """
    result, heads = dict(lowered), {}
    for node, addition in _pairs(graph, placed, config):
        try:
            both = lower_node(graph, node, config, scheduling, addition)
        except LoweringError:
            continue
        apart = lowered[node.name].estimate_cycles + lowered[addition.name].estimate_cycles
        chosen = both.template is not None and scheduling.chosen(both.template.task)
        if chosen or both.estimate_cycles < apart:
            del result[node.name]
            result[addition.name], heads[addition.name] = both, node
    return result, heads


def _pairs(graph: Graph, placed: Mapping[str, str], config: Config) -> Iterator[tuple[Node, Node]]:
    """Yield what the rules of fusion allow and the accelerator can compute in one tile."""
    for group in fusion_groups(graph):
        for node, addition in zip(group.nodes, group.nodes[1:], strict=False):
            on_vdla = placed[node.name] == placed[addition.name] == VDLA
            if on_vdla and unsupported_addition(graph, node, addition, config) is None:
                yield node, addition
