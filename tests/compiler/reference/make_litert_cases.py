"""Make ``litert_cases.npz`` again, with ai-edge-litert 2.3.0 installed.

Run it as ``python -m tests.compiler.reference.make_litert_cases``.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from vdla.compiler.graph import OPS, Graph, Node, Quant, Tensor, shapes
from vdla.compiler.graph.tflite_ops import activation_clip
from vdla.compiler.zoo import resnet18, sample_image

from .tflite_writer import TfliteWriter

RNG = np.random.default_rng(1)
FLOAT, INT8, UINT8 = (np.dtype(t) for t in (np.float32, np.int8, np.uint8))
BOUNDS = {"none": (None, None), "relu": (0.0, None), "relu6": (0.0, 6.0)}
DOUBLE = {"rounding": "double"}


def litert(graph, inputs, activations):
    model = TfliteWriter(graph, activations).write()
    run = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    run.allocate_tensors()
    for detail, value in zip(run.get_input_details(), inputs, strict=True):
        run.set_tensor(detail["index"], value)
    run.invoke()
    return model, run.get_tensor(run.get_output_details()[0]["index"])


def quant(scale, zero_point=0, axis=None):
    return Quant(np.float32(np.atleast_1d(scale)), np.atleast_1d(zero_point), axis)


def draw(shape, dtype):
    if dtype.kind == "f":
        return (RNG.integers(-300, 300, shape) / 8).astype(dtype)
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


class Net:
    """Grow a graph node by node with random constants; the first tensor is its input."""

    def __init__(self, shape, scale=0.05, zero_point=-7, dtype=INT8):
        self.tensors, self.nodes, self.activations = {}, [], {}
        self.inputs = [self.tensor("x", shape, scale, zero_point, dtype)]

    def tensor(self, name, shape, scale, zero_point, dtype=INT8, data=None):
        q = None if dtype.kind == "f" else quant(scale, zero_point)
        self.tensors[name] = Tensor(name, shape, dtype, q, data)
        return name

    def weights(self, name, shape, axis, source, channels=True, offset=0, bias=3000):
        """Return the names of weights and bias; `channels` asks for scales along `axis`."""
        data = self.tensors[source]
        size, axis = (shape[axis], axis) if channels else (1, None)
        scale = RNG.uniform(0.002, 0.02, size).astype(np.float32)
        weight = draw(shape, data.dtype)
        if data.dtype == INT8:
            weight = np.maximum(weight, -127)
        zero = np.full(size, offset)
        w = Tensor(f"{name}_w", shape, data.dtype, Quant(scale, zero, axis), weight)
        outputs = shape[-1] if shape[0] == 1 else shape[0]
        step = Quant(scale * data.quant.scale, np.zeros(size, int), None if axis is None else 0)
        b = RNG.integers(-bias, bias, outputs).astype(np.int32)
        self.tensors |= {
            w.name: w,
            f"{name}_b": Tensor(f"{name}_b", b.shape, b.dtype, step, b),
        }
        return w.name, f"{name}_b"

    def node(self, op, inputs, scale, zero_point, *, act=None, dtype=None, **attrs):
        """Add a node whose output takes the inferred shape; return the output's name."""
        name = f"n{len(self.nodes)}"
        source = [self.tensors[i] for i in inputs]
        shape = OPS[op].shape([t.shape for t in source], attrs)
        output = self.tensor(f"{name}_out", shape, scale, zero_point, dtype or source[0].dtype)
        if act is not None:
            attrs["clip"] = activation_clip(self.tensors[output], *BOUNDS[act])
            self.activations[name] = act
        self.nodes.append(Node(name, op, tuple(inputs), (output,), attrs))
        return output

    def conv(
        self,
        source,
        window,
        scale,
        zero_point,
        *,
        outputs=0,
        strides=(1, 1),
        same=True,
        dilation=(1, 1),
        act="none",
        multiplier=0,
        groups=1,
        **weights,
    ):
        """Add a convolution, depthwise where a channel multiplier is given."""
        depth = self.tensors[source].shape[3] // groups
        shape = (1, *window, depth * multiplier) if multiplier else (outputs, *window, depth)
        name = f"c{len(self.nodes)}"
        wb = self.weights(name, shape, 3 if multiplier else 0, source, **weights)
        return self.node(
            "depthwise_conv2d" if multiplier else "conv2d",
            (source, *wb),
            scale,
            zero_point,
            act=act,
            strides=strides,
            dilation=dilation,
            padding=self.padding(source, window, strides, dilation, same),
            **DOUBLE,
        )

    def padding(self, source, window, strides, dilation=(1, 1), same=True):
        sizes = self.tensors[source].shape[1:3]
        return tuple(
            shapes.same_padding(*args) if same else (0, 0)
            for args in zip(sizes, window, strides, dilation, strict=True)
        )

    def graph(self, output):
        return Graph("case", self.tensors, self.nodes, self.inputs, [output])


