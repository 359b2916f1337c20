"""Bias correction: the mean of each channel stays what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.graph.quantization import tensor_quant

from .checks import Samples
from .evaluate import Tell, activations, in_double, run_node
from .integer import Form, form_of
from .weights import as_integers, as_reals, quantize_bias

__all__ = ["correct_biases"]

Array = npt.NDArray[Any]

_OPEN = (-np.inf, np.inf)


def correct_biases(graph: Graph, integer: Graph, samples: Samples, tell: Tell) -> Graph:
    """Add to each bias what rounding takes from its channel's mean.

    Before::

        mean over images and places of (weights * input + bias) = 0.31, of the integers' 0.27

    After::

        bias larger by 0.04, rounded to the bias's scale

    The mean is that of the calibration images, before the activation function, with the input as
    the float network has it, quantized. Source: Markus Nagel and others, "Data-free quantization
    through weight equalization and bias correction", ICCV 2019, section 4.2, there from batch
    norms' statistics.

    Parameters
    ----------
    graph : Graph
        The float network.
    integer : Graph
        Its integer network.
    samples : dict of str to array
    tell : callable
    """
    weighted = [n for n in graph.nodes if form_of(graph, n) is Form.WEIGHTED]
    double = in_double(graph)
    rounded = _with_rounded_weights(double, integer, weighted)
    shift = {node.name: np.zeros(double.output_tensor(node).shape[-1]) for node in weighted}
    count = dict.fromkeys(shift, 0)
    for values in activations(graph, samples, "biases", tell):
        for node in weighted:
            data = node.inputs[0]
            quant = tensor_quant(integer.input_tensors(integer.node(node.name))[0])
            coarse = as_reals(as_integers(values[data], quant), quant)
            before = run_node(double, node, values, clip=_OPEN)
            twin = rounded.node(node.name)
            after = run_node(rounded, twin, {**values, data: coarse}, clip=_OPEN)
            error = (before - after).reshape(-1, before.shape[-1])
            shift[node.name] += error.sum(axis=0)
            count[node.name] += len(error)
    means = {name: total / count[name] for name, total in shift.items()}
    return _with_biases_moved(integer, means)


def _with_rounded_weights(double: Graph, integer: Graph, weighted: list[Node]) -> Graph:
    """Return the float network with the values that the integer weights stand for."""
    tensors = dict(double.tensors)
    nodes = {node.name: node for node in double.nodes}
    for node in weighted:
        names = []
        for tensor in integer.input_tensors(integer.node(node.name))[1:]:
            data = as_reals(*_constant(tensor))
            name = f"{tensor.name}.rounded"
            tensors[name] = replace(tensor, name=name, dtype=data.dtype, quant=None, data=data)
            names.append(name)
        nodes[node.name] = replace(node, inputs=(node.inputs[0], *names))
    return Graph(double.name, tensors, list(nodes.values()), double.inputs, double.outputs)


def _with_biases_moved(integer: Graph, means: Mapping[str, Array]) -> Graph:
    tensors = dict(integer.tensors)
    for name, mean in means.items():
        data, weight, bias = integer.input_tensors(integer.node(name))
        moved = as_reals(*_constant(bias)) + mean
        scale = float(tensor_quant(data).scale[0])
        steps, _ = quantize_bias(moved, tensor_quant(weight), scale)
        tensors[bias.name] = replace(bias, data=steps)
    return Graph(integer.name, tensors, integer.nodes, integer.inputs, integer.outputs)


def _constant(tensor: Tensor) -> tuple[Array, Quant]:
    assert tensor.data is not None  # `rewrite` made it a constant
    return tensor.data, tensor_quant(tensor)
