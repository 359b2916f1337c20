"""Graph nodes that run as convolutions: conv2d, depthwise, dense, average pooling and mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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

from .conv2d import Conv2d, ConvTensors, ConvTile, conv2d, schedule_conv2d
from .lowered import LoweredNode, blocks_of
from .packing import dense_weights, diagonal_blocks, diagonal_weights, requantize_params
from .tiling import choose_tile

__all__ = ["Measure", "lower_convolution", "unsupported_convolution"]

Measure = Callable[[Schedule, ConvTensors], int]
"""Cycles of a candidate schedule."""


def unsupported_convolution(graph: Graph, node: Node, config: Config) -> str | None:
    """Return why the GEMM core cannot take a node, or None."""
    if node.op in ("conv2d", "depthwise_conv2d", "dense"):
        return _unsupported_weights(graph, node, config)
    if node.op == "mean":
        data = graph.input_tensors(node)[0]
        axes = sorted(axis % len(data.shape) for axis in node.attrs["axes"])
        if len(data.shape) != 4 or axes != [1, 2]:
            return "it averages other dimensions than rows and columns"
        if not 0 <= mean_params(graph, node).right_shift <= 31:
            return "its multiplier is not below 1"
    return None


def _unsupported_weights(graph: Graph, node: Node, config: Config) -> str | None:
    params = conv_params(graph, node)
    if np.any(params.weight_zero_point):
        return "its weights have a zero point"
    if np.any(params.right_shift < 0) or np.any(params.right_shift > 31):
        return "a multiplier is not below 1"
    data, weights = graph.input_tensors(node)[:2]
    if weights.data is None:
        return "its weights are not constant"
    if node.op == "depthwise_conv2d":
        multiplier = weights.shape[-1] // data.shape[-1]
        if diagonal_blocks(multiplier, config) is None:
            return (
                f"its {multiplier} outputs a channel make no whole number of blocks of "
                f"{config.block_out} from blocks of {config.block_in}"
            )
    return None


_Described = tuple[Conv2d, NDArray[np.int8], NDArray[np.int32]]
"""A convolution, its packed weights and its requantization parameters."""


def _image(graph: Graph, node: Node) -> tuple[int, int, int, int]:
    """Return batch, rows, columns and channels of a node's input."""
    shape = graph.input_tensors(node)[0].shape
    if node.op == "dense":
        channels = graph.input_tensors(node)[1].shape[-1]
        return int(np.prod(shape)) // channels, 1, 1, channels
    return shape[0], shape[1], shape[2], shape[3]


def _describe(graph: Graph, node: Node, config: Config) -> _Described:
    batch, height, width, channels = _image(graph, node)
    plain = Conv2d(
        batch_blocks=blocks_of(batch, config.batch),
        in_blocks=blocks_of(channels, config.block_in),
        out_blocks=blocks_of(graph.output_tensor(node).shape[-1], config.block_out),
        height=height,
        width=width,
        kernel=(1, 1),
        strides=node.attrs.get("strides", (1, 1)),
        padding=node.attrs.get("padding", ((0, 0), (0, 0))),
        dilation=node.attrs.get("dilation", (1, 1)),
    )
    if node.op in ("conv2d", "depthwise_conv2d", "dense"):
        return _weighted(graph, node, plain, config)
    return _averaging(graph, node, plain, config)


def _weighted(graph: Graph, node: Node, plain: Conv2d, config: Config) -> _Described:
    params = conv_params(graph, node)
    values = graph.input_tensors(node)[1].data
    assert values is not None
    if node.op == "depthwise_conv2d":
        multiplier = values.shape[-1] // _image(graph, node)[3]
        blocks = diagonal_blocks(multiplier, config)
        assert blocks is not None
        weights = diagonal_weights(values[0], config, multiplier)
        sums = values[0].sum((0, 1), np.int64)
        conv = replace(plain, depthwise=True, in_per_out=blocks[0], out_per_in=blocks[1])
        kernel = values.shape[1:3]
    else:
        shaped = values if node.op == "conv2d" else values[:, None, None, :]
        weights, sums = dense_weights(shaped, config), shaped.sum((1, 2, 3), np.int64)
        conv, kernel = plain, shaped.shape[1:3]
    conv = replace(
        conv,
        kernel=(int(kernel[0]), int(kernel[1])),
        zero_point=params.input_zero_point,
        clip=params.clip,
    )
    packed = requantize_params(
        # Padding holds the zero point, so that every tap contributes w * (x - zero point).
        (params.bias - params.input_zero_point * sums).astype(np.int32),
        params.multiplier,
        params.right_shift,
        params.output_zero_point,
        params.rounding,
        config,
    )
    return conv, weights, packed


def _averaging(graph: Graph, node: Node, plain: Conv2d, config: Config) -> _Described:
    """Describe an average as a depthwise convolution with weights of one."""
    widest = max(config.block_in, config.block_out)
    ones = diagonal_weights(np.ones((1, 1, widest), np.int8), config)
    blocks = diagonal_blocks(1, config)
    assert blocks is not None
    conv = replace(
        plain, depthwise=True, in_per_out=blocks[0], out_per_in=blocks[1], shared_weights=True
    )
    channels = np.ones(graph.output_tensor(node).shape[-1], np.int32)
    if node.op == "mean":
        mean = mean_params(graph, node)
        packed = requantize_params(
            channels * (-mean.count * mean.input_zero_point),
            channels * mean.multiplier,
            channels * mean.right_shift,
            mean.output_zero_point,
            mean.rounding,
            config,
        )
        return replace(conv, kernel=(conv.height, conv.width), clip=mean.clip), ones, packed
    pool = pool_params(graph, node)
    conv = replace(conv, kernel=node.attrs["window"], clip=pool.clip)
    # Windows are divided by what they hold besides padding: one multiplier a place, or one for all.
    uneven = bool((pool.counts != pool.counts.flat[0]).any())
    counts = pool.counts if uneven else pool.counts[:1, :1]
    divisors = {int(n): average_multiplier(int(n))[0] for n in np.unique(counts)}
    places = np.array([divisors[int(n)] for n in counts.flat], np.int32)
    multipliers = np.repeat(places, config.block_out) if uneven else channels * places[0]
    nothing = np.zeros_like(multipliers)
    packed = requantize_params(nothing, multipliers, nothing, 0, "single", config)
    if uneven:
        packed = packed.reshape(*counts.shape, *packed.shape[1:])
    return replace(conv, params_by_place=uneven), ones, packed


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

    def rank(tile: ConvTile) -> int:
        assert measure is not None
        return measure(schedule_conv2d(tensors, tile, config), tensors)

    tile, cycles = choose_tile(
        conv, config, vthreads=vthreads, measure=None if measure is None else rank
    )
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