CASES = {}


def keep(name, net, output, *inputs):
    graph = net.graph(output)
    if not inputs:
        inputs = [draw(graph.tensors[i].shape, graph.tensors[i].dtype) for i in graph.inputs]
    model, result = litert(graph, inputs, net.activations)
    CASES[f"{name}.model"] = np.frombuffer(model, np.uint8)
    CASES.update({f"{name}.input_{i}": value for i, value in enumerate(inputs)})
    CASES[f"{name}.output"] = result


def conv(
    name,
    shape,
    window,
    scale=0.1,
    zero_point=11,
    *,
    x=(0.05, -7),
    x_reach=None,
    dtype=INT8,
    **options,
):
    """Keep a convolution; `x_reach` keeps its inputs that near to their zero point."""
    net = Net(shape, *x, dtype)
    inputs = []
    if x_reach is not None:
        inputs = [RNG.integers(x[1] - x_reach, x[1] + x_reach + 1, shape).astype(dtype)]
    keep(name, net, net.conv("x", window, scale, zero_point, **options), *inputs)


def dense(
    name,
    shape,
    outputs,
    scale,
    *,
    zero_point=-9,
    dtype=INT8,
    channels=False,
    weight_zero=0,
    act="none",
):
    net = Net(shape, 0.03, zero_point, dtype)
    wb = net.weights("d", (outputs, shape[-1]), 0, "x", channels, weight_zero)
    keep(
        name,
        net,
        net.node(
            "dense", ("x", *wb), scale, 17, act=act, keep_dims=len(shape) > 2, rounding="single"
        ),
    )


def add(name, shape, other, zero_points, dtype=INT8, act="none", constant=False):
    net = Net(shape, 0.1, zero_points[0], dtype)
    data = draw(other, dtype) if constant else None
    rhs = net.tensor("y", other, 0.03, zero_points[1], dtype, data)
    net.inputs += [] if constant else [rhs]
    keep(name, net, net.node("add", ("x", rhs), 0.11, zero_points[2], act=act, **DOUBLE))


def pool(name, op, shape, window, strides, zero_point, same=False, dtype=INT8, act="none"):
    net = Net(shape, 0.04, zero_point, dtype)
    padding = net.padding("x", window, strides, same=same)
    y = net.node(
        op, ("x",), 0.04, zero_point, act=act, window=window, strides=strides, padding=padding
    )
    # A maximum is told apart from its padding by inputs in the lower part of the range.
    low = np.iinfo(dtype).min
    dark = [RNG.integers(low, low + 90, shape).astype(dtype)]
    keep(name, net, y, *(dark if op == "max_pool2d" else []))


def mean(name, shape, axes, keep_dims, scales, zero_points, dtype=INT8):
    net = Net(shape, scales[0], zero_points[0], dtype)
    keep(
        name,
        net,
        net.node(
            "mean", ("x",), scales[1], zero_points[1], axes=axes, keep_dims=keep_dims, **DOUBLE
        ),
    )


