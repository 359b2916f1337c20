"""The graph while it is read: nodes are emitted, what is constant is computed at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.ops import MOVEMENTS, OPS
from vdla.compiler.graph.tensor import Array, Quant, Tensor
from vdla.errors import ModelError

from .node import Constant, OnnxNode, Value

__all__ = ["NCHW", "NHWC", "Builder"]

NHWC = (0, 2, 3, 1)
"""What brings an image of ONNX's layout to ours."""
NCHW = (0, 3, 1, 2)
"""What brings it back."""


class Builder:
    """Tensors and nodes read so far, and what each name of the file stands for.

    Parameters
    ----------
    reserved : sequence of str
        Names that nothing emitted may take: those of the file's inputs and outputs.

    Attributes
    ----------
    values : dict of str to Value
    tensors : dict of str to Tensor
    nodes : list of Node
    """

    def __init__(self, reserved: Sequence[str] = ()) -> None:
        self.values: dict[str, Value] = {}
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self._names: set[str] = set(reserved)
        self._repeats: Counter[str] = Counter()
        self._inputs: list[str] = []
        self._materialized: dict[int, Tensor] = {}
        self._kept: list[Constant] = []
        self._current: OnnxNode | None = None
        self._first = 0

    def start(self, node: OnnxNode) -> None:
        """Name what is emitted from here on after a node of the file."""
        self._current = node
        self._first = len(self.nodes)

    def attribute(self, value: Value, name: str) -> None:
        """Note the file's name of what its current node computed, in whichever layout."""
        while isinstance(value, Tensor) and not self.tensors[value.name].source:
            value = replace(self.tensors[value.name], source=name)
            self.tensors[value.name] = value
            makers = [n for n in self.nodes[self._first :] if n.outputs[0] == value.name]
            if not makers or makers[0].op not in ("reshape", "transpose"):
                return
            value = self.tensors[makers[0].inputs[0]]

    def input(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Add an input of the graph."""
        self._inputs.append(name)
        self.values[name] = self.tensors[name] = Tensor(name, shape, dtype, source=name)

    def operand(self, node: OnnxNode, place: int) -> Value:
        """Return what input `place` of a node of the file stands for."""
        if not node.has(place):
            node.refuse(f"it needs an input {place}", "Export the model again")
        return self.values[node.inputs[place]]

    def operands(self, node: OnnxNode) -> list[Value]:
        """Return all inputs, none of which is left out."""
        return [self.operand(node, place) for place in range(len(node.inputs))]

    def known(self, node: OnnxNode, place: int, what: str) -> Array:
        """Return an input that must be constant.

        Raises
        ------
        ModelError
            It is computed.
        """
        value = self.operand(node, place)
        if isinstance(value, Tensor):
            node.refuse(
                f"its {what} must be constant; {value.label} is computed",
                "Export the model with static shapes and parameters",
            )
        return value.value

    def emit(
        self,
        op: str,
        inputs: Sequence[Value],
        *,
        dtype: np.dtype[Any] | type | None = None,
        quant: Quant | None = None,
        **attrs: Any,
    ) -> Tensor:
        """Add a node; its output's shape follows from the table's rule.

        Parameters
        ----------
        op : str
            A key of `vdla.compiler.graph.OPS`.
        inputs : sequence of Value
        dtype : dtype, optional
            Of the output; by default that of the first input.
        quant : Quant, optional
            Of the output.
        **attrs
            Those of the table; a clip and a rounding that change nothing may be left out.
        """
        spec, name = OPS[op], self._unique(f"{op}_{self._place}")
        tensors = [
            self.tensor(value, f"{name}.{_role(spec.inputs, place)}")
            for place, value in enumerate(inputs)
        ]
        kind = np.dtype(tensors[0].dtype if dtype is None else dtype)
        if quant is None and op in MOVEMENTS:
            quant = self.tensors[tensors[0].name].quant
        if "clip" in spec.attrs:
            attrs.setdefault("clip", _range(kind))
        if "rounding" in spec.attrs:
            attrs.setdefault("rounding", "single")
        try:
            shape = spec.shape([t.shape for t in tensors], attrs)
        except ModelError as error:
            raise ModelError(f"{self._label}: {error}") from None
        output = Tensor(f"{name}.out", shape, kind, quant)
        self.tensors[output.name] = output
        names = tuple(t.name for t in tensors)
        source = "" if self._current is None else self._current.proto.name
        self.nodes.append(Node(name, op, names, (output.name,), attrs, source))
        return output

    def quantized(self, tensor: Tensor, quant: Quant) -> Tensor:
        """Return a tensor of integers with a meaning: itself, unless it has another one already."""
        there = self.tensors[tensor.name].quant
        if there is None:
            self._mean(tensor.name, quant)
            return self.tensors[tensor.name]
        if there.same_as(quant):
            return self.tensors[tensor.name]
        bare = self.emit("cast", [tensor], dtype=tensor.dtype)
        self._mean(bare.name, quant)
        return self.tensors[bare.name]

    def _mean(self, name: str, quant: Quant) -> None:
        """Give a tensor a meaning, and what it was moved from or is moved to."""
        if self.tensors[name].quant is not None:
            return
        self.tensors[name] = replace(self.tensors[name], quant=quant)
        if quant.axis is not None:
            return
        for node in self.nodes:
            if node.op in MOVEMENTS and name in (node.inputs[0], node.outputs[0]):
                self._mean(node.inputs[0], quant)
                self._mean(node.outputs[0], quant)

    def tensor(self, value: Value, name: str) -> Tensor:
        """Return a value as a tensor of the graph; a constant becomes one, once."""
        if isinstance(value, Tensor):
            return value
        if id(value) in self._materialized:
            return self._materialized[id(value)]
        if not value.data.size:
            raise ModelError(
                f"{self._label}: every dimension must be at least 1; {value.source or name} has "
                f"shape {value.shape}. Leave out what computes nothing."
            )
        made = self._constant(value, name)
        self._materialized[id(value)] = made
        self._kept.append(value)  # an id stands for a value while the value lives
        return made

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Reorder dimensions: at once where the value is constant, not at all where they stay."""
        order = tuple(int(p) for p in perm)
        if order == tuple(range(len(order))):
            return value
        if isinstance(value, Tensor):
            return self.emit("transpose", [value], perm=order)
        quant = value.quant
        if quant is not None and quant.axis is not None:
            quant = Quant(quant.scale, quant.zero_point, order.index(quant.axis))
        return Constant(np.ascontiguousarray(value.data.transpose(order)), quant, value.source)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Change dimensions: at once where the value is constant, not at all where they stay."""
        sizes = tuple(int(s) for s in shape)
        if sizes == value.shape:
            return value
        if isinstance(value, Tensor):
            return self.emit("reshape", [value], shape=sizes)
        quant = value.quant
        if quant is not None and quant.axis is not None:
            axis = _moved_axis(value.shape, sizes, quant.axis)
            if axis is None:
                return Constant(value.value.reshape(sizes), None, value.source)
            quant = replace(quant, axis=axis)
        return Constant(value.data.reshape(sizes), quant, value.source)

    def finish(self, name: str, outputs: Sequence[str]) -> Graph:
        """Return the graph; its outputs bear the names they have in the file."""
        made = {node.outputs[0] for node in self.nodes}
        renamed: dict[str, str] = {}
        for output in outputs:
            value = self.values[output]
            if isinstance(value, Constant) or value.name not in made or value.name in renamed:
                value = self.emit("reshape", [value], shape=value.shape)
            renamed[value.name] = output
        tensors = [
            replace(t, name=renamed.get(t.name, t.name), source=renamed.get(t.name, t.source))
            for t in self.tensors.values()
        ]
        nodes = [
            replace(
                node,
                inputs=tuple(renamed.get(n, n) for n in node.inputs),
                outputs=tuple(renamed.get(n, n) for n in node.outputs),
            )
            for node in self.nodes
        ]
        for tensor in tensors:
            if tensor.data is not None and tensor.dtype.kind == "f" and np.isnan(tensor.data).any():
                raise ModelError(
                    f"Constants must be numbers; {tensor.label} holds NaN. Train or export the "
                    "model again."
                )
        return Graph(name, tensors, nodes, self._inputs, outputs)

    def _constant(self, value: Constant, name: str) -> Tensor:
        name = self._unique(name)
        data = np.ascontiguousarray(value.data).reshape(value.shape)
        if value.quant is None:
            tensor = Tensor(name, data.shape, data.dtype, data=data, source=value.source)
            self.tensors[name] = tensor
            return tensor
        stored = Tensor(
            f"{name}.stored", data.shape, data.dtype, value.quant, data, source=value.source
        )
        real = Tensor(name, data.shape, np.dtype(np.float32))
        self.tensors |= {stored.name: stored, real.name: real}
        node = self._unique(f"dequantize_{self._place}")
        self.nodes.append(Node(node, "dequantize", (stored.name,), (real.name,), {}))
        return real

    @property
    def _place(self) -> str:
        return "0" if self._current is None else str(self._current.index)

    @property
    def _label(self) -> str:
        return "The graph" if self._current is None else self._current.label

    def _unique(self, name: str) -> str:
        chosen = name
        while chosen in self._names or chosen in self.tensors:
            self._repeats[name] += 1
            chosen = f"{name}_{self._repeats[name]}"
        self._names.add(chosen)
        return chosen


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind not in "iu":
        return (-inf, inf)
    return (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _moved_axis(old: Sequence[int], new: Sequence[int], axis: int) -> int | None:
    """Return where a reshape leaves a dimension that it neither splits nor joins."""
    for place, size in enumerate(new):
        if size == old[axis] and prod(new[:place]) == prod(old[:axis]):
            return place
    return None


def _role(roles: Sequence[str], place: int) -> str:
    return roles[min(place, len(roles) - 1)] if place < len(roles) else f"input_{place}"
