"""Convolutions, pools and what else looks at images through windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import Any

import numpy as np

from vdla.compiler.graph.shapes import same_padding
from vdla.compiler.graph.tensor import Tensor

from .build import NCHW, NHWC, Builder
from .form import auto_pad, counts, refuse_infinite
from .node import Constant, OnnxNode, Value

__all__ = ["WINDOWS"]

Pairs = tuple[tuple[int, int], tuple[int, int]]


def _convolution(node: OnnxNode, build: Builder) -> list[Value]:
    inputs = build.operands(node)
    return [convolution(node, build, inputs)]


def convolution(node: OnnxNode, build: Builder, inputs: Sequence[Value]) -> Value:
    """Emit a Conv of input, weight and perhaps bias.

    Before: ``Conv(x NCHW, w OIHW)``. After: ``transpose, conv2d (OHWI), transpose``; groups of one
    channel make a depthwise_conv2d (1HWC).
    """
    data, weight = _image(node, build, inputs[0]), _filters(node, build, inputs)
    groups, outputs = int(node.attrs.get("group", 1)), weight.shape[0]
    channels = data.shape[1]
    if groups < 1 or weight.shape[1] * groups != channels or outputs % groups:
        node.refuse(
            f"weights must have the input's {channels} channels over {groups} groups, and outputs "
            f"that divide by them, not shape {weight.shape}",
            "Export the model again",
        )
    window = (weight.shape[2], weight.shape[3])
    _check_bias(node, inputs, outputs)
    sides = len(inputs[0].shape) - 2
    strides, dilation = _pair(node, "strides", sides), _pair(node, "dilations", sides)
    padding = _padding(node, data.shape[2:], window, strides, dilation, sides)
    data = build.transpose(data, NHWC)
    reach = [(window[k] - 1) * dilation[k] + 1 for k in range(2)]
    if any(max(padding[k]) >= reach[k] for k in range(2)):
        data, padding = _padded(build, data, padding, 0), ((0, 0), (0, 0))
    attrs: dict[str, Any] = {"strides": strides, "dilation": dilation, "padding": padding}
    rest = [build.reshape(b, (outputs,)) for b in inputs[2:]]
    if groups > 1 and groups == channels:
        weight = build.transpose(weight, (1, 2, 3, 0))
        made = build.emit("depthwise_conv2d", [data, weight, *rest], **attrs)
    else:
        weight = build.transpose(weight, NHWC)
        made = build.emit("conv2d", [data, weight, *rest], **attrs)
    return _as_before(build, build.transpose(made, NCHW), inputs[0])


def _transposed_convolution(node: OnnxNode, build: Builder) -> list[Value]:
    inputs = build.operands(node)
    data, weight = _image(node, build, inputs[0]), _filters(node, build, inputs)
    groups, (depth, outputs, *window) = int(node.attrs.get("group", 1)), weight.shape
    if groups < 1 or depth != data.shape[1] or depth % groups:
        node.refuse(
            f"weights must have the input's {data.shape[1]} channels first, over {groups} groups, "
            f"not shape {weight.shape}",
            "Export the model again",
        )
    _check_bias(node, inputs, groups * outputs)
    sides = len(inputs[0].shape) - 2
    strides, dilation = _pair(node, "strides", sides), _pair(node, "dilations", sides)
    extra = _pair(node, "output_padding", sides, 0)
    reach = [(window[k] - 1) * dilation[k] + 1 for k in range(2)]
    full = [(data.shape[2 + k] - 1) * strides[k] + reach[k] + extra[k] for k in range(2)]
    padding, extra = _crop(node, data.shape[2:], full, strides, extra, sides)
    # (g I, O, H, W) to (g O, H, W, I): each group's inputs face its own outputs.
    if groups > 1:
        weight = build.reshape(weight, (groups, depth // groups, outputs, *window))
        weight = build.transpose(weight, (0, 2, 3, 4, 1))
        weight = build.reshape(weight, (groups * outputs, *window, depth // groups))
    else:
        weight = build.transpose(weight, (1, 2, 3, 0))
    made: Value = build.emit(
        "conv_transpose2d",
        [
            build.transpose(data, NHWC),
            weight,
            *(build.reshape(b, (groups * outputs,)) for b in inputs[2:]),
        ],
        strides=strides,
        dilation=dilation,
        padding=padding,
        output_padding=extra,
        groups=groups,
    )
    return [_as_before(build, build.transpose(made, NCHW), inputs[0])]


def _crop(
    node: OnnxNode,
    size: Sequence[int],
    full: Sequence[int],
    strides: tuple[int, int],
    extra: tuple[int, int],
    sides: int,
) -> tuple[Pairs, tuple[int, int]]:
    """Return what is cropped from, and added to, a transposed convolution's full output."""
    auto, shape = auto_pad(node), node.attrs.get("output_shape")
    if shape is None and auto in ("NOTSET", "VALID"):
        return _given_pads(node, sides) if auto == "NOTSET" else ((0, 0), (0, 0)), extra
    if shape is None:
        wanted = [size[k] * strides[k] for k in range(2)]
    else:
        wanted = [1, *counts(node, "output_shape", sides, 1, 1)][-2:]
    pads, grown = [], []
    for k in range(2):
        total = full[k] - wanted[k]
        less, more = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        pads.append((less, more) if auto == "SAME_UPPER" else (more, less))
        grown.append(extra[k] + max(-total, 0))
    return (pads[0], pads[1]), (grown[0], grown[1])


