"""The ONNX model while it is written: each tensor in the layouts and types it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.graph.tensor import Array

from .build import NCHW, NHWC

__all__ = ["Writer"]


class Writer:
    """Nodes and initializers written so far.

    A tensor of the graph may stand in the model in up to four forms: its dimensions as in the graph
    or, of an image, channels first; its integers, or the reals that they stand for. A form is made
    from another one when it is first asked for, so that transposes stand only where a layout
    really changes.

    Parameters
    ----------
    graph : Graph

    Attributes
    ----------
    nodes : list of onnx.NodeProto
    initializers : list of onnx.TensorProto
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._forms: dict[tuple[str, bool, bool], str] = {}
        self._constants: dict[bytes, str] = {}
        # What the graph calls its tensors stays theirs.
        self._names = set(graph.tensors)

    def node(self, op: str, inputs: Sequence[str], hint: str, **attrs: Any) -> str:
        """Write a node of one output; return the output's name."""
        output = self._unique(f"{hint}.{op.lower()}")
        self.nodes.append(helper.make_node(op, list(inputs), [output], output, **attrs))
        return output

    def constant(self, values: Array, hint: str) -> str:
        """Write an initializer, once for equal values."""
        data = np.ascontiguousarray(values).reshape(values.shape)
        key = repr((data.shape, str(data.dtype))).encode() + data.tobytes()
        if key not in self._constants:
            self._constants[key] = self._unique(hint)
            self.initializers.append(numpy_helper.from_array(data, self._constants[key]))
        return self._constants[key]

    def integers(self, values: Sequence[int], hint: str) -> str:
        """Write an int64 vector, which shapes, axes and paddings are."""
        return self.constant(np.asarray(values, np.int64), hint)

    def get(self, tensor: Tensor, *, first: bool = False, real: bool = True) -> str:
        """Return the name of a form of a tensor, made if it is not there.

        Parameters
        ----------
        tensor : Tensor
        first : bool
            Channels first; of images (rank 4) alone.
        real : bool
            The reals that a quantized tensor stands for.
        """
        real = real and tensor.quant is not None
        key = (tensor.name, first, real)
        if key in self._forms:
            return self._forms[key]
        if tensor.data is not None and not real:
            data = tensor.data.transpose(NCHW) if first else tensor.data
            made = self.constant(data, f"{tensor.name}.first" if first else tensor.name)
        elif real:
            made = self.dequantized(self.get(tensor, first=first, real=False), tensor, first)
        else:
            other = self._forms[tensor.name, not first, real]
            perm = NCHW if first else NHWC
            made = self.node("Transpose", [other], tensor.name, perm=perm)
        self._forms[key] = made
        return made

    def put(self, node: Node, name: str, *, first: bool = False, real: bool = True) -> None:
        """Say what a node's output is called; reals of a quantized one are quantized."""
        tensor = self.graph.output_tensor(node)
        if real and tensor.quant is not None and tensor.dtype.kind in "iu":
            inputs = [name, *self._quantization(tensor.quant, tensor.dtype, tensor.name)]
            name = self.node("QuantizeLinear", inputs, tensor.name, **_along(tensor.quant, first))
        self._forms[tensor.name, first, False] = name

    def alias(self, tensor: Tensor, name: str, *, first: bool = False) -> None:
        """Say that a form of a tensor is there under some name."""
        self._forms[tensor.name, first, False] = name

    def is_first(self, tensor: Tensor) -> bool:
        """Whether a tensor is there channels first."""
        return (tensor.name, True, False) in self._forms

    def find(self, tensor: Tensor, *, first: bool) -> str | None:
        """Return a form of the integers or plain values, if it is there."""
        return self._forms.get((tensor.name, first, False))

    def dequantized(self, name: str, tensor: Tensor, first: bool = False) -> str:
        """Write the DequantizeLinear of a tensor's form."""
        quant = tensor.quant
        assert quant is not None
        inputs = [name, *self._quantization(quant, tensor.dtype, tensor.name)]
        return self.node("DequantizeLinear", inputs, tensor.name, **_along(quant, first))

    def weight(self, tensor: Tensor, values: Array | None, perm: Sequence[int], axis: int) -> str:
        """Write a weight in ONNX's order of dimensions; integers behind a DequantizeLinear.

        Parameters
        ----------
        tensor : Tensor
        values : array or None
            The constant in ONNX's order; None for a weight that is computed.
        perm : sequence of int
            What brings a computed weight into that order.
        axis : int
            Dimension of the output channels in that order.
        """
        if values is None:
            name = self.get(tensor)
            return self.node("Transpose", [name], tensor.name, perm=list(perm))
        stored = self.constant(values, tensor.name)
        quant = tensor.quant
        if quant is None:
            return stored
        moved = Quant(quant.scale, quant.zero_point, None if quant.axis is None else axis)
        return self.dequantized(stored, Tensor(tensor.name, values.shape, values.dtype, moved))

    def clipped(self, node: Node, name: str) -> str:
        """Write the activation that a node's range stands for, if it narrows its output's."""
        output = self.graph.output_tensor(node)
        low, high = node.attrs["clip"]
        if output.quant is not None and output.dtype.kind in "iu":
            limits = np.iinfo(output.dtype)
            scale, zero = float(output.quant.scale[0]), int(output.quant.zero_point[0])
            low = -inf if low <= limits.min else (low - zero) * scale
            high = inf if high >= limits.max else (high - zero) * scale
        elif output.dtype.kind in "iu":
            limits = np.iinfo(output.dtype)
            if low <= limits.min and high >= limits.max:
                return name
        if (low, high) == (-inf, inf):
            return name
        if (low, high) == (0.0, inf):
            return self.node("Relu", [name], output.name)
        kind = np.float32 if output.quant is not None else output.dtype
        bounds = [
            ""
            if abs(bound) == inf
            else self.constant(np.asarray(bound, kind), output.name + ".clip")
            for bound in (low, high)
        ]
        return self.node("Clip", [name, *bounds], output.name)

    def finish(self) -> list[onnx.NodeProto]:
        """Return the nodes, values named after the graph's tensors and outputs as the graph's."""
        outputs = self.graph.outputs
        taken = {*self.graph.inputs, *(t.name for t in self.initializers)}
        for name in outputs:
            found = self.get(self.graph.tensors[name], real=False)
            if found in taken:
                found = self.node("Identity", [found], name)
                self._forms[name, False, False] = found
            taken.add(found)
        made = {name for node in self.nodes for name in node.output}
        renamed: dict[str, str] = {}
        forms = sorted(self._forms.items(), key=lambda item: item[0][0] not in outputs)
        for (tensor, first, real), name in forms:
            wanted = tensor + ".nchw" * first + ".real" * real
            if name in made and name not in renamed and wanted not in renamed.values():
                renamed[name] = wanted
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [renamed.get(name, name) for name in names]
            node.name = node.output[0]
        return self.nodes

    def _quantization(self, quant: Quant, dtype: np.dtype[Any], hint: str) -> list[str]:
        scale: Array = quant.scale.astype(np.float32)
        zero: Array = quant.zero_point.astype(dtype)
        if quant.per_tensor:
            scale, zero = scale.reshape(()), zero.reshape(())
        return [self.constant(scale, f"{hint}.scale"), self.constant(zero, f"{hint}.zero_point")]

    def _unique(self, name: str) -> str:
        chosen, count = name, 0
        while chosen in self._names:
            count += 1
            chosen = f"{name}_{count}"
        self._names.add(chosen)
        return chosen


def _along(quant: Quant, first: bool) -> dict[str, int]:
    """Return the attribute that says along which dimension the scales run."""
    if quant.axis is None or quant.per_tensor:
        return {}
    return {"axis": NCHW.index(quant.axis) if first else quant.axis}
