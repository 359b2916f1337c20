"""Sinking transposes until they meet and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vdla.compiler.graph import OPS, Graph, Node, Quant, Tensor

from .dead_code import dead_code
from .draft import Draft
from .idle_moves import without_idle_moves
from .layout_rules import BROADCASTING, ELEMENTWISE, RULES, moves_only_ones, regroup

__all__ = ["settle_layouts"]

Perm = tuple[int, ...]

_CHANNELS_FIRST = (0, 3, 1, 2)


def settle_layouts(graph: Graph) -> Graph:
    """Move transposes behind what can work on the other layout; there they cancel or stay once.

    Before: ``conv2d, transpose to NCHW, relu, transpose to NHWC, conv2d``. After: ``conv2d, relu,
    conv2d``.

    A transpose that a dense layer reads flattened goes into the order of its weights' columns; one
    that moves no element becomes a reshape.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None or current.name != node.name:
            continue
        if current.op == "dense":
            _reorder_columns(draft, current)
        elif current.op == "reshape":
            _sink_through_reshape(draft, current)
        elif current.op in RULES:
            _sink(draft, current)
    settled = without_idle_moves(dead_code(draft.finish()))
    # A transpose with many readers has sunk once behind each, which must not cost more than before.
    return settled if _moved(settled) <= _moved(graph) else without_idle_moves(graph)


def _moved(graph: Graph) -> int:
    """Return the elements that transposes move."""
    return sum(graph.output_tensor(n).size for n in graph.nodes if n.op == "transpose")


def _sink(draft: Draft, node: Node) -> None:
    perm = _common_perm(draft, node)
    if perm is None:
        return
    rank = len(perm)
    if node.op in ("quantize", "dequantize") and _per_axis(draft, node):
        return
    sources = [_source(draft, name, perm, node.op in BROADCASTING) for name in node.inputs]
    moved = RULES[node.op](node.attrs, perm, draft.tensors[node.inputs[0]].shape)
    assert rank
    _replace(draft, node, sources, moved.attrs, moved.perm)


def _common_perm(draft: Draft, node: Node) -> Perm | None:
    """Return the permutation that every input went through, or can be made to have gone through."""
    perms = {p for name in node.inputs if (p := _perm_of(draft, name)) is not None}
    if len(perms) != 1:
        return None
    perm = next(iter(perms))
    shape = draft.tensors[node.outputs[0]].shape
    if node.op in (*BROADCASTING, "concat") and len(shape) != len(perm):
        return None
    for name in node.inputs:
        tensor = draft.tensors[name]
        if _perm_of(draft, name) is not None:
            continue
        if tensor.is_constant and len(tensor.shape) <= len(perm):
            if tensor.quant is not None and tensor.quant.axis is not None:
                return None
            continue
        full = (1,) * (len(perm) - len(tensor.shape)) + tensor.shape
        if len(tensor.shape) > len(perm) or not moves_only_ones(full, _inverse(perm)):
            return None
    return perm


def _source(draft: Draft, name: str, perm: Perm, broadcast: bool) -> str:
    """Return the input as it was before the permutation."""
    producer = draft.producer(name)
    if producer is not None and producer.op == "transpose" and producer.attrs["perm"] == perm:
        return producer.inputs[0]
    tensor = draft.tensors[name]
    if tensor.size == 1 and broadcast:
        return name
    full = (1,) * (len(perm) - len(tensor.shape)) + tensor.shape
    shape = tuple(full[d] for d in _inverse(perm))
    if tensor.data is not None:
        data = np.ascontiguousarray(tensor.data.reshape(full).transpose(_inverse(perm)))
        return draft.add_constant(f"{name}.transposed", data, tensor.quant)
    return draft.add(f"{name}.reshape", "reshape", [name], {"shape": shape}, quant=tensor.quant)