def _max_pool(node: OnnxNode, build: Builder) -> list[Value]:
    if len(node.outputs) > 1 and node.outputs[1]:
        node.refuse("indices are not computed", "Leave the second output out")
    source = build.operand(node, 0)
    lowest: float = -inf if source.dtype.kind == "f" else int(np.iinfo(source.dtype).min)
    return [_pool(node, build, "max_pool2d", lowest)]


def _average_pool(node: OnnxNode, build: Builder) -> list[Value]:
    return [_pool(node, build, "avg_pool2d", 0.0)]


def _pool(node: OnnxNode, build: Builder, op: str, fill: float) -> Value:
    """Emit a pool; what its window cannot hold as padding becomes a pad.

    Before: ``AveragePool(count_include_pad=1, pads=1)``. After: ``transpose, pad, avg_pool2d,
    transpose``.
    """
    source = build.operand(node, 0)
    image = _image(node, build, source)
    sides = len(source.shape) - 2
    window = _pair(node, "kernel_shape", sides)
    strides, dilation = _pair(node, "strides", sides), _pair(node, "dilations", sides)
    padding = _padding(node, image.shape[2:], window, strides, dilation, sides)
    reach = [(window[k] - 1) * dilation[k] + 1 for k in range(2)]
    whole = (
        _ceiled(image.shape[2:], reach, strides, padding)
        if node.attrs.get("ceil_mode", 0)
        else padding
    )
    data = build.transpose(image, NHWC)
    counted = op == "avg_pool2d" and node.attrs.get("count_include_pad", 0)
    wide = any(max(padding[k]) >= reach[k] for k in range(2))
    if (counted and padding != ((0, 0), (0, 0))) or wide:
        if op == "avg_pool2d" and not counted:
            node.refuse(
                f"padding must be smaller than the window, not {padding} for {window}",
                "Pad less",
            )
        # What ceil_mode adds after the padding is counted by none.
        data = _padded(build, data, padding, fill)
        extra = [max(whole[k][1] - padding[k][1], 0) for k in range(2)]
        whole = ((0, extra[0]), (0, extra[1]))
    attrs: dict[str, Any] = {"window": window, "strides": strides, "padding": whole}
    if dilation != (1, 1):
        made = _dilated(build, op, data, dilation, attrs)
    else:
        made = build.emit(op, [data], **attrs)
    return _as_before(build, build.transpose(made, NCHW), source)


def _dilated(
    build: Builder, op: str, data: Value, dilation: tuple[int, int], attrs: Mapping[str, Any]
) -> Tensor:
    """Emit a dilated pool as the maximum, or the mean, of slices: along rows, then columns.

    Before: ``MaxPool(kernel 2 x 2, dilations 2 x 2)``. After: two ``slice`` and a ``maximum`` along
    rows, and again along columns.
    """
    window, strides, padding = attrs["window"], attrs["strides"], attrs["padding"]
    size = data.shape[1:3]
    if padding != ((0, 0), (0, 0)):
        fill: float = 0.0
        if op == "max_pool2d":
            fill = -inf if data.dtype.kind == "f" else int(np.iinfo(data.dtype).min)
        data = _padded(build, data, padding, fill)
    inside = []
    for k in range(2):
        count = (data.shape[1 + k] - (window[k] - 1) * dilation[k] - 1) // strides[k] + 1
        begins = np.arange(count) * strides[k] - padding[k][0]
        places = begins[:, None] + np.arange(window[k]) * dilation[k]
        inside.append(((places >= 0) & (places < size[k])).sum(axis=1))
        if op == "max_pool2d":
            data = _maxima(build, data, 1 + k, window[k], dilation[k])
            data = _tap(build, data, 1 + k, 0, count, strides[k])
        else:
            firsts = [tap * dilation[k] for tap in range(window[k])]
            data, *rest = [_tap(build, data, 1 + k, f, count, strides[k]) for f in firsts]
            for tap in rest:
                data = build.emit("add", [data, tap])
    assert isinstance(data, Tensor)
    if op == "max_pool2d":
        return data
    counts = np.outer(*inside)[None, :, :, None].astype(data.dtype)
    return build.emit("div", [data, Constant(counts)])


def _maxima(build: Builder, data: Value, axis: int, window: int, dilation: int) -> Value:
    """Emit the maximum of `window` elements from each on: of two halves, which may overlap."""
    span = 1
    while span < window:
        step = min(span, window - span)
        count = data.shape[axis] - step * dilation
        halves = [_tap(build, data, axis, first * dilation, count, 1) for first in (0, step)]
        data, span = build.emit("maximum", halves), span + step
    return data


