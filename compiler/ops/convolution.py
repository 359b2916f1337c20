"""Graph nodes that run as convolutions: conv2d, depthwise, dense, average pooling and mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import (
    average_multiplier,
    conv_params,
    mean_params,
    pool_params,
)
from vdla.compiler.te import Schedule
from vdla.config import Config

from .conv2d import Conv2d, ConvTensors, conv2d, schedule_conv2d
from .lowered import LoweredNode, blocks_of
from .packing import dense_weights, diagonal_weights, requantize_params
from .tiling import choose_tile

__all__ = ["Measure", "lower_convolution", "unsupported_convolution"]

Measure = Callable[[Schedule, ConvTensors], int]
"""Cycles of a candidate schedule."""


def unsupported_convolution(graph: Graph, node: Node) -> str | None:
    """Return why the GEMM core cannot take a node, or None."""
    if node.op in ("conv2d", "depthwise_conv2d", "dense"):
        params = conv_params(graph, node)
        if np.any(params.weight_zero_point):
            return "its weights have a zero point"
        if np.any(params.right_shift < 0) or np.any(params.right_shift > 31):
            return "a multiplier is not below 1"
        weights = graph.input_tensors(node)[1]
        if weights.data is None:
            return "its weights are not constant"
        channels = graph.input_tensors(node)[0].shape[-1]
        if node.op == "depthwise_conv2d" and weights.shape[-1] != channels:
            return "it has several outputs a channel"
        if node.op == "conv2d" and weights.shape[-1] != channels:
            return "it is grouped"
    elif node.op == "avg_pool2d":
        counts = pool_params(graph, node).counts
        if (counts != counts.flat[0]).any():
            return "its windows reach into the padding by different amounts"
        if counts.flat[0] < 2:
            return "its windows hold one element"
    elif node.op == "mean":
        data = graph.input_tensors(node)[0]
        axes = sorted(axis % len(data.shape) for axis in node.attrs["axes"])
        if len(data.shape) != 4 or axes != [1, 2]:
            return "it averages other dimensions than rows and columns"
        if not 0 <= mean_params(graph, node).right_shift <= 31:
            return "its multiplier is not below 1"
    return None


def _image(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return batch, rows, columns and channels of an activation of 2 or 4 dimensions."""
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    return int(np.prod(shape[:-1])), 1, 1, shape[-1]


def _describe(
    graph: Graph, node: Node, config: Config
) -> tuple[Conv2d, NDArray[np.int8], NDArray[np.int32]]:
    """Return a node as a convolution, its packed weights and its requantization parameters."""
    data, output = graph.input_tensors(node)[0], graph.output_tensor(node)
    if node.op == "dense":
        channels = graph.input_tensors(node)[1].shape[-1]
        batch, height, width = int(np.prod(data.shape)) // channels, 1, 1
    else:
        batch, height, width, channels = _image(data.shape)
    sizes = {
        "batch_blocks": blocks_of(batch, config.batch),
        "in_blocks": blocks_of(channels, config.block_in),
        "out_blocks": blocks_of(output.shape[-1], config.block_out),
        "height": height,
        "width": width,
    }
    per_block = {
        "in_per_out": max(1, config.block_out // config.block_in),
        "out_per_in": max(1, config.block_in // config.block_out),
    }
    if node.op in ("conv2d", "depthwise_conv2d", "dense"):
        params = conv_params(graph, node)
        values = graph.input_tensors(node)[1].data
        assert values is not None
        depthwise = node.op == "depthwise_conv2d"
        kernel = values.shape[1:3] if node.op != "dense" else (1, 1)
        if depthwise:
            weights, sums = diagonal_weights(values[0], config), values[0].sum((0, 1), np.int64)
        else:
            shaped = values.reshape(values.shape[0], *kernel, channels)
            weights, sums = dense_weights(shaped, config), shaped.sum((1, 2, 3), np.int64)
        # Padding holds the zero point, so that every tap contributes w * (x - zero point).
        bias = (params.bias - params.input_zero_point * sums).astype(np.int32)
        conv = Conv2d(
            **sizes,
            **(per_block if depthwise else {}),
            kernel=(int(kernel[0]), int(kernel[1])),
            strides=node.attrs.get("strides", (1, 1)),
            padding=node.attrs.get("padding", ((0, 0), (0, 0))),
            dilation=node.attrs.get("dilation", (1, 1)),
            depthwise=depthwise,
            zero_point=params.input_zero_point,
            clip=params.clip,
        )
        packed = requantize_params(
            bias,
            params.multiplier,
            params.right_shift,
            params.output_zero_point,
            params.rounding,
            config,
        )
        return conv, weights, packed
    ones = diagonal_weights(
        np.ones((1, 1, max(config.block_in, config.block_out)), np.int8), config
    )
    bias, multiplier, shift, zero_point, rounding, clip = _average(graph, node)
    whole = np.ones(output.shape[-1], np.int32)
    packed = requantize_params(
        whole * bias, whole * multiplier, whole * shift, zero_point, rounding, config
    )
    window = (height, width) if node.op == "mean" else node.attrs["window"]
    conv = Conv2d(
        **sizes,
        **per_block,
        kernel=window,
        strides=node.attrs.get("strides", (1, 1)),
        depthwise=True,
        shared_weights=True,
        clip=clip,
    )
    return conv, ones, packed


def _average(graph: Graph, node: Node) -> tuple[int, int, int, int, str, tuple[int, int]]:
    """Return bias, multiplier, shift, zero point, rounding and clip of an average."""
    if node.op == "avg_pool2d":
        pool = pool_params(graph, node)
        multiplier, shift = average_multiplier(int(pool.counts.flat[0]))
        return 0, multiplier, shift, 0, "single", pool.clip
    mean = mean_params(graph, node)
    bias = -mean.count * mean.input_zero_point
    return (
        bias,
        mean.multiplier,
        mean.right_shift,
        mean.output_zero_point,
        mean.rounding,
        mean.clip,
    )


def lower_convolution(
    graph: Graph, node: Node, config: Config, *, vthreads: int, measure: Measure | None
) -> LoweredNode:
    """Choose a tile for a node and return its schedule with packed constants.

    Raises
    ------
    LoweringError
        The node fits the scratchpads at no tiling.
    """
    conv, weights, params = _describe(graph, node, config)
    tensors = conv2d(conv, config)
    rank = None
    if measure is not None:
        rank = lambda tile: measure(schedule_conv2d(tensors, tile, config), tensors)  # noqa: E731
    tile, cycles = choose_tile(conv, config, vthreads=vthreads, measure=rank)
    return LoweredNode(
        schedule_conv2d(tensors, tile, config),
        (tensors.data,),
        {tensors.weights: weights, tensors.params: params},
        tensors.result,
        config.block_in,
        config.block_out,
        graph.macs(node),
        cycles,
    )