def unary(name, op, shape, source, target, dtypes=(INT8, INT8), act=None, x=(), **attrs):
    net = Net(shape, *source, dtypes[0])
    keep(name, net, net.node(op, ("x",), *target, act=act, dtype=dtypes[1], **attrs), *x)


def convolutions():
    conv("conv_stride3_valid", (1, 11, 10, 3), (3, 3), outputs=5, strides=(3, 3), same=False)
    conv("conv_same_stride2", (1, 8, 9, 3), (3, 4), outputs=6, strides=(2, 2), act="relu6")
    conv("conv_dilated", (1, 9, 9, 2), (3, 3), outputs=4, dilation=(2, 2), act="relu")
    conv("conv_1x1_image", (1, 1, 1, 16), (1, 1), 0.3, outputs=8)
    conv("conv_per_tensor", (1, 6, 6, 4), (3, 3), 0.2, outputs=4, channels=False)
    conv("conv_rounding", (1, 20, 20, 2), (1, 1), 0.01, outputs=4, bias=100)
    conv(
        "conv_multiplier_above_1",
        (1, 4, 4, 2),
        (1, 1),
        0.006,
        x=(0.9, -7),
        outputs=4,
        bias=40,
        x_reach=1,
    )
    conv("depthwise_multiplier2", (1, 7, 7, 3), (3, 3), 0.06, strides=(2, 2), multiplier=2)
    conv("depthwise_same", (1, 6, 6, 8), (3, 3), 0.04, -128, multiplier=1, act="relu6")
    conv("depthwise_rounding", (1, 20, 20, 2), (1, 2), 0.01, multiplier=2, bias=100)
    uint8 = {"x": (0.05, 120), "dtype": UINT8, "channels": False, "offset": 131}
    conv("conv_uint8", (1, 7, 7, 3), (3, 3), 0.25, 100, outputs=4, strides=(2, 2), **uint8)
    conv("conv_uint8_rounding", (1, 20, 20, 2), (1, 1), 0.01, 100, outputs=4, bias=100, **uint8)
    conv("depthwise_uint8", (1, 6, 6, 4), (3, 3), 0.15, 100, multiplier=1, **uint8)


def other_operators():
    dense("dense", (1, 64), 10, 0.2)
    dense("dense_per_channel", (1, 60, 8), 30, 0.02, channels=True)
    dense("dense_keep_dims", (1, 60, 8), 30, 0.02)
    dense("dense_relu", (1, 3, 32), 40, 0.2, act="relu")
    dense("dense_uint8", (1, 60, 8), 30, 0.02, zero_point=99, dtype=UINT8, weight_zero=77)
    add("add", (1, 6, 6, 4), (1, 6, 6, 4), (3, -20, -5))
    add("add_relu", (1, 6, 6, 4), (1, 6, 6, 4), (0, 5, -128), act="relu")
    add("add_broadcast", (1, 4, 4, 8), (1, 1, 1, 8), (3, -20, -5), constant=True)
    add("add_uint8", (1, 6, 6, 4), (1, 6, 6, 4), (100, 30, 128), UINT8)
    pool("max_pool_same", "max_pool2d", (1, 7, 8, 3), (3, 3), (2, 2), -3, same=True)
    pool("max_pool_relu6", "max_pool2d", (1, 8, 8, 2), (2, 2), (2, 2), -60, act="relu6")
    pool("max_pool_uint8", "max_pool2d", (1, 7, 8, 3), (3, 3), (2, 2), 128, True, UINT8)
    pool("avg_pool_same", "avg_pool2d", (1, 8, 7, 6), (3, 3), (2, 2), -3, same=True)
    pool("avg_pool_even", "avg_pool2d", (1, 12, 12, 8), (2, 2), (2, 2), -3)
    pool("avg_pool_uint8", "avg_pool2d", (1, 12, 12, 4), (2, 3), (2, 3), 128, dtype=UINT8)
    mean("mean_7x7", (1, 7, 7, 64), (1, 2), False, (0.1, 0.02), (-20, 5))
    mean("mean_keep_dims_4x4", (1, 4, 4, 64), (1, 2), True, (0.05, 0.05), (-128, -128))
    mean("mean_2x1_up", (1, 2, 1, 64), (1, 2), True, (0.09, 0.05), (3, -100))
    mean("mean_channels", (1, 5, 5, 3), (3,), False, (0.05, 0.03), (1, 2))
    mean("mean_uint8", (1, 4, 4, 64), (1, 2), True, (0.05, 0.02), (128, 120), UINT8)


