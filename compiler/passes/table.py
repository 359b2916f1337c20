"""The passes in the order they run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from vdla.compiler.graph import Graph
from vdla.errors import ModelError

from .common_subexpressions import common_subexpressions
from .dead_code import dead_code
from .fold_activations import fold_activations
from .fold_constants import fold_constants
from .fold_quantization import fold_quantization
from .fold_scales import fold_scales
from .settle_layouts import settle_layouts
from .sign_integers import sign_integers

__all__ = ["PASSES", "run_passes"]

PASSES: Mapping[str, Callable[[Graph], Graph]] = {
    "settle_layouts": settle_layouts,
    "fold_scales": fold_scales,
    "fold_activations": fold_activations,
    "sign_integers": sign_integers,
    "fold_quantization": fold_quantization,
    "fold_constants": fold_constants,
    "common_subexpressions": common_subexpressions,
    "dead_code": dead_code,
}
"""By name, in order."""


def run_passes(graph: Graph, without: Collection[str] = ()) -> Graph:
    """Return a graph after every pass but those named.

    Raises
    ------
    ModelError
        There is no pass of a name in `without`.
    """
    unknown = sorted(set(without) - set(PASSES))
    if unknown:
        raise ModelError(
            f"A pass must be one of {', '.join(PASSES)}, not {', '.join(unknown)}. Leave it out."
        )
    for name, change in PASSES.items():
        if name not in without:
            graph = change(graph)
    return graph
