"""Shape rules of the operators, and TFLite's SAME padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from vdla.errors import ModelError

__all__ = [
    "broadcast",
    "conv",
    "dense",
    "depthwise",
    "mean",
    "pad",
    "pool",
    "reshape",
    "same",
    "same_padding",
    "window_output",
]

Shape = tuple[int, ...]


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Return the zeros before and after that TFLite's SAME adds along one dimension.

    The output has ``ceil(size / stride)`` elements; an odd zero goes after.

    >>> same_padding(32, window=3, stride=2)
    (0, 1)
    """
    reach = (window - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def window_output(size: int, window: int, stride: int, pads: tuple[int, int], dilation: int) -> int:
    """Return how many windows fit along one dimension.

    Raises
    ------
    ModelError
        A parameter is out of range, or no window fits.
    """
    if min(window, stride, dilation) < 1 or min(pads) < 0:
        raise ModelError(
            "Windows, strides and dilations must be at least 1 and paddings at least 0, not "
            f"{window}, {stride}, {dilation} and {pads}. Correct the attributes."
        )
    reach = (window - 1) * dilation + 1
    if max(pads) >= reach:
        raise ModelError(
            "Padding must be smaller than the window, or a window would see nothing else; "
            f"it is {pads} for a window of {reach}. Use a pad operator."
        )
    room = size + sum(pads) - reach
    if room < 0:
        raise ModelError(
            f"A window must fit the padded input; {reach} is more than {size} + {sum(pads)}. "
            "Pad more or shrink the window."
        )
    return room // stride + 1


def same(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Output like the only input."""
    return inputs[0]


def broadcast(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Return the common shape under numpy's broadcasting."""
    lhs, rhs = inputs
    rank = max(len(lhs), len(rhs))
    pairs = zip((1,) * (rank - len(lhs)) + lhs, (1,) * (rank - len(rhs)) + rhs, strict=True)
    shape = []
    for a, b in pairs:
        if a != b and 1 not in (a, b):
            raise ModelError(
                f"Added shapes must be equal or broadcast, not {lhs} and {rhs}. Reshape one."
            )
        shape.append(max(a, b))
    return tuple(shape)


def conv(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """NHWC by OHWI, I equal to C."""
    data, weight = _rank(inputs[0], 4, "input"), _rank(inputs[1], 4, "weight")
    if data[3] != weight[3]:
        raise ModelError(
            f"The input must have the channels of the weights, not {data[3]} against {weight[3]}. "
            "Split a grouped convolution into one convolution a group."
        )
    _bias(inputs, weight[0])
    return (data[0], *_windows(data, weight[1:3], attrs), weight[0])


def depthwise(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """NHWC by 1HWC', C' a multiple of C; channel c makes outputs c*m .. c*m + m - 1."""
    data, weight = _rank(inputs[0], 4, "input"), _rank(inputs[1], 4, "weight")
    if weight[0] != 1 or weight[3] % data[3]:
        raise ModelError(
            f"Depthwise weights must be 1HWC with C a multiple of the input's {data[3]} channels, "
            f"not {weight}. Transpose them."
        )
    _bias(inputs, weight[3])
    return (data[0], *_windows(data, weight[1:3], attrs), weight[3])


def dense(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Input (..., I) by (O, I); leading dimensions fold into one unless keep_dims."""
    data, weight = inputs[0], _rank(inputs[1], 2, "weight")
    if prod(data) % weight[1] or (attrs["keep_dims"] and data[-1] != weight[1]):
        raise ModelError(
            f"The input must hold rows of {weight[1]} elements, the weights' depth, not shape "
            f"{data}. Reshape it."
        )
    _bias(inputs, weight[0])
    lead = data[:-1] if attrs["keep_dims"] else (prod(data) // weight[1],)
    return (*lead, weight[0])


def pool(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """NHWC under a window; channels stay apart."""
    data = _rank(inputs[0], 4, "input")
    return (data[0], *_windows(data, attrs["window"], attrs), data[3])


def mean(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Reduce `axes` to 1, or away."""
    data, axes = inputs[0], attrs["axes"]
    if sorted(set(axes)) != list(axes) or not all(0 < a < len(data) for a in axes):
        raise ModelError(
            f"Mean axes must be ascending and leave the batch alone, not {axes} of a tensor of "
            f"rank {len(data)}. Reshape the input first."
        )
    if attrs["keep_dims"]:
        return tuple(1 if i in axes else d for i, d in enumerate(data))
    return tuple(d for i, d in enumerate(data) if i not in axes)


def pad(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Grow each dimension by its pair."""
    data, pairs = inputs[0], attrs["paddings"]
    if len(pairs) != len(data) or any(min(pair) < 0 for pair in pairs):
        raise ModelError(
            f"Paddings must be a pair of counts for each of {len(data)} dimensions, not {pairs}. "
            "Correct the attribute."
        )
    return tuple(d + before + after for d, (before, after) in zip(data, pairs, strict=True))


def reshape(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Same elements, new dimensions."""
    shape = tuple(attrs["shape"])
    if prod(shape) != prod(inputs[0]):
        raise ModelError(
            f"A reshape must keep the number of elements; {inputs[0]} holds {prod(inputs[0])} and "
            f"{shape} {prod(shape)}. Correct the shape."
        )
    return shape


def _windows(data: Shape, window: Sequence[int], attrs: Mapping[str, Any]) -> tuple[int, int]:
    dilation = attrs.get("dilation", (1, 1))
    height, width = (
        window_output(
            data[1 + i], window[i], attrs["strides"][i], tuple(attrs["padding"][i]), dilation[i]
        )
        for i in range(2)
    )
    return height, width


def _rank(shape: Shape, rank: int, what: str) -> Shape:
    if len(shape) != rank:
        raise ModelError(f"The {what} must have {rank} dimensions, not shape {shape}. Reshape it.")
    return shape


def _bias(inputs: Sequence[Shape], channels: int) -> None:
    if len(inputs) > 2 and inputs[2] != (channels,):
        raise ModelError(
            f"The bias must have one element for each of {channels} outputs, not shape "
            f"{inputs[2]}. Correct the bias."
        )
