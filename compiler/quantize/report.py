"""Where accuracy goes: the noise that quantization adds to each layer's output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log10
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.reference import Interpreter

from .checks import Samples
from .evaluate import Tell, activations, run_node
from .weights import as_integers, as_reals

__all__ = ["LayerNoise", "measure_noise"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LayerNoise:
    """Signal to quantization noise of one layer's output.

    Attributes
    ----------
    name, op : str
    form : 'int8' or 'float32'
        What the layer computes on.
    sqnr_db : float
        ``10 log10(sum y**2 / sum (y - q)**2)``, y from the float network and q from the quantized
        one, noise of all layers before included; infinite where there is none.
    alone_db : float
        The same if only this layer were quantized, that is with the float network's values at its
        input, as integers.
    """

    name: str
    op: str
    form: str
    sqnr_db: float
    alone_db: float


def measure_noise(
    graph: Graph, integer: Graph, samples: Samples, tell: Tell
) -> Sequence[LayerNoise]:
    """Compare the integer network with the float one, layer by layer.

    Parameters
    ----------
    graph : Graph
        The float network.
    integer : Graph
        Its integer network, with nodes of the same names.
    samples : dict of str to array
        Images to compare on.
    tell : callable
    """
    nodes = [node for node in graph.nodes if graph.output_tensor(node).dtype.kind == "f"]
    pairs = [(node, integer.node(node.name)) for node in nodes]
    signal = dict.fromkeys((node.name for node in nodes), 0.0)
    noise, alone = dict(signal), dict(signal)
    interpreter = Interpreter(integer)
    for values in activations(graph, samples, "noise", tell):
        first = {name: _stored(values[name], integer.tensors[name]) for name in integer.inputs}
        found = interpreter.run(first, keep_all=True)
        for node, twin in pairs:
            truth, output = values[node.outputs[0]], integer.output_tensor(twin)
            exact = _exact_operands(integer, node, twin, values)
            single = run_node(integer, twin, exact)
            signal[node.name] += _power(truth)
            noise[node.name] += _power(truth - _real(found[output.name], output))
            alone[node.name] += _power(truth - _real(single, output))
    return [
        LayerNoise(
            node.name,
            node.op,
            str(integer.output_tensor(twin).dtype),
            _decibels(signal[node.name], noise[node.name]),
            _decibels(signal[node.name], alone[node.name]),
        )
        for node, twin in pairs
    ]


def _exact_operands(
    integer: Graph, node: Node, twin: Node, values: Mapping[str, Array]
) -> dict[str, Array]:
    """Return what the integer network's node would read if all before it were exact."""
    operands = {}
    for name, kept in zip(node.inputs, twin.inputs, strict=False):
        if name not in values:
            continue
        maker = integer.producer(kept)
        if maker is not None and maker.op == "dequantize":
            stored = integer.input_tensors(maker)[0]
            operands[kept] = _real(_stored(values[name], stored), stored)
        else:
            operands[kept] = values[name]
        operands[kept] = _stored(operands[kept], integer.tensors[kept])
    return operands


def _stored(values: Array, tensor: Tensor) -> Array:
    if tensor.quant is not None:
        return as_integers(values, tensor.quant)
    return values.astype(tensor.dtype)


def _real(values: Array, tensor: Tensor) -> Array:
    if tensor.quant is not None:
        return as_reals(values, tensor.quant)
    return values.astype(np.float64)


def _power(error: Array) -> float:
    return float(np.square(error).sum())


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf
