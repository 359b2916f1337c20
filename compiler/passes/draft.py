"""A graph that is being changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler.graph import OPS, Graph, Node, Quant, Tensor
from vdla.compiler.graph.tensor import Array

__all__ = ["Draft"]


class Draft:
    """Nodes and tensors of a graph, open to changes; names of inputs and outputs stay.

    Parameters
    ----------
    graph : Graph

    Attributes
    ----------
    tensors : dict of str to Tensor
    inputs, outputs : tuple of str
    """

    def __init__(self, graph: Graph) -> None:
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self._name = graph.name
        self._nodes = {node.name: node for node in graph.nodes}
        self._producer = {node.outputs[0]: node.name for node in graph.nodes}
        self._readers: dict[str, dict[str, None]] = {}
        for node in graph.nodes:
            self._note(node)

    @property
    def nodes(self) -> list[Node]:
        """The nodes as they are now; those that were there first keep their order."""
        return list(self._nodes.values())

    def node(self, name: str) -> Node:
        """Return the node of a name as it is now."""
        return self._nodes[name]

    def producer(self, tensor: str) -> Node | None:
        """Return the node that computes a tensor; None for inputs and constants."""
        name = self._producer.get(tensor)
        return None if name is None else self._nodes[name]

    def readers(self, tensor: str) -> list[Node]:
        """Return the nodes that read a tensor, each once."""
        return [self._nodes[name] for name in self._readers.get(tensor, ())]

    def only_reader(self, tensor: str) -> Node | None:
        """Return the one node that reads a tensor, None where others or the caller do too."""
        readers = self.readers(tensor)
        return readers[0] if len(readers) == 1 and tensor not in self.outputs else None

    def constant(self, tensor: str) -> Array | None:
        """Return a constant's data, None for what is computed."""
        return self.tensors[tensor].data

    def add_constant(self, name: str, data: Array, quant: Quant | None = None) -> str:
        """Add a constant; return its name."""
        name = self._unique(name, self.tensors)
        self.tensors[name] = Tensor(
            name, data.shape, data.dtype, quant, np.ascontiguousarray(data).reshape(data.shape)
        )
        return name

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Any],
        *,
        dtype: np.dtype[Any] | None = None,
        quant: Quant | None = None,
        source: str = "",
    ) -> str:
        """Add a node; return its output, whose shape follows from the table's rule."""
        name = self._unique(name, self._nodes)
        shape = OPS[op].shape([self.tensors[t].shape for t in inputs], attrs)
        output = self._unique(f"{name}.out", self.tensors)
        kind = self.tensors[inputs[0]].dtype if dtype is None else dtype
        self.tensors[output] = Tensor(output, shape, kind, quant, source=source)
        node = Node(name, op, tuple(inputs), (output,), dict(attrs))
        self._nodes[name] = node
        self._producer[output] = name
        self._note(node)
        return output

    def change(self, node: Node, **fields: Any) -> Node:
        """Put another node of the same name and output in a node's place."""
        self._forget(node)
        changed = replace(node, **fields)
        self._nodes[node.name] = changed
        self._note(changed)
        return changed

    def put_behind(
        self,
        node: Node,
        op: str,
        attrs: Mapping[str, Any],
        *,
        changed: Node,
        **fields: Any,
    ) -> None:
        """Change a node, and put another behind it that makes of its output what it was before.

        Whoever read the output reads that of the second node. The first keeps its output's name
        unless that is one of the graph's.

        Parameters
        ----------
        node : Node
        op : str
            Of the second node.
        attrs : mapping
            Of the second node.
        changed : Node
            What takes the node's place: of its name, with other inputs, attributes or operator.
        **fields
            What is new of its output: dtype, quant, shape.
        """
        old = self.tensors[node.outputs[0]]
        between = self._unique(f"{old.name}.{op}", self.tensors)
        inner, outer = (between, old.name) if old.name in self.outputs else (old.name, between)
        readers = self.readers(old.name)
        self._forget(node)
        del self._producer[old.name]
        self.tensors[outer] = replace(old, name=outer)
        self.tensors[inner] = replace(old, name=inner, **fields)
        behind = Node(
            self._unique(f"{node.name}.{op}", self._nodes), op, (inner,), (outer,), dict(attrs)
        )
        for made in (replace(changed, outputs=(inner,)), behind):
            self._nodes[made.name], self._producer[made.outputs[0]] = made, made.name
            self._note(made)
        for reader in readers:
            current = self._nodes[reader.name]
            inputs = tuple(outer if t == old.name else t for t in current.inputs)
            self.change(current, inputs=inputs)

    def retype(self, tensor: str, **fields: Any) -> None:
        """Change a tensor's shape, dtype, quant or data."""
        self.tensors[tensor] = replace(self.tensors[tensor], **fields)

    def remove(self, node: Node) -> None:
        """Take a node away, and its output with it."""
        self._forget(node)
        del self._nodes[node.name], self._producer[node.outputs[0]]
        self.tensors.pop(node.outputs[0], None)

    def substitute(self, old: str, new: str) -> None:
        """Let whoever reads `old` read `new`; the node that computed `old` goes.

        An output keeps its name: `new` takes it, or is copied to it by a reshape where it is an
        input, a constant or another output.
        """
        producer = self.producer(old)
        assert producer is not None
        for reader in self.readers(old):
            self.change(reader, inputs=tuple(new if t == old else t for t in reader.inputs))
        if old not in self.outputs:
            self.remove(producer)
            return
        maker = self.producer(new)
        if maker is None or new in self.outputs:
            shape = self.tensors[old].shape
            self.change(producer, op="reshape", inputs=(new,), attrs={"shape": shape})
            self.retype(old, quant=self.tensors[new].quant)
            return
        made = self.tensors[new]
        self.remove(producer)
        self._rename(maker, made, old)

    def finish(self) -> Graph:
        """Return the graph, in an order in which it can run, without tensors nobody needs."""
        nodes = list(self._ordered())
        used = {t for node in nodes for t in (*node.inputs, *node.outputs)}
        used.update([*self.inputs, *self.outputs])
        tensors = [t for name, t in self.tensors.items() if name in used]
        return Graph(self._name, tensors, nodes, self.inputs, self.outputs)

    def _rename(self, maker: Node, made: Tensor, name: str) -> None:
        readers = self.readers(made.name)
        self._forget(maker)
        del self._producer[made.name], self.tensors[made.name]
        changed = replace(maker, outputs=(name,))
        self._nodes[maker.name], self._producer[name] = changed, maker.name
        self.tensors[name] = replace(made, name=name)
        self._note(changed)
        for reader in readers:
            inputs = tuple(name if t == made.name else t for t in reader.inputs)
            self.change(reader, inputs=inputs)

    def _ordered(self) -> Iterator[Node]:
        done: set[str] = set()
        for root in self._nodes.values():
            waiting = [root]
            while waiting:
                node = waiting[-1]
                if node.name in done:
                    waiting.pop()
                    continue
                before = [self._producer[t] for t in node.inputs if t in self._producer]
                missing = [name for name in before if name not in done]
                if missing:
                    waiting += [self._nodes[name] for name in reversed(missing)]
                    continue
                waiting.pop()
                done.add(node.name)
                yield node

    def _note(self, node: Node) -> None:
        for tensor in node.inputs:
            self._readers.setdefault(tensor, {})[node.name] = None

    def _forget(self, node: Node) -> None:
        for tensor in set(node.inputs):
            self._readers[tensor].pop(node.name, None)

    @staticmethod
    def _unique(name: str, taken: Mapping[str, Any]) -> str:
        chosen, count = name, 0
        while chosen in taken:
            count += 1
            chosen = f"{name}_{count}"
        return chosen
