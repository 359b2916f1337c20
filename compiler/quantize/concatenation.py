"""One range for a concatenation and its parts, so that joining them rounds nothing."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph import Graph

from .integer import Form, form_of
from .ranges import Range

__all__ = ["share_ranges"]

_MOST = 4
"""By how much a part's range may grow where others read it too: two of its eight bits."""


def share_ranges(graph: Graph, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Return ranges in which the parts of a concatenation have that of the whole.

    What makes a part then rounds to the scale of the whole at once, instead of to its own and then
    to that. A concatenation of concatenations, as DenseNet's, has one range throughout. A part that
    others read too keeps its own where it would lose more than two bits.

    Before: ``conv a in 0..2; conv b in 0..6; concat in 0..6``. After: ``a in 0..6; b in 0..6``.

    Parameters
    ----------
    graph : Graph
        Float.
    ranges : mapping of str to Range
        Of each activation.
    """
    shared = dict(ranges)
    for node in reversed(graph.nodes):
        if node.op != "concat" or form_of(graph, node) is None:
            continue
        whole = shared[node.outputs[0]]
        for name in node.inputs:
            source = _source(graph, name)
            if source is None:
                continue
            alone = all(reader.op == "concat" for reader in graph.consumers(name))
            if alone or _width(whole) <= _MOST * _width(shared[source]):
                shared[source] = whole
    return shared


def _source(graph: Graph, name: str) -> str | None:
    """Return what decides a part's scale, where that is free: an operator that rescales."""
    maker = graph.producer(name)
    while maker is not None and form_of(graph, maker) is Form.KEEPING:
        name = maker.inputs[0]
        if len(graph.consumers(name)) > 1 or name in graph.outputs:
            return None
        maker = graph.producer(name)
    if maker is None or form_of(graph, maker) not in (Form.WEIGHTED, Form.RESCALING):
        return None
    return name


def _width(span: Range) -> float:
    return span.high - span.low
