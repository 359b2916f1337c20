"""Operators cut out of a network to be tuned alone, their weights drawn anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.graph.keys import frozen

from .task import Task

__all__ = ["Fragment", "counted", "shape_of"]

_T = TypeVar("_T")

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Fragment:
    """An operator and what is fused to it.

    Parameters
    ----------
    graph : Graph
        Of those operators alone, as `of` cuts it out.
    spreads : mapping of str to float
        Standard deviations of the first operator's weights by name: how long it takes does not
        depend on them, so that they are drawn, the same in every process, and need not be sent.
    """

    graph: Graph
    spreads: Mapping[str, float]

    @classmethod
    def of(cls, graph: Graph, nodes: Sequence[Node]) -> Fragment:
        """Cut operators that follow one another out of a graph."""
        names = dict.fromkeys(name for node in nodes for name in (*node.inputs, *node.outputs))
        spreads = {
            tensor.name: float(np.std(tensor.data, dtype=np.float64))
            for tensor in graph.input_tensors(nodes[0])[:2]
            if tensor.data is not None
        }
        return cls.drawn([graph.tensors[name] for name in names], nodes, spreads)

    @classmethod
    def drawn(
        cls, tensors: Sequence[Tensor], nodes: Sequence[Node], spreads: Mapping[str, float]
    ) -> Fragment:
        """Return what `sent` was made of, the weights drawn anew."""
        made = {name for node in nodes for name in node.outputs}
        every = {t.name: t for t in tensors}
        for name, spread in spreads.items():
            every[name] = replace(every[name], data=_weights(every[name], spread))
        inputs = [t.name for t in every.values() if t.name not in made and not t.is_constant]
        return cls(Graph("fragment", every, nodes, inputs, nodes[-1].outputs), spreads)

    @property
    def sent(self) -> tuple[Sequence[Tensor], Sequence[Node], Mapping[str, float]]:
        """What another process needs of it: the weights are left out."""
        tensors = [
            replace(t, data=None) if t.name in self.spreads else t
            for t in self.graph.tensors.values()
        ]
        return tensors, self.graph.nodes, self.spreads


def shape_of(graph: Graph, nodes: Sequence[Node]) -> dict[str, Any]:
    """Return what the time of operators depends on, for the key of a task.

    Shapes, dtypes and attributes of the operators and how they are connected, and neither weights
    nor scales.

    Parameters
    ----------
    graph : Graph
    nodes : sequence of Node
        That follow one another; the first one has two operands or more.
    """
    numbers: dict[str, int] = {}
    for node in nodes:
        for name in (*node.inputs, *node.outputs):
            numbers.setdefault(name, len(numbers))
    head, *rest = nodes
    x, weight, *_ = graph.input_tensors(head)
    shape: dict[str, Any] = {
        "op": head.op,
        "input": list(x.shape),
        "weight": list(weight.shape),
        "dtypes": [str(x.dtype), str(weight.dtype), str(graph.output_tensor(head).dtype)],
        "inputs": len(head.inputs),
        **{name: repr(frozen(value)) for name, value in sorted(head.attrs.items())},
    }
    if rest:
        shape["fused"] = [_described(graph, node, numbers) for node in rest]
    return shape


def counted(
    parts: Iterable[tuple[Node, ...]],
    task: Callable[[tuple[Node, ...]], Task],
    template: Callable[[tuple[Node, ...]], _T],
) -> list[tuple[_T, int]]:
    """Return the templates of a network's parts, one a task, and how often each task occurs."""
    first: dict[str, tuple[Node, ...]] = {}
    often: dict[str, int] = {}
    for nodes in parts:
        key = task(nodes).key
        first.setdefault(key, nodes)
        often[key] = often.get(key, 0) + 1
    return [(template(nodes), often[key]) for key, nodes in first.items()]


def _weights(weight: Tensor, spread: float) -> Array:
    """Return weights of a spread, integers around their mean zero point."""
    drawn: Array = np.random.default_rng(0).standard_normal(weight.shape, np.float32)
    drawn *= np.float32(spread)
    if weight.dtype.kind == "f":
        return drawn.astype(weight.dtype)
    zero = 0 if weight.quant is None else round(float(weight.quant.zero_point.mean()))
    limits = np.iinfo(weight.dtype)
    kept: Array = np.clip(np.rint(drawn) + zero, limits.min, limits.max)
    return kept.astype(weight.dtype)


def _described(graph: Graph, node: Node, numbers: Mapping[str, int]) -> str:
    operands = [
        f"%{numbers[t.name]} {t.dtype}{list(t.shape)}{' constant' * t.is_constant}"
        for t in graph.input_tensors(node)
    ]
    return f"{node.op}({', '.join(operands)}) {frozen(node.attrs)!r}"
