"""Weights that multiply nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import conv_params

__all__ = ["channel_ranges", "clear_idle_weights"]

Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Least and greatest value of each channel."""

_WEIGHTED = ("conv2d", "depthwise_conv2d")
_KEEPING = ("avg_pool2d", "max_pool2d")
"""Operators whose results lie between values of their channel."""


def clear_idle_weights(graph: Graph) -> Graph:
    """Set weights to their zero point where all that they ever multiply is zero.

    Batch normalization leaves channels that hold zero whatever the image. Folded into weights, it
    divides by their variance, next to nothing, so that the weights around them are often the
    largest of all: those that, less their zero point, leave int8. Every tensor keeps its values.

    Before: uint8 ``depthwise_conv2d(x, w, zero point 204)``, channel 15 of x always 0, ``w[...,
    15] = 1``. After: ``w[..., 15] = 204``.
    """
    ranges = channel_ranges(graph)
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        if not _has_zero_point(graph, node):
            continue
        data, weight = graph.input_tensors(node)[:2]
        assert weight.data is not None
        zeros = conv_params(graph, node)
        low, high = ranges[data.name]
        idle = (low == zeros.input_zero_point) & (high == low)
        if not idle.any():
            continue
        ohwi = _by_output(node, weight.data).copy()
        where = np.broadcast_to(_source(idle, ohwi)[:, None, None, :], ohwi.shape)
        along = zeros.weight_zero_point.astype(ohwi.dtype)[:, None, None, None]
        ohwi[where] = np.broadcast_to(along, ohwi.shape)[where]
        cleared = ohwi.transpose(3, 1, 2, 0) if node.op == "depthwise_conv2d" else ohwi
        tensors[weight.name] = replace(weight, data=np.ascontiguousarray(cleared))
    return Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)


def _has_zero_point(graph: Graph, node: Node) -> bool:
    if node.op not in _WEIGHTED:
        return False
    weight = graph.input_tensors(node)[1]
    if weight.data is None or weight.quant is None:
        return False
    return bool(weight.quant.zero_point.any())


def channel_ranges(graph: Graph) -> dict[str, Bounds]:
    """Return bounds of each quantized tensor's channels, its last dimension, for every input.

    Sums of products are bounded term by term, and requantized with a unit of room on both sides.
    """
    ranges: dict[str, Bounds] = {}
    for tensor in graph.tensors.values():
        if tensor.quant is not None and tensor.shape and not tensor.is_constant:
            limits, channels = np.iinfo(tensor.dtype), tensor.shape[-1]
            ranges[tensor.name] = (
                np.full(channels, limits.min, np.int64),
                np.full(channels, limits.max, np.int64),
            )
    for node in graph.nodes:
        found: Bounds | None = None
        if _has_zero_point(graph, node):
            found = _products(graph, node, ranges)
        elif node.op in _KEEPING:
            found = ranges.get(node.inputs[0])
        if found is not None and node.outputs[0] in ranges:
            clip = node.attrs["clip"]
            ranges[node.outputs[0]] = (np.clip(found[0], *clip), np.clip(found[1], *clip))
    return ranges


def _products(graph: Graph, node: Node, ranges: Mapping[str, Bounds]) -> Bounds:
    params = conv_params(graph, node)
    weight = graph.input_tensors(node)[1].data
    assert weight is not None
    low, high = (bound - params.input_zero_point for bound in ranges[node.inputs[0]])
    if any(map(any, node.attrs["padding"])):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    factors = _by_output(node, weight).astype(np.int64)
    factors -= params.weight_zero_point.astype(np.int64)[:, None, None, None]
    one, other = (factors * _source(bound, factors)[:, None, None, :] for bound in (low, high))
    scale = params.multiplier / 2.0 ** (31 + params.right_shift)
    least = (np.minimum(one, other).sum((1, 2, 3)) + params.bias) * scale
    greatest = (np.maximum(one, other).sum((1, 2, 3)) + params.bias) * scale
    zero = params.output_zero_point
    return (
        np.floor(least).astype(np.int64) - 1 + zero,
        np.ceil(greatest).astype(np.int64) + 1 + zero,
    )


def _by_output(node: Node, weight: NDArray[Any]) -> NDArray[Any]:
    """Return weights as (O, KH, KW, I); a depthwise convolution has one input an output."""
    return weight.transpose(3, 1, 2, 0) if node.op == "depthwise_conv2d" else weight


def _source(values: NDArray[Any], ohwi: NDArray[Any]) -> NDArray[Any]:
    """Return what each output's input channels have of `values`, (O, I)."""
    outputs, depth = ohwi.shape[0], ohwi.shape[3]
    group = np.arange(outputs) // (outputs * depth // len(values))
    found: NDArray[Any] = values[group[:, None] * depth + np.arange(depth)]
    return found
