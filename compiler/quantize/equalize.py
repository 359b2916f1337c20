"""Cross-layer equalization: the gains of channels balanced between neighbouring layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph, Node, Tensor

from .checks import Samples, check_finite
from .evaluate import Tell, activations
from .integer import Form, form_of, weight_axis

__all__ = ["equalize_channels"]

Array = npt.NDArray[Any]

_LARGEST_GAIN = 2.0**8
"""A channel that hardly ever speaks is not made louder than this."""


def equalize_channels(graph: Graph, samples: Samples, tell: Tell) -> Graph:
    """Divide a channel by a gain in one layer, and multiply by it in the next.

    Before, with the peaks of the two channels between the layers::

        conv2d -> (8.0, 0.1) -> depthwise_conv2d

    After, the second channel's weights and bias in the first layer times 80, its weights in the
    second over 80::

        conv2d -> (8.0, 8.0) -> depthwise_conv2d

    The network computes what it did, but the one scale of the tensor between serves every channel.
    Weights have a scale a channel, so the first layer, and a depthwise second one, lose nothing;
    before any other layer the gain is shared evenly between the activation and the weights that
    read it. Where a clip at an upper bound lies between (ReLU6), channels that reach the bound on
    `samples` are left, and no other is raised beyond it.

    Source: Markus Nagel and others, "Data-free quantization through weight equalization and bias
    correction", ICCV 2019, section 4.1, there for weights with one scale a tensor.

    Parameters
    ----------
    graph : Graph
        Float.
    samples : dict of str to array
    tell : callable
    """
    pairs = _pairs(graph)
    peaks = _peaks(graph, samples, [first.outputs[0] for first, _ in pairs], tell)
    tensors = dict(graph.tensors)
    for first, second in pairs:
        peak = peaks[first.outputs[0]]
        gain = _gains(tensors[second.inputs[1]], second.op, peak, first.attrs["clip"][1])
        _scale_outputs(tensors, first, gain)
        _scale_inputs(tensors, second, gain)
    return Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)


def _pairs(graph: Graph) -> list[tuple[Node, Node]]:
    """Return neighbours with nothing between but a clip that scales with its input."""
    pairs = []
    for first in graph.nodes:
        (output,) = first.outputs
        readers = graph.consumers(output)
        if output in graph.outputs or len(readers) != 1 or not _owns_weights(graph, first):
            continue
        second = readers[0]
        if first.attrs["clip"][0] in (0, -np.inf) and _reads_channels(graph, first, second):
            pairs.append((first, second))
    return pairs


def _reads_channels(graph: Graph, first: Node, second: Node) -> bool:
    if not _owns_weights(graph, second):
        return False
    channels = graph.output_tensor(first).shape[-1]
    weight = graph.tensors[second.inputs[1]].shape
    return second.op == "depthwise_conv2d" or weight[-1] == channels


def _owns_weights(graph: Graph, node: Node) -> bool:
    """Whether a node multiplies by weights that no other node reads."""
    if form_of(graph, node) is not Form.WEIGHTED:
        return False
    return all(len(graph.consumers(name)) == 1 for name in node.inputs[1:])


def _peaks(graph: Graph, samples: Samples, names: list[str], tell: Tell) -> dict[str, Array]:
    peaks = {name: np.zeros(graph.tensors[name].shape[-1]) for name in names}
    for values in activations(graph, samples, "equalization", tell):
        check_finite(graph, values)
        for name, peak in peaks.items():
            np.maximum(peak, np.abs(values[name]).reshape(-1, peak.size).max(axis=0), out=peak)
    return peaks


def _gains(weight: Tensor, op: str, peak: Array, bound: float) -> Array:
    """Return the factor by which each channel's peak shrinks; 1 where there is nothing to gain."""
    assert weight.data is not None  # a weighted operator's
    if not peak.any():
        return np.ones(peak.size)
    gain = peak / peak.max()
    if op != "depthwise_conv2d":
        reading = np.abs(weight.data.astype(np.float64)).reshape(-1, peak.size).max(axis=0)
        gain = np.sqrt(gain / np.where(reading > 0, reading, 1.0))
    heard = peak > 0
    # What was the largest peak is so still.
    gain = gain * (np.max(peak[heard] / gain[heard]) / peak.max())
    gain = np.clip(gain, 1 / _LARGEST_GAIN, _LARGEST_GAIN)
    if np.isfinite(bound):
        gain = np.where(peak < bound, np.maximum(gain, peak / bound), 1.0)
    return np.where(heard, gain, 1.0)


def _scale_outputs(tensors: dict[str, Tensor], node: Node, gain: Array) -> None:
    axis = weight_axis(node.op)
    shape = [1] * len(tensors[node.inputs[1]].shape)
    shape[axis] = -1
    _multiply(tensors, node.inputs[1], 1 / gain.reshape(shape))
    if len(node.inputs) > 2:
        _multiply(tensors, node.inputs[2], 1 / gain)


def _scale_inputs(tensors: dict[str, Tensor], node: Node, gain: Array) -> None:
    if node.op == "depthwise_conv2d":
        gain = np.repeat(gain, tensors[node.inputs[1]].shape[-1] // gain.size)
    _multiply(tensors, node.inputs[1], gain)


def _multiply(tensors: dict[str, Tensor], name: str, factor: Array) -> None:
    tensor = tensors[name]
    assert tensor.data is not None
    tensors[name] = replace(tensor, data=(tensor.data * factor).astype(tensor.dtype))