def _tap(build: Builder, data: Value, axis: int, first: int, count: int, stride: int) -> Value:
    """Emit what every window has in one place along one axis."""
    begin, end, step = [0] * 4, list(data.shape), [1] * 4
    begin[axis], end[axis], step[axis] = first, first + (count - 1) * stride + 1, stride
    if stride == 1 and count == data.shape[axis]:
        return data
    return build.emit("slice", [data], begin=tuple(begin), end=tuple(end), step=tuple(step))


def _global_average_pool(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    return [build.emit("mean", [data], axes=tuple(range(2, len(data.shape))), keep_dims=True)]


def _global_max_pool(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    axes = tuple(range(2, len(data.shape)))
    return [build.emit("reduce_max", [data], axes=axes, keep_dims=True)]


def _lrn(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    rank = len(data.shape)
    made = build.emit(
        "lrn",
        [build.transpose(data, (0, *range(2, rank), 1))],
        alpha=float(node.attrs.get("alpha", 1e-4)),
        beta=float(node.attrs.get("beta", 0.75)),
        bias=float(node.attrs.get("bias", 1.0)),
        size=int(node.attrs["size"]),
    )
    return [build.transpose(made, (0, rank - 1, *range(1, rank - 1)))]


def _image(node: OnnxNode, build: Builder, value: Value) -> Value:
    """Return (N, C, L) as (N, C, 1, L); leave (N, C, H, W) alone."""
    if len(value.shape) == 3:
        return build.reshape(value, (*value.shape[:2], 1, value.shape[2]))
    if len(value.shape) != 4:
        node.refuse(
            f"images and filters must have 1 or 2 dimensions beside batch and channels, not shape "
            f"{value.shape}",
            "Rewrite the network in two dimensions",
        )
    return value


def _filters(node: OnnxNode, build: Builder, inputs: Sequence[Value]) -> Value:
    """Return the weights; their window is what kernel_shape says, where it says something."""
    data, weight = inputs[:2]
    refuse_infinite(node, "weights", inputs[1:])
    if len(weight.shape) != len(data.shape):
        node.refuse(
            f"weights must have as many dimensions as the input, not {weight.shape} for "
            f"{data.shape}",
            "Export the model again",
        )
    said = node.attrs.get("kernel_shape")
    if said and tuple(map(int, said)) != weight.shape[2:]:
        node.refuse(
            f"kernel_shape must be the weights' {list(weight.shape[2:])}, not {list(said)}",
            "Leave it out",
        )
    return _image(node, build, weight)


def _check_bias(node: OnnxNode, inputs: Sequence[Value], outputs: int) -> None:
    for bias in inputs[2:]:
        if bias.shape != (outputs,):
            node.refuse(
                f"a bias must have one element for each of {outputs} outputs, not shape "
                f"{bias.shape}",
                "Export the model again",
            )


def _as_before(build: Builder, value: Value, source: Value) -> Value:
    if len(source.shape) == 3:
        return build.reshape(value, (*value.shape[:2], value.shape[3]))
    return value


def _padded(build: Builder, data: Value, padding: Pairs, fill: float) -> Tensor:
    paddings = ((0, 0), *padding, (0, 0))
    return build.emit("pad", [data], paddings=paddings, value=fill, mode="constant")


def _pair(node: OnnxNode, name: str, sides: int, default: int = 1) -> tuple[int, int]:
    # A signal is an image of one row, which windows and strides of one leave alone.
    filled = [default, *counts(node, name, sides, default, default)]
    return filled[-2], filled[-1]


def _given_pads(node: OnnxNode, sides: int) -> Pairs:
    pads = counts(node, "pads", 2 * sides, 0, 0)
    begin, end = [0, *pads[:sides]][-2:], [0, *pads[sides:]][-2:]
    return (begin[0], end[0]), (begin[1], end[1])


def _padding(
    node: OnnxNode,
    size: Sequence[int],
    window: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    sides: int,
) -> Pairs:
    auto = auto_pad(node)
    if auto == "VALID":
        return (0, 0), (0, 0)
    if auto == "NOTSET":
        return _given_pads(node, sides)
    same = [same_padding(size[k], window[k], strides[k], dilation[k]) for k in range(2)]
    if auto == "SAME_LOWER":
        same = [(after, before) for before, after in same]
    return same[0], same[1]


def _ceiled(
    size: Sequence[int], reach: Sequence[int], strides: tuple[int, int], padding: Pairs
) -> Pairs:
    """Pad the end so that the last, partial window counts; not one that starts past the input."""
    grown = []
    for k in range(2):
        before, after = padding[k]
        count = ceil((size[k] + before + after - reach[k]) / strides[k]) + 1
        if (count - 1) * strides[k] >= size[k] + before:
            count -= 1
        end = (count - 1) * strides[k] + reach[k] - size[k] - before
        grown.append((before, max(end, after)))
    return grown[0], grown[1]


Conversion = Callable[[OnnxNode, Builder], list[Value]]

WINDOWS: Mapping[str, Conversion] = {
    "AveragePool": _average_pool,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
    "LRN": _lrn,
    "MaxPool": _max_pool,
}
"""By type; ``(node, builder) -> values of its outputs``."""
