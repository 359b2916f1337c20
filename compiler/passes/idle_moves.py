"""Leaving out movements that move nothing."""

from __future__ import annotations

from vdla.compiler.graph import Graph

from .dead_code import dead_code
from .draft import Draft
from .layout_rules import moves_only_ones

__all__ = ["without_idle_moves"]


def without_idle_moves(graph: Graph) -> Graph:
    """Turn transposes that move no element into reshapes, and drop reshapes of reshapes.

    Before: ``transpose (1, 1, 8, 4) to (1, 8, 1, 4), reshape to (1, 8, 4), reshape to (8, 4)``.
    After: ``reshape to (8, 4)``.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None or current.op not in ("reshape", "transpose"):
            continue
        source, output = draft.tensors[current.inputs[0]], draft.tensors[current.outputs[0]]
        if current.op == "transpose":
            if not moves_only_ones(source.shape, current.attrs["perm"]):
                continue
            current = draft.change(current, op="reshape", attrs={"shape": output.shape})
        before = draft.producer(source.name)
        if before is not None and before.op == "reshape":
            current = draft.change(current, inputs=before.inputs)
            source = draft.tensors[before.inputs[0]]
        if source.shape == output.shape and (
            current.outputs[0] not in graph.outputs or source.name not in graph.inputs
        ):
            draft.substitute(output.name, source.name)
    return dead_code(draft.finish())
