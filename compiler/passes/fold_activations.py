"""Folding activations into the operator before them."""

from __future__ import annotations

from vdla.compiler.graph import Graph

from .dead_code import dead_code
from .draft import Draft

__all__ = ["fold_activations"]

_CLIPS = frozenset({"clip", "relu", "relu6"})


def fold_activations(graph: Graph) -> Graph:
    """Let the operator before a ReLU or a clip do it, where it has a range of its own.

    Before: ``relu(conv2d(x, w))``. After: ``conv2d(x, w, clip (0, inf))``. Real numbers only.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None or current.name != node.name or current.op not in _CLIPS:
            continue
        source = draft.tensors[current.inputs[0]]
        producer = draft.producer(source.name)
        if (
            source.dtype.kind != "f"
            or producer is None
            or "clip" not in producer.attrs
            or draft.only_reader(source.name) is None
        ):
            continue
        low, high = current.attrs["clip"]
        first = producer.attrs["clip"]
        both = tuple(min(max(bound, low), high) for bound in first)
        draft.change(producer, attrs={**producer.attrs, "clip": both})
        draft.substitute(current.outputs[0], source.name)
    return dead_code(draft.finish())
