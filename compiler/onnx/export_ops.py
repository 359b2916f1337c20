"""Each of our operators as ONNX's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor
from typing import Any

import numpy as np
from onnx import helper

from vdla.compiler.graph import Node, Quant, Tensor
from vdla.compiler.graph.tensor import Array
from vdla.errors import ModelError

from .build import NCHW
from .writer import Writer

__all__ = ["WRITERS"]

Write = Callable[[Writer, Node], None]


def _pads(padding: Sequence[Sequence[int]]) -> list[int]:
    return [pair[0] for pair in padding] + [pair[1] for pair in padding]


def _bias(w: Writer, node: Node) -> list[str]:
    """Return the bias; int32 of a quantized operator, at the scale of its products."""
    data, weight, *rest = w.graph.input_tensors(node)
    if not rest:
        return []
    bias = rest[0]
    if data.quant is None or weight.quant is None or bias.data is None:
        return [w.get(bias, real=False)]
    scale: Array = (data.quant.scale * weight.quant.scale.astype(np.float64)).astype(np.float32)
    zero = np.zeros(scale.shape, np.int64)
    quant = Quant(scale, zero, 0 if scale.size > 1 else None)
    stored = Tensor(bias.name, bias.shape, np.dtype(np.int32), quant, bias.data.astype(np.int32))
    return [w.dequantized(w.constant(bias.data, bias.name), stored)]


def _conv2d(w: Writer, node: Node) -> None:
    data, weight = w.graph.input_tensors(node)[:2]
    _refuse_plain(data, node)
    if node.op == "depthwise_conv2d":
        groups, perm = data.shape[3], (3, 0, 1, 2)
    else:
        groups, perm = data.shape[3] // weight.shape[3], NCHW
    values = None if weight.data is None else weight.data.transpose(perm)
    made = w.node(
        "Conv",
        [w.get(data, first=True), w.weight(weight, values, perm, 0), *_bias(w, node)],
        node.name,
        kernel_shape=list(weight.shape[1:3]),
        strides=list(node.attrs["strides"]),
        dilations=list(node.attrs["dilation"]),
        pads=_pads(node.attrs["padding"]),
        group=groups,
    )
    w.put(node, w.clipped(node, made), first=True)


def _conv_transpose2d(w: Writer, node: Node) -> None:
    data, weight = w.graph.input_tensors(node)[:2]
    _refuse_plain(data, node)
    groups, (outputs, *window, depth) = node.attrs["groups"], weight.shape
    channelwise = weight.quant is not None and not weight.quant.per_tensor
    if groups > 1 and (weight.data is None or channelwise):
        raise ModelError(
            "The weights of a transposed convolution of groups must be constant, with one scale, "
            f"not those of {node.name!r}. Export it in float."
        )
    values = None
    if weight.data is not None:
        # (g O, H, W, I) to (g I, O, H, W).
        split = weight.data.reshape(groups, outputs // groups, *window, depth)
        values = split.transpose(0, 4, 1, 2, 3).reshape(-1, outputs // groups, *window)
    made = w.node(
        "ConvTranspose",
        [w.get(data, first=True), w.weight(weight, values, (3, 0, 1, 2), 1), *_bias(w, node)],
        node.name,
        kernel_shape=window,
        strides=list(node.attrs["strides"]),
        dilations=list(node.attrs["dilation"]),
        pads=_pads(node.attrs["padding"]),
        output_padding=list(node.attrs["output_padding"]),
        group=groups,
    )
    w.put(node, w.clipped(node, made), first=True)


def _dense(w: Writer, node: Node) -> None:
    data, weight = w.graph.input_tensors(node)[:2]
    _refuse_plain(data, node)
    output = w.graph.output_tensor(node)
    source = w.get(data, real=False)
    rows = (data.size // weight.shape[1], weight.shape[1])
    if data.shape != rows:
        source = w.node("Reshape", [source, w.integers(rows, node.name)], node.name)
    if data.quant is not None:
        source = w.dequantized(source, data) if data.shape != rows else w.get(data)
    factor = w.weight(weight, weight.data, (0, 1), 0)
    made = w.node("Gemm", [source, factor, *_bias(w, node)], node.name, transB=1)
    made = w.clipped(node, made)
    if len(output.shape) != 2:
        made = w.node("Reshape", [made, w.integers(output.shape, node.name)], node.name)
    w.put(node, made)


def _refuse_plain(data: Tensor, node: Node) -> None:
    if data.dtype.kind != "f" and data.quant is None:
        raise ModelError(
            f"A product must be of floats or of quantized integers to be exported, not of plain "
            f"{data.dtype} ({node.name!r}). Keep the graph as it is."
        )


def _pool(op: str) -> Write:
    def write(w: Writer, node: Node) -> None:
        data = w.graph.input_tensors(node)[0]
        made = w.node(
            op,
            [w.get(data, first=True)],
            node.name,
            kernel_shape=list(node.attrs["window"]),
            strides=list(node.attrs["strides"]),
            pads=_pads(node.attrs["padding"]),
        )
        w.put(node, w.clipped(node, made), first=True)

    return write


def _inputs(w: Writer, node: Node, real: bool = True) -> tuple[list[str], bool]:
    """Return the inputs of an operator that works in any layout, and whether it is NCHW."""
    tensors = w.graph.input_tensors(node)
    computed = [t for t in tensors if not t.is_constant and t.size > 1]
    first = (
        any(w.is_first(t) for t in computed)
        and all(len(t.shape) == 4 for t in computed)
        and len(w.graph.output_tensor(node).shape) == 4
    )
    names = []
    for tensor in tensors:
        shape = tensor.shape
        if first and tensor.data is not None and tensor.quant is None and tensor.size > 1:
            data = tensor.data.reshape((1,) * (4 - len(shape)) + shape).transpose(NCHW)
            names.append(w.constant(data, f"{tensor.name}.first"))
        else:
            names.append(w.get(tensor, first=first and len(shape) == 4, real=real))
    return names, first


def _anywhere(op: str, **renamed: str) -> Write:
    """Write an operator of elements; attributes by our name and ONNX's."""

    def write(w: Writer, node: Node) -> None:
        names, first = _inputs(w, node)
        attrs = {theirs: node.attrs[ours] for ours, theirs in renamed.items()}
        made = w.node(op, names, node.name, **attrs)
        if "clip" in node.attrs:
            made = w.clipped(node, made)
        w.put(node, made, first=first)

    return write


