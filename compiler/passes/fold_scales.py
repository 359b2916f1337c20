"""Folding channelwise factors and offsets, batch normalization above all, into weights."""

from __future__ import annotations

from math import inf

import numpy as np

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.tensor import Array

from .dead_code import dead_code
from .draft import Draft

__all__ = ["fold_scales"]

_OUTPUT_AXIS = {"conv2d": 0, "conv_transpose2d": 0, "dense": 0, "depthwise_conv2d": 3}
"""Dimension of the weights that runs along the output's channels."""
_INVERSE = {"div": "mul", "sub": "add"}


def fold_scales(graph: Graph) -> Graph:
    """Fold multiplications and additions by channelwise constants into the operator before them.

    Before: ``add(mul(conv2d(x, w, b), f), s)``. After: ``conv2d(x, w f, b f + s)``.

    A multiplication before a convolution goes into its weights, along their input channels. Where
    there is no convolution, chains become one multiplication and one addition. Divisions and
    subtractions by constants count as such. Real numbers only: what is quantized stays.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None or current.name != node.name or not _is_real(draft, current):
            continue
        if current.op in _OUTPUT_AXIS:
            _fold_before(draft, current)
            continue
        current = _without_inverse(draft, current)
        if current.op in ("add", "mul"):
            _fold_after(draft, current)
    return dead_code(draft.finish())


def _is_real(draft: Draft, node: Node) -> bool:
    names = (*node.inputs, *node.outputs)
    return all(draft.tensors[name].dtype == np.float32 for name in names)


def _without_inverse(draft: Draft, node: Node) -> Node:
    """Before: ``x / c``, ``x - c``. After: ``x * (1 / c)``, ``x + (-c)``."""
    if node.op not in _INVERSE or draft.constant(node.inputs[0]) is not None:
        return node
    values = draft.constant(node.inputs[1])
    if values is None or (node.op == "div" and not values.all()):
        return node
    changed = (1 / values.astype(np.float64) if node.op == "div" else -values).astype(values.dtype)
    name = draft.add_constant(f"{node.inputs[1]}.inverse", changed)
    attrs = {"clip": (-inf, inf), "rounding": "single"} if node.op == "sub" else {}
    return draft.change(node, op=_INVERSE[node.op], inputs=(node.inputs[0], name), attrs=attrs)


def _operands(draft: Draft, node: Node) -> tuple[str, Array] | None:
    """Return what is computed and what is constant of an addition or a multiplication."""
    for data, other in (node.inputs, node.inputs[::-1]):
        values = draft.constant(other)
        if values is not None and draft.constant(data) is None:
            shape = draft.tensors[data].shape
            return (data, values) if shape == draft.tensors[node.outputs[0]].shape else None
    return None


def _channels(values: Array, count: int) -> Array | None:
    """Return a constant as (count,), None where it differs along another dimension."""
    if values.size == 1:
        return np.broadcast_to(values.reshape(()), (count,))
    if values.size == count and values.shape[-1] == count:
        return values.reshape(count)
    return None


def _fold_after(draft: Draft, node: Node) -> None:
    operands = _operands(draft, node)
    if operands is None:
        return
    data, values = operands
    producer = draft.producer(data)
    if producer is None or draft.only_reader(data) is None or not _is_real(draft, producer):
        return
    if producer.attrs.get("clip", (-inf, inf)) != (-inf, inf):
        return
    if producer.op in _OUTPUT_AXIS:
        _into_weights(draft, node, producer, values)
    elif producer.op in ("add", "mul"):
        _into_chain(draft, node, producer, values)


def _into_weights(draft: Draft, node: Node, producer: Node, values: Array) -> None:
    count = draft.tensors[producer.outputs[0]].shape[-1]
    channels = _channels(values, count)
    weight = draft.constant(producer.inputs[1])
    bias: Array | None = np.zeros(count, np.float32)
    if len(producer.inputs) > 2:
        bias = draft.constant(producer.inputs[2])
    if channels is None or weight is None or bias is None:
        return
    names = [producer.inputs[0], producer.inputs[1]]
    if node.op == "mul":
        along = [1] * weight.ndim
        along[_OUTPUT_AXIS[producer.op]] = -1
        names[1] = draft.add_constant(producer.inputs[1], weight * channels.reshape(along))
        bias = bias * channels
    else:
        bias = bias + channels
    if node.op == "add" or len(producer.inputs) > 2:
        names.append(draft.add_constant(f"{producer.name}.bias", bias))
    folded = draft.change(producer, inputs=tuple(names))
    if node.op == "add":
        draft.change(folded, attrs={**folded.attrs, "clip": node.attrs["clip"]})
    draft.substitute(node.outputs[0], folded.outputs[0])


def _into_chain(draft: Draft, node: Node, producer: Node, values: Array) -> None:
    """Before: ``(x + a) * b``, ``x * a * b``, ``x + a + b``. After: ``x * b + a b`` and so on."""
    operands = _operands(draft, producer)
    if operands is None:
        return
    source, inner = operands
    if producer.op == node.op:
        joined = inner * values if node.op == "mul" else inner + values
        name = draft.add_constant(f"{node.name}.constant", joined)
        draft.change(node, inputs=(source, name))
        draft.remove(producer)
        return
    if producer.op == "mul":  # a multiplication before an addition is as it shall be
        return
    factor = draft.add_constant(f"{node.name}.factor", values)
    offset = draft.add_constant(f"{node.name}.offset", inner * values)
    multiplied = draft.add(producer.name, "mul", [source, factor], {})
    made = draft.producer(multiplied)
    assert made is not None
    draft.change(node, op="add", inputs=(multiplied, offset), attrs=dict(producer.attrs))
    draft.remove(producer)
    _fold_after(draft, made)


def _fold_before(draft: Draft, node: Node) -> None:
    """Before: ``conv2d(mul(x, f), w)``. After: ``conv2d(x, w f)``, f along the input channels."""
    producer, weight = draft.producer(node.inputs[0]), draft.constant(node.inputs[1])
    if producer is None or producer.op != "mul" or weight is None or node.op == "conv_transpose2d":
        return
    operands = _operands(draft, producer)
    if operands is None or draft.only_reader(producer.outputs[0]) is None:
        return
    source, values = operands
    depth = draft.tensors[source].shape[-1]
    channels = _channels(values, depth)
    if channels is None:
        return
    if node.op == "depthwise_conv2d":
        channels = np.repeat(channels, weight.shape[3] // depth)
    elif weight.shape[-1] != depth:
        if values.size > 1:  # a grouped convolution, or a dense layer of what it flattens
            return
        channels = np.broadcast_to(values.reshape(()), (weight.shape[-1],))
    name = draft.add_constant(node.inputs[1], weight * channels)
    draft.change(node, inputs=(source, name, *node.inputs[2:]))
