"""Computing once what is computed alike."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Tensor

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
        key = (current.op, inputs, _frozen(current.attrs), str(output.dtype), _quant(output))
        first = known.setdefault(key, output.name)
        if first != output.name and output.name not in graph.outputs:
            draft.substitute(output.name, first)
        elif inputs != current.inputs:
            draft.change(current, inputs=inputs)
    return draft.finish()


def _content(tensor: Tensor) -> Hashable:
    if tensor.data is None:
        return tensor.name
    return (tensor.shape, str(tensor.dtype), _quant(tensor), tensor.data.tobytes())


def _quant(tensor: Tensor) -> Hashable:
    quant = tensor.quant
    if quant is None:
        return None
    scale = (str(quant.scale.dtype), quant.scale.tobytes())
    return (quant.axis, scale, quant.zero_point.tobytes())


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((key, _frozen(item)) for key, item in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return (value.shape, str(value.dtype), value.tobytes())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(_frozen, value))
    return repr(value)