def _clip(w: Writer, node: Node) -> None:
    names, first = _inputs(w, node)
    made = w.clipped(node, names[0])
    if made == names[0] and w.graph.output_tensor(node).quant is None:
        made = w.node("Identity", names, node.name)
    w.put(node, made, first=first)


def _cast(w: Writer, node: Node) -> None:
    names, first = _inputs(w, node, real=False)
    code = helper.np_dtype_to_tensor_dtype(w.graph.output_tensor(node).dtype)
    w.put(node, w.node("Cast", names, node.name, to=code), first=first)


def _quantize(w: Writer, node: Node) -> None:
    names, first = _inputs(w, node)
    w.put(node, names[0], first=first)


def _dequantize(w: Writer, node: Node) -> None:
    names, first = _inputs(w, node)
    w.put(node, names[0], first=first, real=False)


def _axes(axes: Sequence[int], first: bool) -> list[int]:
    return sorted(NCHW.index(a) for a in axes) if first else list(axes)


def _reduction(op: str) -> Write:
    def write(w: Writer, node: Node) -> None:
        data = w.graph.input_tensors(node)[0]
        axes, keep = node.attrs["axes"], node.attrs["keep_dims"]
        # What is left of NCHW is in the order of the graph without height and width.
        first = w.is_first(data) and (keep or {1, 2} <= set(axes))
        names = [w.get(data, first=first), w.integers(_axes(axes, first), node.name)]
        made = w.node(op, names, node.name, keepdims=int(keep))
        w.put(node, made, first=first and keep)

    return write


