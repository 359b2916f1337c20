"""Dequantize, operator, quantize: folded into integers, each a step from the float form at most."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

from tests.compiler.passes.nets import WINDOW, Net, assert_same, ops
from vdla.compiler.graph import Graph, Quant
from vdla.compiler.passes import PASSES
from vdla.compiler.passes.fold_quantization import levels


def quant(scale: float, zero_point: int = 0) -> Quant:
    return Quant(np.float32([scale]), np.array([zero_point]))


class QuantizedNet(Net):
    """A network between quantize and dequantize."""

    def integers(
        self, *shape: int, scale: float = 0.02, zero: int = 3, dtype: Any = np.int8
    ) -> str:
        return self.input(*shape, dtype=dtype, quant=quant(scale, zero))

    def real(self, x: str) -> str:
        return self.op("dequantize", x, dtype=np.float32)

    def back(self, x: str, scale: float = 0.02, zero: int = 3, dtype: Any = np.int8) -> str:
        return self.op("quantize", x, dtype=dtype, quant=quant(scale, zero), rounding="even")

    def weights(self, *shape: int, axis: int = 0) -> str:
        values = self.source.integers(-127, 128, shape).astype(np.int8)
        scales = self.source.uniform(0.001, 0.004, shape[axis]).astype(np.float32)
        zeros = np.zeros(shape[axis], np.int64)
        return self.real(self.constant(values, Quant(scales, zeros, axis)))


def folded(net: Net, *outputs: str) -> Graph:
    before = net.graph(*outputs)
    after = PASSES["fold_quantization"](before)
    assert_same(before, after, steps=1)
    return after


@pytest.mark.parametrize("clip", [(-inf, inf), (0.0, inf), (0.0, 6.0), (-1.0, 1.0)])
@pytest.mark.parametrize("op", ["conv2d", "dense", "depthwise_conv2d"])
def test_weighted_operators(op: str, clip: tuple[float, float]) -> None:
    net = QuantizedNet()
    x = net.real(net.integers(1, 6, 7, 2, scale=0.05))
    if op == "dense":
        y = net.op(op, x, net.weights(4, 2), net.drawn(4), keep_dims=True, clip=clip)
    elif op == "conv2d":
        y = net.op(op, x, net.weights(4, 3, 3, 2), net.drawn(4), **WINDOW, clip=clip)
    else:
        y = net.op(op, x, net.weights(1, 3, 3, 4, axis=3), net.drawn(4), **WINDOW, clip=clip)
    after = folded(net, net.back(y, scale=0.08, zero=-7))
    (node,) = after.nodes
    assert node.op == op
    output = after.output_tensor(node)
    bounds = tuple(levels(bound, output.quant, output.dtype) for bound in clip)
    assert node.attrs["clip"] == bounds
    assert all(tensor.quant is not None for tensor in after.input_tensors(node))


def test_levels_of_reals() -> None:
    q = quant(0.5, -3)
    assert [levels(v, q, np.dtype(np.int8)) for v in (-inf, 0.0, 1.0, 1000.0, inf)] == [
        -128,
        -3,
        -1,
        127,
        127,
    ]


def test_additions_means_and_activations() -> None:
    net = QuantizedNet()
    x, y = net.real(net.integers(1, 4, 4, 8)), net.real(net.integers(1, 4, 4, 8, scale=0.03))
    z = net.back(net.op("add", x, y, clip=(0.0, inf)), scale=0.04, zero=-128)
    z = net.back(net.op("clip", net.real(z), clip=(0.0, 2.0)), scale=0.01, zero=-128)
    z = net.back(net.op("mean", net.real(z), axes=(1, 2), keep_dims=False), scale=0.01, zero=-128)
    assert ops(folded(net, z)) == ["add", "clip", "mean"]


def test_a_concatenation_brings_its_inputs_to_one_scale() -> None:
    net = QuantizedNet()
    x, y = net.real(net.integers(1, 4, 8)), net.real(net.integers(1, 4, 8, scale=0.03))
    assert ops(folded(net, net.back(net.op("concat", x, y, axis=2), scale=0.03))) == ["concat"]


def test_movements_go_before_dequantize_whoever_reads() -> None:
    net = QuantizedNet()
    x = net.real(net.integers(1, 4, 4, 8))
    x = net.op("pad", x, paddings=((0, 0), (1, 1), (1, 1), (0, 0)), value=0.0, mode="constant")
    x = net.op("max_pool2d", x, window=(2, 2), strides=(2, 2), padding=((0, 0), (0, 0)))
    x = net.op("reshape", net.transpose(x, 0, 3, 1, 2), shape=(1, 72))
    after = folded(net, net.op("tanh", x))
    assert ops(after) == ["pad", "max_pool2d", "transpose", "reshape", "dequantize", "tanh"]
    assert after.nodes[0].attrs["value"] == 3  # the zero point


def test_quantize_goes_before_movements_that_follow_an_operator() -> None:
    net = QuantizedNet()
    x = net.op("conv2d", net.real(net.integers(1, 4, 4, 2)), net.weights(4, 3, 3, 2), **WINDOW)
    x = net.op("reshape", net.transpose(x, 0, 3, 1, 2), shape=(1, 16))
    assert ops(folded(net, net.back(x))) == ["conv2d", "transpose", "reshape"]


def test_a_pool_keeps_its_scale_and_is_rescaled_after() -> None:
    net = QuantizedNet()
    attrs = {"window": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0))}
    x = net.real(net.integers(1, 4, 4, 8))
    y = net.back(net.op("avg_pool2d", x, **attrs), scale=0.03)
    assert ops(folded(net, y)) == ["avg_pool2d", "quantize"]
    net = QuantizedNet()
    x = net.real(net.integers(1, 4, 4, 8))
    y = net.back(net.op("max_pool2d", x, **attrs), scale=0.006)
    assert ops(folded(net, y)) == ["max_pool2d", "quantize"]


@pytest.mark.parametrize("clip", [(-inf, inf), (0.0, 0.5)])
def test_a_mean_at_a_finer_scale_is_summed_and_rounded_once(clip: tuple[float, float]) -> None:
    # To a third of the step, two roundings may be steps apart from one.
    net = QuantizedNet()
    attrs = {"window": (2, 3), "strides": (2, 1), "padding": ((0, 0), (0, 0)), "clip": clip}
    x = net.real(net.integers(1, 4, 5, 8))
    after = folded(net, net.back(net.op("avg_pool2d", x, **attrs), scale=0.006))
    assert ops(after) == ["depthwise_conv2d"]
    weight = after.input_tensors(after.nodes[0])[1]
    assert (weight.shape, int(weight.data.min()), int(weight.data.max())) == ((1, 2, 3, 8), 1, 1)
    assert weight.quant.scale[0] == 1 / 6
    net = QuantizedNet()
    # At the edge windows hold less, so that no one weight serves all.
    x = net.real(net.integers(1, 4, 5, 8))
    padded = {**attrs, "padding": ((1, 1), (1, 1))}
    after = folded(net, net.back(net.op("avg_pool2d", x, **padded), scale=0.006))
    assert ops(after) == ["dequantize", "avg_pool2d", "quantize"]


def test_dequantize_and_quantize_alone_rescale_or_vanish() -> None:
    net = QuantizedNet()
    x = net.integers(1, 8)
    one, other = net.back(net.real(x), scale=0.05), net.op("exp", net.real(net.back(net.real(x))))
    after = folded(net, one, other)
    assert ops(after) == ["quantize", "dequantize", "exp"]
    assert after.nodes[1].inputs == (x,)


def test_what_others_read_as_reals_stays_real() -> None:
    net = QuantizedNet()
    x = net.op("conv2d", net.real(net.integers(1, 4, 4, 2)), net.weights(4, 3, 3, 2), **WINDOW)
    after = folded(net, net.back(x), net.op("exp", x))
    assert ops(after).count("conv2d") == 1
    assert after.output_tensor(next(n for n in after.nodes if n.op == "conv2d")).dtype == np.float32


def test_a_real_bias_counts_in_products_of_scales() -> None:
    net = QuantizedNet()
    w = net.constant(np.ones((1, 2), np.int8), quant(0.25))
    x = net.real(net.integers(1, 2, scale=0.5))
    b = net.constant(np.float32([1.0]))
    y = net.op("dense", x, net.real(w), b, keep_dims=True)
    (node,) = folded(net, net.back(y, scale=0.5)).nodes
    after = PASSES["fold_quantization"](net.graph(net.nodes[-1].outputs[0]))
    assert after.tensors[node.inputs[2]].data.tolist() == [8]  # 1 / (0.5 * 0.25)


def test_bytes_become_signed_and_ends_keep_their_type() -> None:
    net = QuantizedNet()
    x = net.real(net.integers(1, 4, 4, 2, zero=131, dtype=np.uint8))
    x = net.op("pad", x, paddings=((0, 0), (1, 1), (1, 1), (0, 0)), value=0.0, mode="constant")
    x = net.back(net.op("tanh", x), scale=1 / 128, zero=128, dtype=np.uint8)
    before = net.graph(net.back(net.op("exp", net.real(x)), zero=0, dtype=np.uint8))
    after = PASSES["sign_integers"](before)
    assert_same(before, after)
    inside = [t for t in after.tensors.values() if t.dtype.kind in "iu"]
    assert sorted(str(t.dtype) for t in inside) == ["int8", "int8", "int8", "uint8", "uint8"]
    assert ops(after) == ["quantize", *ops(before), "quantize"]
    zeros = {t.name: int(t.quant.zero_point[0]) for t in inside if t.dtype == np.int8}
    assert sorted(zeros.values()) == [-128, 0, 3]


def test_movements_of_bytes_shift_their_fill_and_range() -> None:
    net = QuantizedNet()
    q = quant(0.1, 100)
    x = net.op("quantize", net.input(1, 4, 4, 2), dtype=np.uint8, quant=q, rounding="even")
    x = net.op("pad", x, paddings=((0, 0), (1, 1), (1, 1), (0, 0)), value=100, mode="constant",
               quant=q)  # fmt: skip
    x = net.op("max_pool2d", x, window=(2, 2), strides=(2, 2), padding=((0, 0), (0, 0)),
               clip=(100, 255), quant=q)  # fmt: skip
    before = net.graph(net.op("exp", net.real(x)))
    after = PASSES["sign_integers"](before)
    assert_same(before, after)
    assert after.nodes[1].attrs["value"] == -28
    assert after.nodes[2].attrs["clip"] == (-28, 127)


@pytest.mark.parametrize(("alpha", "op"), [(0.1, "leaky_relu"), (-0.1, "quantize")])
def test_a_leaky_relu_becomes_integer_unless_its_slope_is_negative(alpha: float, op: str) -> None:
    net = QuantizedNet()
    q = quant(0.1, 20)
    x = net.op("quantize", net.input(1, 8), dtype=np.int8, quant=q, rounding="even")
    x = net.op("leaky_relu", net.real(x), alpha=alpha)
    x = net.op("quantize", x, dtype=np.int8, quant=quant(0.08, -3), rounding="even")
    before = net.graph(net.real(x))
    after = PASSES["fold_quantization"](before)
    assert after.producer(after.nodes[-1].inputs[0]).op == op
    assert after.nodes[1].op == ("leaky_relu" if alpha > 0 else "dequantize")


def test_uint8_stays_where_an_operator_computes_on_it() -> None:
    net = QuantizedNet()
    q = quant(0.1, 100)
    x = net.op("quantize", net.input(1, 8), dtype=np.uint8, quant=q, rounding="even")
    x = net.op("relu", x, clip=(100, 255), quant=q)
    before = net.graph(net.real(x))
    assert PASSES["sign_integers"](before) is before
