"""Graph nodes as convolutions: conv2d, depthwise, dense, average pooling and mean."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import (
    average_multiplier,
    conv_params,
    mean_params,
    pool_params,
)
from vdla.config import Config

from .conv2d import Conv2d
from .domain import offset_of, signed
from .lowered import blocks_of
from .packing import group_blocks, grouped_weights, requantize_params, split_weights
from .tiling import candidates

__all__ = ["Described", "describe", "unsupported_convolution"]

_LISTED_SHARE = 4
"""The list of weights beyond int8 may take one in so many entries of the weight buffer; past that
every block is made of as many parts."""


def unsupported_convolution(graph: Graph, node: Node, config: Config) -> str | None:
    """Return why the GEMM core cannot take a node, or None."""
    if node.op in ("conv2d", "depthwise_conv2d", "dense"):
        return _unsupported_weights(graph, node)
    if node.op == "mean":
        data = graph.input_tensors(node)[0]
        axes = sorted(axis % len(data.shape) for axis in node.attrs["axes"])
        if len(data.shape) != 4 or axes != [1, 2]:
            return "it averages other dimensions than rows and columns"
        if not 0 <= mean_params(graph, node).right_shift <= 31:
            return "its multiplier is not below 1"
    return None


def _unsupported_weights(graph: Graph, node: Node) -> str | None:
    params = conv_params(graph, node)
    if np.any(params.right_shift < 0) or np.any(params.right_shift > 31):
        return "a multiplier is not below 1"
    if graph.input_tensors(node)[1].data is None:
        return "its weights are not constant"
    return None


@dataclass(frozen=True, eq=False)
class Described:
    """A node as a convolution.

    Attributes
    ----------
    conv : Conv2d
    weights : array of int8
        Packed.
    params : array of int32
        Of the requantization.
    listed : array of int8 or None
        Blocks of weights on top.
    """

    conv: Conv2d
    weights: NDArray[np.int8]
    params: NDArray[np.int32]
    listed: NDArray[np.int8] | None = None


def _image(graph: Graph, node: Node) -> tuple[int, int, int, int]:
    """Return batch, rows, columns and channels of a node's input."""
    data = graph.input_tensors(node)[0]
    shape = data.shape
    if node.op == "dense" and not (len(shape) == 4 and shape[0] == 1):
        channels = graph.input_tensors(node)[1].shape[-1]
        return data.size // channels, 1, 1, channels
    return shape[0], shape[1], shape[2], shape[3]


def describe(graph: Graph, node: Node, config: Config) -> Described:
    """Return what a node that `unsupported_convolution` has nothing against computes."""
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


def _weighted(graph: Graph, node: Node, plain: Conv2d, config: Config) -> Described:
    params = signed(conv_params(graph, node), graph, node)
    weights, groups = _centred_weights(graph, node, params.weight_zero_point)
    outputs, height, width, depth = weights.shape
    conv = replace(
        plain, kernel=(height, width), zero_point=params.input_zero_point, clip=params.clip
    )
    if groups > 1:
        blocks, met = group_blocks((depth, outputs // groups), groups, config)
        conv = replace(conv, grouped=True, in_per_out=blocks[0], out_per_in=blocks[1], met=met)
    conv, parts, listed = _split(conv, grouped_weights(weights, groups, config), config)
    sums = weights.sum((1, 2, 3), np.int64)
    packed = requantize_params(
        # Padding holds the zero point, so that every tap contributes w * (x - zero point).
        (params.bias - params.input_zero_point * sums).astype(np.int32),
        params.multiplier,
        params.right_shift,
        params.output_zero_point,
        params.rounding,
        config,
    )
    return Described(conv, parts, packed, listed)


def _split(
    conv: Conv2d, packed: NDArray[np.int16], config: Config
) -> tuple[Conv2d, NDArray[np.int8], NDArray[np.int8] | None]:
    """Return a convolution by weights that may leave int8, its weights and those on top."""
    parts, places, blocks = split_weights(packed, config.wgt_depth // _LISTED_SHARE)
    if conv.met:  # packed weights count the blocks that are met
        places = tuple((k, conv.met[k % conv.out_per_in][c], y, x) for k, c, y, x in places)
    listed = replace(conv, weight_parts=parts.shape[2], listed=places)
    # A list needs all input blocks of a window at a time.
    if places and next(candidates(listed, config, 1), None) is None:
        parts, places, blocks = split_weights(packed, 0)
        listed = replace(conv, weight_parts=parts.shape[2])
    return listed, parts, blocks if places else None


def _centred_weights(
    graph: Graph, node: Node, zero_point: NDArray[np.int32]
) -> tuple[NDArray[np.int16], int]:
    """Return a node's weights less their zero points, (O, KH, KW, I), and its groups."""
    values = graph.input_tensors(node)[1].data
    assert values is not None
    if node.op == "depthwise_conv2d":  # 1HWC: each input channel is a group
        values = values.transpose(3, 1, 2, 0)
    _, height, width, channels = _image(graph, node)
    if node.op == "dense":  # of an image: the one window that sees all of it
        values = values.reshape(-1, height, width, channels)
    groups = channels // values.shape[3]
    return values.astype(np.int16) - zero_point.astype(np.int16)[:, None, None, None], groups


def _averaging(graph: Graph, node: Node, plain: Conv2d, config: Config) -> Described:
    """Describe an average as a depthwise convolution with weights of one."""
    widest = max(config.block_in, config.block_out)
    (inp_blocks, out_blocks), _ = group_blocks((1, 1), widest, config)
    one = np.ones((widest, 1, 1, 1), np.int16)
    ones = grouped_weights(one, widest, config)[:, :, None].astype(np.int8)
    conv = replace(
        plain, grouped=True, in_per_out=inp_blocks, out_per_in=out_blocks, shared_weights=True
    )
    channels = np.ones(graph.output_tensor(node).shape[-1], np.int32)
    if node.op == "mean":
        mean = signed(mean_params(graph, node), graph, node)
        packed = requantize_params(
            channels * (-mean.count * mean.input_zero_point),
            channels * mean.multiplier,
            channels * mean.right_shift,
            mean.output_zero_point,
            mean.rounding,
            config,
        )
        whole = replace(conv, kernel=(conv.height, conv.width), clip=mean.clip)
        return Described(whole, ones, packed)
    pool = signed(pool_params(graph, node), graph, node)
    conv = replace(conv, kernel=node.attrs["window"], clip=pool.clip)
    # Windows are divided by what they hold besides padding: one multiplier a place, or one for all.
    uneven = bool((pool.counts != pool.counts.flat[0]).any())
    counts = pool.counts if uneven else pool.counts[:1, :1]
    data = graph.input_tensors(node)[0]
    divisors = {int(n): average_multiplier(int(n), data.dtype)[0] for n in np.unique(counts)}
    places = np.array([divisors[int(n)] for n in counts.flat], np.int32)
    # Halves go up with uint8 values, away from zero with int8 ones. Both are away from zero for
    # the sum of the values as they are, which the bias restores.
    offset = offset_of(data)
    biases = counts.reshape(-1).astype(np.int32) * offset
    lanes = config.block_out if uneven else len(channels)
    multipliers, biases = np.repeat(places, lanes), np.repeat(biases, lanes)
    packed = requantize_params(
        biases, multipliers, np.zeros_like(biases), -offset, "single", config
    )
    if uneven:
        packed = packed.reshape(*counts.shape, *packed.shape[1:])
    return Described(replace(conv, params_by_place=uneven), ones, packed)
