"""From a float network and the ranges of its activations to an integer network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph, Node, Quant, Tensor

from .integer import Form, form_of, integer_attrs, weight_axis
from .ranges import Range
from .weights import as_integers, quant_of, quantize_bias, quantize_weights

__all__ = ["rewrite"]

Array = npt.NDArray[Any]

_INT8 = np.dtype(np.int8)
_PROBABILITY = Quant(np.array([1 / 256], np.float32), np.array([-128]))


def rewrite(graph: Graph, ranges: Mapping[str, Range], ends: str) -> Graph:
    """Quantize what has an integer form; inputs and nodes keep their names.

    Convolutions and dense layers always do. The rest does where what it reads is an integer
    already, so a stretch of float operators stays float from one end to the other.

    Before::

        input float32 -> conv2d -> sigmoid -> mul -> conv2d -> float32

    After::

        input int8 -> conv2d -> dequantize -> sigmoid -> mul -> quantize -> conv2d -> int8

    Parameters
    ----------
    graph : Graph
    ranges : mapping of str to Range
        Of each float activation.
    ends : 'int8' or 'float'
        What inputs and outputs are.
    """
    return _Rewrite(graph, ranges, ends).run()


class _Rewrite:
    def __init__(self, graph: Graph, ranges: Mapping[str, Range], ends: str) -> None:
        self._graph = graph
        self._ranges = ranges
        self._float_ends = ends == "float"
        self._nodes: list[Node] = []
        self._tensors: dict[str, Tensor] = {}
        # Names of a float tensor's values as reals and as integers, where there are such.
        self._reals: dict[str, str] = {}
        self._integers: dict[str, str] = {}

    def run(self) -> Graph:
        graph = self._graph
        inputs = [self._input(name) for name in graph.inputs]
        for node in graph.nodes:
            form = form_of(graph, node)
            if form is Form.WEIGHTED:
                self._weighted(node)
            elif form is not None and self._reads_integers(node):
                self._integer(node, form)
            else:
                self._float(node)
        outputs = [self._output(name) for name in graph.outputs]
        return Graph(graph.name, self._tensors, self._nodes, inputs, outputs)

    def _input(self, name: str) -> str:
        """Make an input integers where an operator can read them."""
        tensor = self._graph.tensors[name]
        wanted = any(form_of(self._graph, node) for node in self._graph.consumers(name))
        if tensor.dtype.kind == "f" and wanted and not self._float_ends:
            return self._write(name)
        self._tensors[name] = tensor
        self._reals[name] = name
        if tensor.dtype.kind == "f" and wanted:
            self._as_integers(name)
        return name

    def _output(self, name: str) -> str:
        if self._float_ends or name not in self._integers:
            return self._as_reals(name)
        return self._integers[name]

    def _reads_integers(self, node: Node) -> bool:
        computed = [t.name for t in self._graph.input_tensors(node) if not t.is_constant]
        return bool(computed) and all(name in self._integers for name in computed)

    def _weighted(self, node: Node) -> None:
        data = self._as_integers(node.inputs[0])
        weight, *rest = self._graph.input_tensors(node)[1:]
        axis = weight_axis(node.op)
        real = np.asarray(weight.data, np.float64)
        bias = np.zeros(weight.shape[axis])
        if rest:
            bias = np.asarray(rest[0].data, np.float64)
        scale = float(self._quant(data).scale[0])
        levels, quant = quantize_weights(real, axis, bias, scale)
        steps, step = quantize_bias(bias, quant, scale)
        names = (
            self._constant(f"{node.name}.weight", levels, quant),
            self._constant(f"{node.name}.bias", steps, step),
        )
        output = self._write(node.outputs[0])
        attrs = integer_attrs(node, self._quant(output))
        self._nodes.append(replace(node, inputs=(data, *names), outputs=(output,), attrs=attrs))

    def _integer(self, node: Node, form: Form) -> None:
        names = tuple(self._as_integers(name) for name in node.inputs)
        quant = None
        if form is Form.KEEPING:
            quant = self._quant(names[0])
        elif form is Form.PROBABILITY:
            quant = _PROBABILITY
        output = self._write(node.outputs[0], quant)
        attrs = integer_attrs(node, self._quant(output))
        self._nodes.append(replace(node, inputs=names, outputs=(output,), attrs=attrs))

    def _float(self, node: Node) -> None:
        names = tuple(self._as_reals(name) for name in node.inputs)
        (output,) = node.outputs
        self._tensors[output] = self._graph.tensors[output]
        self._reals[output] = output
        self._nodes.append(replace(node, inputs=names))

    def _write(self, name: str, quant: Quant | None = None) -> str:
        """Make the tensor of an activation's integers."""
        taken = name in self._reals or (self._float_ends and name in self._graph.outputs)
        integers = self._fresh(f"{name}.int8") if taken else name
        shape = self._graph.tensors[name].shape
        self._tensors[integers] = Tensor(
            integers, shape, _INT8, quant or quant_of(self._ranges[name])
        )
        self._integers[name] = integers
        return integers

    def _as_integers(self, name: str) -> str:
        """Return the integers of a float tensor, by a quantize node where there are none yet."""
        if name in self._integers:
            return self._integers[name]
        tensor = self._graph.tensors[name]
        if tensor.data is not None:
            low, high = min(0.0, float(tensor.data.min())), max(0.0, float(tensor.data.max()))
            quant = quant_of(Range(low, high))
            levels = as_integers(tensor.data.astype(np.float64), quant)
            self._integers[name] = self._constant(f"{name}.int8", levels, quant)
            return self._integers[name]
        reals = self._reals[name]
        integers = self._write(name)
        attrs = {"rounding": "even"}  # as ONNX's QuantizeLinear
        self._nodes.append(Node(f"{integers}.quantize", "quantize", (reals,), (integers,), attrs))
        return integers

    def _as_reals(self, name: str) -> str:
        """Return the reals of a float tensor, by a dequantize node where there are none yet."""
        if name in self._reals:
            return self._reals[name]
        tensor = self._graph.tensors[name]
        if tensor.data is not None or name not in self._integers:
            self._tensors[name] = tensor
            self._reals[name] = name
            return name
        integers = self._integers[name]
        reals = name if integers != name else self._fresh(f"{name}.real")
        self._tensors[reals] = replace(tensor, name=reals)
        self._nodes.append(Node(f"{reals}.dequantize", "dequantize", (integers,), (reals,), {}))
        self._reals[name] = reals
        return reals

    def _constant(self, wanted: str, data: Array, quant: Quant) -> str:
        name = self._fresh(wanted)
        self._tensors[name] = Tensor(name, data.shape, data.dtype, quant, data)
        return name

    def _fresh(self, wanted: str) -> str:
        """Return a name that no tensor kept from the float network has."""
        name, count = wanted, 1
        while name in self._tensors or self._stays(name):
            count += 1
            name = f"{wanted}_{count}"
        return name

    def _stays(self, name: str) -> bool:
        """Whether the float network's tensor of a name may be part of the new network."""
        if name not in self._graph.tensors:
            return False
        if not self._graph.tensors[name].is_constant:
            return True
        readers = self._graph.consumers(name)
        return any(form_of(self._graph, node) is not Form.WEIGHTED for node in readers)

    def _quant(self, name: str) -> Quant:
        quant = self._tensors[name].quant
        assert quant is not None  # integers of this module's own making
        return quant
