"""Computing once what is computed alike."""

from __future__ import annotations

from collections.abc import Hashable

from vdla.compiler.graph import Graph, Tensor
from vdla.compiler.graph.keys import frozen, quant_key

from .draft import Draft

__all__ = ["common_subexpressions"]


def common_subexpressions(graph: Graph) -> Graph:
    """Let nodes of one operator, inputs, attributes and output type be one node.

    Constants of equal bytes count as one. Before: ``a = transpose(x); b = transpose(x);
    c = add(relu(a), b)``. After: ``a = transpose(x); c = add(relu(a), a)``.
    """
    draft = Draft(graph)
    known: dict[Hashable, str] = {}
    equal: dict[Hashable, str] = {}
    same = {t.name: equal.setdefault(_content(t), t.name) for t in graph.tensors.values()}
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None:
            continue
        inputs = tuple(same.get(t, t) for t in current.inputs)
        output = draft.tensors[current.outputs[0]]
        key = (
            current.op,
            inputs,
            frozen(current.attrs),
            str(output.dtype),
            quant_key(output.quant),
        )
        first = known.setdefault(key, output.name)
        if first != output.name and output.name not in graph.outputs:
            draft.substitute(output.name, first)
        elif inputs != current.inputs:
            draft.change(current, inputs=inputs)
    return draft.finish()


def _content(tensor: Tensor) -> Hashable:
    if tensor.data is None:
        return tensor.name
    return (tensor.shape, str(tensor.dtype), quant_key(tensor.quant), tensor.data.tobytes())