def _sink_through_reshape(draft: Draft, node: Node) -> None:
    perm = _perm_of(draft, node.inputs[0])
    if perm is None:
        return
    producer = draft.producer(node.inputs[0])
    assert producer is not None
    source = draft.tensors[producer.inputs[0]]
    target = draft.tensors[node.outputs[0]].shape
    if moves_only_ones(source.shape, perm):
        draft.change(node, inputs=(source.name,))
        return
    first, shape, last = regroup(draft.tensors[node.inputs[0]].shape, target, perm)
    inputs = source.name
    if not moves_only_ones(source.shape, first):
        if last != _CHANNELS_FIRST:  # two transposes for one, unless the next operator takes one
            return
        inputs = draft.add(
            f"{node.name}.shuffle", "transpose", [inputs], {"perm": first}, quant=source.quant
        )
    _replace(draft, node, [inputs], {"shape": shape}, last)


def _reorder_columns(draft: Draft, node: Node) -> None:
    """Let a dense layer read x flattened as it lies: its weights' columns are put in that order.

    Before: ``transpose (1, 2, 3, 8) to (1, 8, 2, 3), reshape to (1, 48), dense``. After:
    ``reshape to (1, 48), dense``.
    """
    chain = draft.producer(node.inputs[0])
    while chain is not None and chain.op in ELEMENTWISE and draft.only_reader(chain.outputs[0]):
        chain = draft.producer(chain.inputs[0])
    if chain is None or chain.op != "reshape" or draft.only_reader(chain.outputs[0]) is None:
        return
    perm = _perm_of(draft, chain.inputs[0])
    moved = draft.tensors[chain.inputs[0]].shape
    flat = draft.tensors[chain.outputs[0]].shape
    weight = draft.tensors[node.inputs[1]]
    if perm is None or perm[0] != 0 or flat != (moved[0], weight.shape[1]):
        return
    columns = (0, *_inverse(perm)[1:])

    def reordered(tensor: Tensor) -> str:
        assert tensor.data is not None
        data = tensor.data.reshape(-1, *moved[1:]).transpose(columns).reshape(tensor.shape)
        return draft.add_constant(tensor.name, np.ascontiguousarray(data), tensor.quant)

    stored = draft.producer(weight.name)
    if weight.is_constant:
        name = reordered(weight)
    elif (
        stored is not None
        and stored.op == "dequantize"
        and (draft.tensors[stored.inputs[0]].is_constant)
    ):
        name = draft.add(
            stored.name,
            "dequantize",
            [reordered(draft.tensors[stored.inputs[0]])],
            {},
            dtype=weight.dtype,
        )
    else:
        return
    transpose = draft.producer(chain.inputs[0])
    assert transpose is not None
    draft.change(chain, inputs=transpose.inputs)
    draft.change(node, inputs=(node.inputs[0], name, *node.inputs[2:]))


def _replace(
    draft: Draft, node: Node, inputs: Sequence[str], attrs: dict[str, object], perm: Perm
) -> None:
    """Put `node` on other inputs, and a transpose behind it that gives what it gave."""
    if perm == tuple(range(len(perm))):
        if node.op == "transpose" and attrs["perm"] == perm:
            draft.substitute(node.outputs[0], inputs[0])
            return
        draft.change(node, inputs=tuple(inputs), attrs=attrs)
        return
    changed = replace(node, inputs=tuple(inputs), attrs=attrs)
    shape = OPS[node.op].shape([draft.tensors[t].shape for t in inputs], attrs)
    draft.put_behind(node, "transpose", {"perm": perm}, changed=changed, shape=shape)


def _perm_of(draft: Draft, tensor: str) -> Perm | None:
    producer = draft.producer(tensor)
    return producer.attrs["perm"] if producer is not None and producer.op == "transpose" else None


def _inverse(perm: Perm) -> Perm:
    return tuple(perm.index(d) for d in range(len(perm)))


def _per_axis(draft: Draft, node: Node) -> bool:
    quants: list[Quant | None] = [draft.tensors[t].quant for t in (*node.inputs, *node.outputs)]
    return any(quant is not None and quant.axis is not None for quant in quants)
