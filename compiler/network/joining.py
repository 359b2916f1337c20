"""Concatenations that need no copy: their parts are written into one buffer."""

from __future__ import annotations

from collections.abc import Collection

from vdla.compiler.graph import Graph, Node

__all__ = ["join_refusal"]

_DTYPES = ("int8", "uint8")


def join_refusal(graph: Graph, node: Node, block: int, on_vdla: Collection[str]) -> str | None:
    """Return why a concatenation needs a copy, None where its parts can lie side by side.

    Channels lie in blocks, one after the other, all places of the image in each; so parts of whole
    blocks one behind the other are their concatenation.

    Before: ``a (1, 8, 8, 32) to 0x1000; b (1, 8, 8, 16) to 0x3000; concat a, b (1, 8, 8, 48)``.
    After: ``a to 0x1000; b to 0x1800``, and the concatenation is what lies from 0x1000 on.

    Parameters
    ----------
    graph : Graph
    node : Node
        The concatenation, of images or vectors.
    block : int
        Channels of a block.
    on_vdla : collection of str
        Nodes on VDLA, by name.
    """
    inputs, output = graph.input_tensors(node), graph.output_tensor(node)
    if node.attrs["axis"] != len(output.shape) - 1:
        return f"it joins along axis {node.attrs['axis']}, not along channels"
    if output.quant is None or not output.quant.per_tensor or str(output.dtype) not in _DTYPES:
        return f"{output.label} is {output.dtype}, not int8 or uint8 with one scale"
    for tensor in inputs:
        if tensor.is_constant:
            return f"{tensor.label} is constant"
        if tensor.dtype != output.dtype or tensor.quant is None:
            return f"{tensor.label} is of another type than {output.label}"
        if not tensor.quant.same_as(output.quant):
            return f"{tensor.label} has another scale than {output.label}"
    for tensor in inputs[:-1]:
        if tensor.shape[-1] % block:
            return f"{tensor.label} ends within a block of {block} channels"
    if len({tensor.name for tensor in inputs}) < len(inputs):
        return "it joins a tensor with itself"
    makers = [graph.producer(tensor.name) for tensor in inputs]
    if any(maker is not None and maker.op == "reshape" for maker in makers):
        return "it joins a reshape's output"
    if not any(maker is not None and maker.name in on_vdla for maker in makers):
        return "nothing that it joins is on vdla"
    return None
