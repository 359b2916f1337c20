"""The graph: nodes in topological order over named tensors, checked when it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vdla.errors import ModelError

from .images import shares_pass
from .ops import OPS, check_node
from .tensor import Tensor

__all__ = ["Graph", "Node"]


@dataclass(frozen=True, eq=False)
class Node:
    """One operator.

    Parameters
    ----------
    name : str
        Unique in its graph.
    op : str
        A key of `vdla.compiler.graph.OPS`.
    inputs, outputs : tuple of str
        Tensor names, in the order that the operator table gives.
    attrs : mapping
        The attributes that the operator table gives.
    source : str
        The name of the operator in the file, which others may share; "" where it has none.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: operators in an order in which they can run.

    Parameters
    ----------
    name : str
    tensors : mapping of str to Tensor
        Every activation and constant by name. A sequence of tensors is taken too.
    nodes : sequence of Node
        Topological.
    inputs, outputs : sequence of str
        Tensor names.

    Raises
    ------
    ModelError
        Two nodes or tensors share a name, an edge leads nowhere, the nodes form a cycle or stand
        out of order, an operator or its attributes are not in the table, or a shape differs from
        the one inferred.
    """

    name: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __init__(
        self,
        name: str,
        tensors: Mapping[str, Tensor] | Iterable[Tensor],
        nodes: Sequence[Node],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        every = list(tensors.values() if isinstance(tensors, Mapping) else tensors)
        _refuse_repeated("Tensor", (t.name for t in every))
        _refuse_repeated("Node", (n.name for n in nodes))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "tensors", {t.name: t for t in every})
        object.__setattr__(self, "nodes", tuple(nodes))
        object.__setattr__(self, "inputs", tuple(inputs))
        object.__setattr__(self, "outputs", tuple(outputs))
        self._check_edges()
        for node in self.nodes:
            check_node(node.name, node.op, *self._sides(node), node.attrs)

    def node(self, name: str) -> Node:
        """Return the node called `name`.

        Raises
        ------
        ModelError
            There is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise ModelError(
            f"A node must be one of the graph's, not {name!r}. "
            f"{self.name!r} has: {', '.join(n.name for n in self.nodes)}."
        )

    def producer(self, tensor: str) -> Node | None:
        """Return the node that computes `tensor`; None for graph inputs and constants."""
        return self._producers.get(tensor)

    def consumers(self, tensor: str) -> tuple[Node, ...]:
        """Return the nodes that read `tensor`, in order, each once."""
        return self._consumers.get(tensor, ())

    def input_tensors(self, node: Node) -> tuple[Tensor, ...]:
        """Return the tensors `node` reads."""
        return tuple(self.tensors[name] for name in node.inputs)

    def output_tensor(self, node: Node) -> Tensor:
        """Return the tensor `node` computes; every operator has one output."""
        return self.tensors[node.outputs[0]]

    def part(self, nodes: Sequence[Node]) -> Graph:
        """Return a graph of some of the nodes, in order, with their constants.

        What they read that others compute becomes an input, what others read or the graph gives
        out an output; where nothing is, what the last node computes.
        """
        made = {tensor for node in nodes for tensor in node.outputs}
        read = dict.fromkeys(tensor for node in nodes for tensor in node.inputs)
        inside = {node.name for node in nodes}
        outputs = [
            tensor
            for node in nodes
            for tensor in node.outputs
            if tensor in self.outputs or any(n.name not in inside for n in self.consumers(tensor))
        ]
        return Graph(
            nodes[-1].name,
            [self.tensors[name] for name in dict.fromkeys([*read, *made])],
            nodes,
            [name for name in read if name not in made and not self.tensors[name].is_constant],
            outputs or nodes[-1].outputs,
        )

    def macs(self, node: Node) -> int:
        """Return the multiply-accumulates of `node`, taps on padding counted; 0 if it has none."""
        count = OPS[node.op].macs
        return 0 if count is None else count(*self._sides(node))

    @cached_property
    def per_image(self) -> bool:
        """Whether n images may run at once, on axis 0 of every activation; one by one if not."""
        given = [self.tensors[name] for name in (*self.inputs, *self.outputs)]
        image_axes = all(not t.is_constant and t.shape[:1] == (1,) for t in given)
        return (
            bool(self.inputs)
            and image_axes
            and all(
                shares_pass(
                    OPS[node.op].per_image,
                    self.input_tensors(node),
                    self.output_tensor(node),
                    node.attrs,
                )
                for node in self.nodes
            )
        )

    @cached_property
    def _producers(self) -> dict[str, Node]:
        return {tensor: node for node in self.nodes for tensor in node.outputs}

    @cached_property
    def _consumers(self) -> dict[str, tuple[Node, ...]]:
        readers: dict[str, tuple[Node, ...]] = {}
        for node in self.nodes:
            for tensor in dict.fromkeys(node.inputs):
                readers[tensor] = (*readers.get(tensor, ()), node)
        return readers

    def _sides(self, node: Node) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return self.input_tensors(node), tuple(self.tensors[name] for name in node.outputs)

    def _check_edges(self) -> None:
        named = [*self.inputs, *self.outputs]
        named += [t for node in self.nodes for t in (*node.inputs, *node.outputs)]
        missing = sorted({t for t in named if t not in self.tensors})
        if missing:
            raise ModelError(
                "Every edge must lead to a tensor of the graph; "
                f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} not in "
                f"{self.name!r}. Add the tensors or drop the edges."
            )
        ready = {t.name for t in self.tensors.values() if t.is_constant} | set(self.inputs)
        written = Counter([*ready, *(t for node in self.nodes for t in node.outputs)])
        twice = [tensor for tensor, count in written.items() if count > 1]
        if twice:
            raise ModelError(
                f"A tensor must have one source; {twice[0]!r} has {written[twice[0]]}. "
                "Give each node outputs of its own."
            )
        self._check_order(ready)

    def _check_order(self, ready: set[str]) -> None:
        later = {t for node in self.nodes for t in node.outputs}
        for node in self.nodes:
            unready = [t for t in node.inputs if t not in ready]
            if unready and unready[0] in later:
                raise ModelError(
                    f"Nodes must stand after what they read; {node.name!r} reads {unready[0]!r} "
                    "before it is computed. Sort the nodes, or break the cycle if there is one."
                )
            if unready:
                raise ModelError(
                    f"Every tensor that is read must have a source; {node.name!r} reads "
                    f"{unready[0]!r}, which nothing computes. Make it a graph input or a constant."
                )
            ready |= set(node.outputs)
        lost = [t for t in self.outputs if t not in ready]
        if lost:
            raise ModelError(
                f"Every graph output must have a source; nothing computes {lost[0]!r}. "
                "Name an output that a node computes."
            )


def _refuse_repeated(kind: str, names: Iterable[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ModelError(
            f"{kind} names must be unique; {repeated[0]!r} is used more than once. "
            "Rename all but one."
        )
