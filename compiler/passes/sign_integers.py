"""Moving unsigned bytes to signed ones."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph import MOVEMENTS, Graph, Node, Quant, Tensor

from .draft import Draft

__all__ = ["MOVED", "sign_integers"]

MOVED = MOVEMENTS | {"concat"}
"""Operators that move elements, or pick one, and so mean the same for integers as for reals."""

_OFFSET = 128


def sign_integers(graph: Graph) -> Graph:
    """Let int8 take the place of uint8, 128 less, between quantize and dequantize.

    Reals stay what they are, so that activations and weights come to share a type. Where a uint8
    tensor meets another operator it stays, and so does its neighbourhood.

    Before: ``quantize to uint8 (zero point 120), dequantize``. After: ``quantize to int8 (zero
    point -8), dequantize``. An input or output of the graph keeps its type behind or before a
    quantize between the two.
    """
    chosen = _convertible(graph)
    if not chosen:
        return graph
    draft = Draft(graph)
    for name in chosen:
        _sign(draft, graph.tensors[name])
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None or node.op not in MOVED or node.inputs[0] not in chosen:
            continue
        attrs = dict(node.attrs)
        if "value" in attrs:
            attrs["value"] = attrs["value"] - _OFFSET
        if "clip" in attrs:
            attrs["clip"] = tuple(bound - _OFFSET for bound in attrs["clip"])
        draft.change(draft.node(node.name), attrs=attrs)
    return draft.finish()


def _sign(draft: Draft, tensor: Tensor) -> None:
    quant, data, dtype = tensor.quant, tensor.data, np.dtype(np.int8)
    assert quant is not None
    quant = Quant(quant.scale, quant.zero_point - _OFFSET, quant.axis)
    attrs = {"rounding": "single"}
    if tensor.name in draft.inputs:
        readers = draft.readers(tensor.name)
        name = f"{tensor.name}.signed"
        moved = draft.add(name, "quantize", [tensor.name], attrs, dtype=dtype, quant=quant)
        for reader in readers:
            inputs = tuple(moved if t == tensor.name else t for t in reader.inputs)
            draft.change(reader, inputs=inputs)
    elif tensor.name in draft.outputs:
        producer = draft.producer(tensor.name)
        assert producer is not None
        draft.put_behind(producer, "quantize", attrs, changed=producer, dtype=dtype, quant=quant)
    else:
        if data is not None:
            data = (data.astype(np.int16) - _OFFSET).astype(dtype)
        draft.retype(tensor.name, dtype=dtype, quant=quant, data=data)


def _convertible(graph: Graph) -> set[str]:
    """Return the uint8 tensors whose neighbours can all work on int8 as well."""
    chosen = {t.name for t in graph.tensors.values() if _is_bytes(graph, t)}
    while True:
        lost = set()
        for node in graph.nodes:
            around = {*node.inputs, *node.outputs} & chosen
            moves = node.op in MOVED and around >= _bytes_of(graph, node)
            if around and node.op not in ("dequantize", "quantize") and not moves:
                lost |= around
        if not lost:
            return chosen
        chosen -= lost


def _is_bytes(graph: Graph, tensor: Tensor) -> bool:
    """Whether a tensor is quantized uint8 that can be moved, or given a quantize that moves it."""
    if tensor.dtype != np.uint8 or tensor.quant is None:
        return False
    if tensor.name in graph.outputs and graph.producer(tensor.name) is None:
        return False
    outside = tensor.name in graph.inputs or tensor.name in graph.outputs
    return tensor.quant.axis is None or not outside


def _bytes_of(graph: Graph, node: Node) -> set[str]:
    """Return the tensors around a movement that must share its type; indices need not."""
    names = node.inputs if node.op == "concat" else node.inputs[:1]
    return {*names, *node.outputs}