def elementwise():
    shape, every = (1, 4, 8, 8), np.arange(-128, 128, dtype=np.int8)[None]
    unary("relu", "relu", shape, (0.05, -10), (0.03, -128), act="relu", **DOUBLE)
    unary("relu6", "relu6", shape, (0.09, 4), (0.03, -100), act="relu6", **DOUBLE)
    ratio = ((0.05, -10), (0.048, -128))
    unary("relu_float32_ratio", "relu", (1, 256), *ratio, act="relu", x=[every], **DOUBLE)
    unary("quantize_int8", "quantize", shape, (0.05, -10), (0.07, 20), **DOUBLE)
    unary("quantize_up", "quantize", shape, (0.11, 0), (0.05, -3), **DOUBLE)
    unary("quantize_uint8", "quantize", shape, (0.05, 0), (0.05, 128), (INT8, UINT8), **DOUBLE)
    unary("quantize_float", "quantize", shape, (0, 0), (0.25, -3), (FLOAT, INT8), **DOUBLE)
    unary("dequantize", "dequantize", shape, (0.07, -3), (0, 0), (INT8, FLOAT))
    unary("softmax", "softmax", (1, 40), (0.07, 24), (1 / 256, -128), beta=1.0)
    unary("softmax_uint8", "softmax", (1, 40), (0.05, 96), (1 / 256, 0), (UINT8, UINT8), beta=1.0)
    net = Net((1, 3, 4, 2), 0.1, 9)
    pairs = ((0, 0), (1, 2), (0, 1), (0, 0))
    keep("pad", net, net.node("pad", ("x",), 0.1, 9, paddings=pairs, value=9))


def grouped():
    conv("conv_grouped", (1, 7, 6, 24), (3, 3), outputs=16, groups=4, strides=(2, 2))
    conv("conv_grouped_dilated", (1, 9, 8, 6), (3, 2), outputs=9, groups=3, dilation=(2, 3))


def network():
    net = Net((1, 9, 9, 3))
    a = net.conv("x", (3, 3), 0.12, -128, outputs=8, strides=(2, 2), act="relu", bias=500)
    b = net.conv(a, (3, 3), 0.3, 3, multiplier=1, bias=500)
    s = net.node("add", (b, a), 0.25, -128, act="relu", **DOUBLE)
    window = {"window": (2, 2), "strides": (2, 2), "padding": ((0, 1), (0, 1))}
    p = net.node("max_pool2d", (s,), 0.25, -128, act="none", **window)
    m = net.node("mean", (p,), 0.1, -128, axes=(1, 2), keep_dims=False, **DOUBLE)
    wb = net.weights("d", (5, 8), 0, m, bias=500)
    f = net.node("dense", (m, *wb), 0.2, 10, act="none", keep_dims=False, rounding="single")
    keep("network", net, net.node("softmax", (f,), 1 / 256, -128, beta=0.05))


def resnet18_checksum():
    """Return the checksum that the test of the built-in network holds."""
    graph = resnet18()
    relus = [n.name for n in graph.nodes if n.op == "add" or n.name.endswith("conv1")]
    _, logits = litert(graph, [sample_image(1)], dict.fromkeys(relus, "relu"))
    return zlib.crc32(logits.tobytes())


if __name__ == "__main__":
    convolutions()
    other_operators()
    elementwise()
    network()
    grouped()
    np.savez_compressed(Path(__file__).with_name("litert_cases.npz"), **CASES)
    print("resnet18 on sample_image(1):", resnet18_checksum())
