"""The graph as it is compiled, and where each of its operators runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from vdla.compiler.graph import Graph, Node
from vdla.compiler.ops import Scheduling
from vdla.compiler.passes.clear_idle_weights import clear_idle_weights
from vdla.compiler.passes.fold_flatten import fold_flatten
from vdla.config import Config

from .lanes import gather_wide_weights
from .placement import Placement, placements
from .thin import Widened, widen_thin_convolutions
from .wishes import check_wishes

__all__ = ["Prepared", "prepare"]

_PREPARATIONS: Mapping[str, Callable[[Graph], Graph]] = {
    "idle": clear_idle_weights,
    "gather": gather_wide_weights,
    "flatten": fold_flatten,
}
"""Changes of the graph before operators are placed, in order."""


@dataclass(frozen=True)
class Prepared:
    """A graph whose operators have places.

    Attributes
    ----------
    placements : mapping of str to Placement
        Of every node, by name; of those too that can run nowhere.
    widened : Widened
        The graph, its thin convolutions rewritten.
    """

    placements: Mapping[str, Placement]
    widened: Widened

    @property
    def graph(self) -> Graph:
        """The graph as it is compiled."""
        return self.widened.graph

    def macs(self, node: Node) -> int:
        """Return the multiply-accumulates of a node as the network states it."""
        return self.widened.macs.get(node.name, self.graph.macs(node))


def prepare(
    graph: Graph,
    config: Config,
    *,
    scheduling: Scheduling | None = None,
    place: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> Prepared:
    """Change a graph as the accelerator likes it, and give each operator a place.

    Before: ``conv1 (cpu or vdla?), reshape, dense``. After: ``conv1.unfold (cpu), conv1 (vdla),
    dense (vdla)``.

    Parameters
    ----------
    graph : Graph
    config : Config
    scheduling : Scheduling, optional
        Of the schedules that are compared to choose the form of thin convolutions.
    place : mapping of str to str, optional
        As `placements` takes it.
    without : collection of str
        Passes to leave out.

    Raises
    ------
    ModelError
        `place` asks for what cannot be, or for nodes that are not there.
    """
    for name, change in _PREPARATIONS.items():
        if name not in without:
            graph = change(graph)
    joined = "concat" not in without
    found = placements(graph, config, place, joined=joined)
    widened = Widened(graph)
    if "thin" not in without and all(where.device is not None for where in found.values()):
        widened = widen_thin_convolutions(graph, config, found, scheduling or Scheduling())
    if widened.graph is not graph:
        found = placements(widened.graph, config, place, joined=joined)
    check_wishes([graph, widened.graph], place or {})
    return Prepared(found, widened)
