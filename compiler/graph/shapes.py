"""Shape rules of the operators that compute, and TFLite's SAME padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from vdla.errors import ModelError

__all__ = [
    "broadcast",
    "conv",
    "conv_transpose",
    "dense",
    "depthwise",
    "lrn",
    "matmul",
    "mean",
    "pool",
    "prelu",
    "same",
    "same_padding",
    "softmax",
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
    rank = max(map(len, inputs))
    shape = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in inputs), strict=True):
        if len({*sizes} - {1}) > 1:
            raise ModelError(
                "Shapes must be equal or broadcast, not "
                f"{' and '.join(map(str, inputs))}. Reshape one."
            )
        shape.append(max(sizes))
    return tuple(shape)


def prelu(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Output like the input, to which the slope is broadcast."""
    if broadcast(inputs, attrs) != inputs[0]:
        raise ModelError(
            f"A slope must broadcast to its input, not {inputs[1]} to {inputs[0]}. Reshape it."
        )
    return inputs[0]


def softmax(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Output like the input."""
    _axes((attrs["axis"],), inputs[0])
    return inputs[0]


def lrn(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """Output like the input, channels last."""
    if not inputs[0] or attrs["size"] < 1:
        raise ModelError(
            "A local response must be normalized over at least 1 of the channels, the last "
            f"dimension, not over {attrs['size']} of shape {inputs[0]}. Correct the size."
        )
    return inputs[0]


def conv(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """NHWC by OHWI: I channels make a group, C / I groups share the outputs."""
    data, weight = _rank(inputs[0], 4, "input"), _rank(inputs[1], 4, "weight")
    if data[3] % weight[3] or weight[0] % (data[3] // weight[3]):
        raise ModelError(
            "The input must have the channels of the weights, or of as many groups as divide the "
            f"outputs, not {data[3]} against {weight[3]} with {weight[0]} outputs. Transpose the "
            "weights to OHWI."
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
    _axes(axes, data)
    if attrs["keep_dims"]:
        return tuple(1 if i in axes else d for i, d in enumerate(data))
    return tuple(d for i, d in enumerate(data) if i not in axes)


def matmul(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """(..., M, K) by (..., K, N), as numpy does; one dimension is a row or a column."""
    lhs, rhs = inputs
    rows, columns = (1, *lhs)[-2:], (*rhs, 1)[:2] if len(rhs) < 2 else rhs[-2:]
    if not lhs or not rhs or rows[1] != columns[0]:
        raise ModelError(
            f"Matrices must have a common depth, the last dimension of the one and the last but "
            f"one of the other, not be {lhs} and {rhs}. Transpose one."
        )
    batch = broadcast((lhs[:-2], rhs[:-2]), attrs)
    return (*batch, *(rows[:1] if len(lhs) > 1 else ()), *(columns[1:] if len(rhs) > 1 else ()))


def conv_transpose(inputs: Sequence[Shape], attrs: Mapping[str, Any]) -> Shape:
    """NHWC by OHWI, I the channels of a group: each input element adds a window to the output."""
    data, weight = _rank(inputs[0], 4, "input"), _rank(inputs[1], 4, "weight")
    groups = attrs["groups"]
    if groups < 1 or weight[3] * groups != data[3] or weight[0] % groups:
        raise ModelError(
            f"Weights must have the input's {data[3]} channels over {groups} groups, and outputs "
            f"that divide by them, not shape {weight}. Transpose them to OHWI."
        )
    _bias(inputs, weight[0])
    height, width = (
        _spread(data[1 + i], weight[1 + i], *(attrs[key][i] for key in _SPREAD)) for i in range(2)
    )
    return (data[0], height, width, weight[0])


_SPREAD = ("strides", "padding", "dilation", "output_padding")


def _spread(
    size: int, window: int, stride: int, crop: tuple[int, int], dilation: int, extra: int
) -> int:
    if min(window, stride, dilation) < 1 or min(*crop, extra) < 0:
        raise ModelError(
            "Windows, strides and dilations must be at least 1 and paddings at least 0, not "
            f"{window}, {stride}, {dilation}, {crop} and {extra}. Correct the attributes."
        )
    grown = (size - 1) * stride + (window - 1) * dilation + 1 + extra - sum(crop)
    if grown < 1:
        raise ModelError(
            f"A transposed convolution must leave an output; {sum(crop)} is cropped from "
            f"{grown + sum(crop)}. Crop less."
        )
    return grown


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


def _axes(axes: Sequence[int], shape: Shape) -> None:
    if sorted(set(axes)) != list(axes) or not all(0 <= a < len(shape) for a in axes):
        raise ModelError(
            f"Axes must be ascending and count the dimensions from 0, not {tuple(axes)} of a "
            f"tensor of rank {len(shape)}. Count from the front."
        )
