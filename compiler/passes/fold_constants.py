"""Computing while compiling what depends on constants alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from vdla.compiler.graph import Graph, Tensor
from vdla.compiler.reference.operators import OPERATORS
from vdla.compiler.reference.values import Value

from .draft import Draft

__all__ = ["fold_constants"]


def fold_constants(graph: Graph) -> Graph:
    """Compute nodes of constants, and leave out nodes that change nothing.

    Before: ``w = transpose(constant); y = conv2d(reshape(x, shape of x), w)``. After:
    ``y = conv2d(x, constant)``. A node that makes an output of the graph stays.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None or current.outputs[0] in graph.outputs:
            continue
        output = draft.tensors[current.outputs[0]]
        inputs = [draft.tensors[name] for name in current.inputs]
        if all(t.is_constant for t in inputs):
            values = [Value(t, t.data) for t in inputs if t.data is not None]
            data = OPERATORS[current.op](current, values, output).astype(output.dtype)
            draft.substitute(
                output.name,
                draft.add_constant(
                    f"{output.name}.folded", data.reshape(output.shape), output.quant
                ),
            )
        elif _is_idle(current.op, inputs[0], output, current.attrs):
            draft.substitute(output.name, inputs[0].name)
    return draft.finish()


def _is_idle(op: str, source: Tensor, output: Tensor, attrs: Mapping[str, Any]) -> bool:
    """Whether a node gives back its input, integers and their meaning alike."""
    if (source.shape, source.dtype) != (output.shape, output.dtype) or not _same_quant(
        source, output
    ):
        return False
    if op in ("cast", "expand", "reshape", "slice"):
        return op != "slice" or all(step > 0 for step in attrs["step"])
    if op == "transpose":
        moved = [axis for axis in attrs["perm"] if source.shape[axis] > 1]
        return moved == sorted(moved)
    if op in ("pad", "concat"):
        return True
    if op in ("relu", "relu6", "clip") and output.dtype.kind == "f":
        return bool(attrs["clip"] == (-inf, inf))
    return False


def _same_quant(one: Tensor, other: Tensor) -> bool:
    if one.quant is None or other.quant is None:
        return one.quant is other.quant
    return one.quant.same_as(other.quant)
