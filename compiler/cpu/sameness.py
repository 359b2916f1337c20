"""Which groups do the same, on other weights: they share a kernel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.graph.keys import frozen, quant_key

__all__ = ["group_key"]


def group_key(graph: Graph, nodes: Sequence[Node]) -> Hashable:
    """Return what is equal for groups whose kernels are: operators, shapes, how they connect.

    Constants count by shape alone where kernels read them, and by value where a definition puts
    them into the code: single numbers, and what integers stand for.
    """
    numbers: dict[str, int] = {}
    key = []
    for node in nodes:
        for name in (*node.inputs, *node.outputs):
            numbers.setdefault(name, len(numbers))
        tensors = [*graph.input_tensors(node), graph.output_tensor(node)]
        key.append(
            (
                node.op,
                frozen(node.attrs),
                tuple(numbers[name] for name in (*node.inputs, *node.outputs)),
                tuple(map(_tensor, tensors)),
            )
        )
    return tuple(key)


def _tensor(tensor: Tensor) -> Hashable:
    value = None if tensor.data is None else tensor.data.tobytes() if tensor.size == 1 else True
    return (tensor.shape, str(tensor.dtype), value, quant_key(tensor.quant))