def _softmax(w: Writer, node: Node) -> None:
    names, first = _inputs(w, node)
    if node.attrs["beta"] != 1:
        beta = w.constant(np.asarray(node.attrs["beta"], np.float32), f"{node.name}.beta")
        names = [w.node("Mul", [names[0], beta], node.name)]
    (axis,) = _axes([node.attrs["axis"]], first)
    w.put(node, w.node("Softmax", names, node.name, axis=axis), first=first)


def _lrn(w: Writer, node: Node) -> None:
    data = w.graph.input_tensors(node)[0]
    rank = len(data.shape)
    attrs = {name: node.attrs[name] for name in ("alpha", "beta", "bias", "size")}
    if rank == 4:
        w.put(node, w.node("LRN", [w.get(data, first=True)], node.name, **attrs), first=True)
        return
    there, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    source = w.node("Transpose", [w.get(data)], node.name, perm=there)
    made = w.node("LRN", [source], node.name, **attrs)
    w.put(node, w.node("Transpose", [made], node.name, perm=back))


def _concat(w: Writer, node: Node) -> None:
    tensors, output = w.graph.input_tensors(node), w.graph.output_tensor(node)
    first = len(output.shape) == 4 and any(w.is_first(t) for t in tensors)
    quants = [t.quant for t in tensors]
    rescaled = output.quant is not None and not all(
        q is not None and q.same_as(output.quant) for q in quants
    )
    names = [w.get(t, first=first, real=rescaled) for t in tensors]
    (axis,) = _axes([node.attrs["axis"]], first)
    made = w.node("Concat", names, node.name, axis=axis)
    w.put(node, made, first=first, real=rescaled)


def _moved(entries: Sequence[Any], first: bool) -> list[Any]:
    return [entries[d] for d in NCHW] if first else list(entries)


def _slice(w: Writer, node: Node) -> None:
    names, first = _inputs(w, node, real=False)
    begin, end, step = (_moved(node.attrs[key], first) for key in ("begin", "end", "step"))
    # ONNX counts an end of -1 from the back; far below 0 means before the first.
    end = [-(1 << 31) if e < 0 else e for e in end]
    spans = (begin, end, list(range(len(begin))), step)
    names += [w.integers(span, f"{node.name}.span") for span in spans]
    w.put(node, w.node("Slice", names, node.name), first=first, real=False)


def _pad(w: Writer, node: Node) -> None:
    names, first = _inputs(w, node, real=False)
    dtype = w.graph.output_tensor(node).dtype
    names.append(w.integers(_pads(_moved(node.attrs["paddings"], first)), f"{node.name}.pads"))
    names.append(w.constant(np.asarray(node.attrs["value"], dtype), f"{node.name}.value"))
    made = w.node("Pad", names, node.name, mode=node.attrs["mode"])
    w.put(node, made, first=first, real=False)


def _resize(w: Writer, node: Node) -> None:
    attrs, data = node.attrs, w.graph.input_tensors(node)[0]
    whole = attrs["mode"] == "nearest"
    names, first = _inputs(w, node, real=not whole)
    roi = ""
    if attrs["roi"] is not None:
        pairs = _moved(attrs["roi"], first)
        roi = w.constant(np.asarray(_pads(pairs), np.float32), f"{node.name}.roi")
    scales, size = _moved(attrs["scales"], first), _moved(attrs["size"], first)
    shape = _moved(data.shape, first)
    if [floor(d * s) for d, s in zip(shape, scales, strict=True)] == size:
        rest = [w.constant(np.asarray(scales, np.float32), f"{node.name}.scales")]
    else:
        rest = ["", w.integers(size, f"{node.name}.size")]
    made = w.node(
        "Resize",
        [*names, roi, *rest],
        node.name,
        mode=attrs["mode"],
        coordinate_transformation_mode=attrs["coordinates"],
        nearest_mode=attrs["nearest"],
        cubic_coeff_a=attrs["cubic_a"],
        exclude_outside=int(attrs["exclude_outside"]),
        antialias=int(attrs["antialias"]),
        extrapolation_value=attrs["extrapolation"],
    )
    w.put(node, made, first=first, real=not whole)


def _reshape(w: Writer, node: Node) -> None:
    data, output = w.graph.input_tensors(node)[0], w.graph.output_tensor(node)
    # With a height and a width of 1, the two layouts are one.
    spot = len(data.shape) == 4 and data.shape[1:3] == (1, 1) and w.is_first(data)
    if len(output.shape) == 4 and output.shape[1:3] == (1, 1):
        names = [w.get(data, first=spot, real=False)]
        shape = [output.shape[d] for d in NCHW]
        names.append(w.integers(shape, f"{node.name}.shape"))
        w.put(node, w.node("Reshape", names, node.name), first=True, real=False)
        return
    names = [w.get(data, first=spot, real=False), w.integers(output.shape, f"{node.name}.shape")]
    w.put(node, w.node("Reshape", names, node.name), real=False)


def _transpose(w: Writer, node: Node) -> None:
    """Write a transpose; between NCHW and NHWC it is another form of what is there."""
    data, output = w.graph.input_tensors(node)[0], w.graph.output_tensor(node)
    perm = tuple(node.attrs["perm"])
    plain = w.find(data, first=False)
    if perm == (0, 2, 3, 1) and plain is not None:
        w.alias(output, plain, first=True)
    elif perm == NCHW and w.is_first(data):
        w.alias(output, w.get(data, first=True, real=False))
    else:
        made = w.node("Transpose", [w.get(data, real=False)], node.name, perm=list(perm))
        w.put(node, made, real=False)


def _plainly(op: str, *, real: bool = True, **renamed: str) -> Write:
    """Write an operator that works in the graph's own layout."""

    def write(w: Writer, node: Node) -> None:
        names = [w.get(t, real=real) for t in w.graph.input_tensors(node)]
        attrs = {theirs: node.attrs[ours] for ours, theirs in renamed.items()}
        w.put(node, w.node(op, names, node.name, **attrs), real=real)

    return write


def _expand(w: Writer, node: Node) -> None:
    data = w.get(w.graph.input_tensors(node)[0], real=False)
    shape = w.integers(node.attrs["shape"], f"{node.name}.shape")
    w.put(node, w.node("Expand", [data, shape], node.name), real=False)


WRITERS: Mapping[str, Write] = {
    "add": _anywhere("Add"),
    "avg_pool2d": _pool("AveragePool"),
    "cast": _cast,
    "clip": _clip,
    "concat": _concat,
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "dense": _dense,
    "depthwise_conv2d": _conv2d,
    "dequantize": _dequantize,
    "div": _anywhere("Div"),
    "equal": _anywhere("Equal"),
    "erf": _anywhere("Erf"),
    "exp": _anywhere("Exp"),
    "expand": _expand,
    "gather": _plainly("Gather", real=False, axis="axis"),
    "hard_sigmoid": _anywhere("HardSigmoid", alpha="alpha", beta="beta"),
    "hard_swish": _anywhere("HardSwish"),
    "leaky_relu": _anywhere("LeakyRelu", alpha="alpha"),
    "log": _anywhere("Log"),
    "lrn": _lrn,
    "matmul": _plainly("MatMul"),
    "max_pool2d": _pool("MaxPool"),
    "maximum": _anywhere("Max"),
    "mean": _reduction("ReduceMean"),
    "minimum": _anywhere("Min"),
    "mul": _anywhere("Mul"),
    "pad": _pad,
    "pow": _anywhere("Pow"),
    "prelu": _anywhere("PRelu"),
    "quantize": _quantize,
    "reduce_max": _reduction("ReduceMax"),
    "reduce_sum": _reduction("ReduceSum"),
    "relu": _clip,
    "relu6": _clip,
    "reshape": _reshape,
    "resize": _resize,
    "sigmoid": _anywhere("Sigmoid"),
    "slice": _slice,
    "softmax": _softmax,
    "sqrt": _anywhere("Sqrt"),
    "sub": _anywhere("Sub"),
    "tanh": _anywhere("Tanh"),
    "transpose": _transpose,
    "where": _anywhere("Where"),
}
"""``(writer, node) -> None``, by operator."""
