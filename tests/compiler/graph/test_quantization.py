"""Integer parameters by hand, and what they compute against the interpreter."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from vdla.compiler import reference
from vdla.compiler.graph import Graph, Node, Quant, Tensor, import_tflite
from vdla.compiler.graph.quantization import (
    add_params,
    average_multiplier,
    conv_params,
    mean_params,
    pool_params,
    rescale_params,
)
from vdla.errors import ModelError

REFERENCE = Path(reference.__file__).parent
INT8 = np.dtype(np.int8)
CASES = np.load(Path(__file__).parents[1] / "reference" / "litert_cases.npz")


def quant(scale, zero_point=0, axis=None):
    return Quant(np.float32(np.atleast_1d(scale)), np.atleast_1d(zero_point), axis)


def one_node(op, inputs, output, attrs):
    names = tuple(t.name for t in inputs)
    read = [t.name for t in inputs if not t.is_constant]
    node = Node("n", op, names, (output.name,), attrs)
    return Graph("g", [*inputs, output], [node], read, [output.name]), node


def test_conv_params():
    weight = np.ones((2, 1, 1, 3), np.int8)
    graph, node = one_node(
        "conv2d",
        [
            Tensor("x", (1, 1, 1, 3), INT8, quant(0.5, -7)),
            Tensor("w", weight.shape, INT8, quant([0.25, 1.5], [0, 0], 0), weight),
            Tensor("b", (2,), np.dtype(np.int32), None, np.array([5, -6], np.int32)),
        ],
        Tensor("y", (1, 1, 1, 2), INT8, quant(1.0, 9)),
        {
            "strides": (1, 1),
            "padding": ((0, 0), (0, 0)),
            "dilation": (1, 1),
            "clip": (9, 127),
            "rounding": "double",
        },
    )
    params = conv_params(graph, node)
    # 0.125 = 2**30 * 2**-33 and 0.75 = 1.5 * 2**30 * 2**-31; the bias stays as it is.
    assert params.multiplier.tolist() == [1 << 30, 3 << 29]
    assert params.right_shift.tolist() == [2, 0]
    assert params.bias.tolist() == [5, -6]
    assert params.multiplier.dtype == params.right_shift.dtype == params.bias.dtype == np.int32
    assert (params.input_zero_point, params.output_zero_point) == (-7, 9)
    assert params.weight_zero_point.tolist() == [0, 0]
    assert (params.clip, params.rounding) == ((9, 127), "double")


def test_add_params():
    graph, node = one_node(
        "add",
        [Tensor("a", (1, 2), INT8, quant(1.0, 3)), Tensor("b", (1, 2), INT8, quant(0.5, -4))],
        Tensor("y", (1, 2), INT8, quant(4.0, 5)),
        {"clip": (-128, 127), "rounding": "double"},
    )
    params = add_params(graph, node)
    assert params.left_shift == 20
    assert (params.input_multiplier, params.input_right_shift) == ((1 << 30, 1 << 30), (0, 1))
    assert (params.output_multiplier, params.output_right_shift) == (1 << 30, 20)
    assert (params.input_zero_point, params.output_zero_point) == ((3, -4), 5)


def pool(op, output_scale=1.0):
    attrs = {"strides": (2, 2), "padding": ((0, 1), (1, 1)), "window": (2, 3), "clip": (-128, 127)}
    return one_node(
        op,
        [Tensor("x", (1, 5, 6, 1), INT8, quant(1.0, 2))],
        Tensor("y", (1, 3, 3, 1), INT8, quant(output_scale, 2)),
        attrs,
    )


def test_pool_params_count_what_is_not_padding():
    params = pool_params(*pool("avg_pool2d"))
    # Rows 2, 2, 1 of the input under the window; columns 2, 3 and 3.
    assert params.counts.tolist() == [[4, 6, 6], [4, 6, 6], [2, 3, 3]]
    assert params.pad_value == 0
    assert pool_params(*pool("max_pool2d")).pad_value == -128


def test_a_pool_that_rescales_is_refused():
    with pytest.raises(ModelError, match="must keep scale and zero point; 'n' changes them. Put"):
        pool_params(*pool("avg_pool2d", output_scale=0.5))


def test_average_multiplier():
    assert average_multiplier(1) == (2**31 - 1, 0)
    assert average_multiplier(2) == (2**30 + 1, 0)
    assert average_multiplier(9) == (238609294 + 1, 0)  # floor(2**31 / 9) + 1
    for count in (*range(3, 65), 144, 196, 784):
        average_multiplier(count)  # checks itself over every sum
    with pytest.raises(ModelError, match="at least 1 element, not 0. Pad it less"):
        average_multiplier(0)


def test_mean_params():
    graph, node = one_node(
        "mean",
        [Tensor("x", (1, 7, 7, 2), INT8, quant(0.5, -3))],
        Tensor("y", (1, 2), INT8, quant(1.0, 4)),
        {"axes": (1, 2), "keep_dims": False, "rounding": "double"},
    )
    params = mean_params(graph, node)
    # 49 takes 5 whole bits: (2**30 << 5) // 49, shifted right by 5.
    assert (params.count, params.multiplier, params.right_shift) == (49, 701219150, 5)
    assert (params.input_zero_point, params.output_zero_point) == (-3, 4)


def test_parameters_of_another_operator_are_refused():
    graph, node = pool("avg_pool2d")
    with pytest.raises(ModelError, match="belong to add, not to avg_pool2d .'n'.. Ask for"):
        add_params(graph, node)


def test_missing_scales_are_refused():
    graph, node = one_node(
        "mean",
        [Tensor("x", (1, 7, 7, 2), INT8)],
        Tensor("y", (1, 2), INT8, quant(1.0)),
        {"axes": (1, 2), "keep_dims": False, "rounding": "double"},
    )
    with pytest.raises(ModelError, match="needs scales and zero points; tensor 'x' .int8. has no"):
        mean_params(graph, node)


def requantize(x, m, right_shift, rounding):
    """Python integers, one at a time: the slowest and plainest way."""
    out = []
    for value, factor, shift in zip(*np.broadcast_arrays(x, m, right_shift), strict=True):
        value, factor, shift = int(value), int(factor), int(shift)
        if rounding == "single":
            out.append((value * factor + (1 << (30 + shift))) >> (31 + shift))
            continue
        high = ((value << max(-shift, 0)) * factor + (1 << 30)) >> 31
        half = (1 << shift) >> 1 if shift > 0 else 0
        out.append(high if shift <= 0 else (abs(high) + half >> shift) * (1 if high >= 0 else -1))
    return np.array(out)


@pytest.mark.parametrize(
    "case",
    ["conv_rounding", "conv_uint8_rounding", "dense_per_channel", "dense_uint8", "dense"],
)
def test_conv_params_give_litert_outputs(case, tmp_path):
    graph, node, x, y = load(case, tmp_path)
    params = conv_params(graph, node)
    weight = graph.tensors[node.inputs[1]].data.astype(np.int64)
    rows = x.reshape(-1, weight.shape[-1]).astype(np.int64) - params.input_zero_point
    weight = weight.reshape(weight.shape[0], -1) - params.weight_zero_point[:, None]
    total = rows @ weight.T + params.bias
    channels = np.broadcast_to(np.arange(total.shape[1]), total.shape).ravel()
    q = requantize(
        total.ravel(),
        params.multiplier[channels],
        params.right_shift[channels],
        params.rounding,
    )
    assert np.array_equal(np.clip(q + params.output_zero_point, *params.clip), y.ravel())


@pytest.mark.parametrize("case", ["add", "add_relu", "add_uint8"])
def test_add_params_give_litert_outputs(case, tmp_path):
    graph, node, x, y = load(case, tmp_path)
    params = add_params(graph, node)
    total = np.zeros(y.size, np.int64)
    for i, value in enumerate((x, CASES[f"{case}.input_1"])):
        shifted = (value.ravel().astype(np.int64) - params.input_zero_point[i]) << 20
        shift = params.input_right_shift[i]
        total += requantize(shifted, params.input_multiplier[i], shift, params.rounding)
    q = requantize(total, params.output_multiplier, params.output_right_shift, params.rounding)
    assert np.array_equal(np.clip(q + params.output_zero_point, *params.clip), y.ravel())


@pytest.mark.parametrize("case", ["mean_7x7", "mean_2x1_up", "mean_uint8"])
def test_mean_params_give_litert_outputs(case, tmp_path):
    graph, node, x, y = load(case, tmp_path)
    params = mean_params(graph, node)
    total = x.astype(np.int64).sum(axis=node.attrs["axes"]).ravel()
    total -= params.count * params.input_zero_point
    q = requantize(total, params.multiplier, params.right_shift, params.rounding)
    assert np.array_equal(np.clip(q + params.output_zero_point, *params.clip), y.ravel())


@pytest.mark.parametrize("case", ["relu", "relu6", "relu_float32_ratio", "quantize_up"])
def test_rescale_params_give_litert_outputs(case, tmp_path):
    graph, node, x, y = load(case, tmp_path)
    params = rescale_params(graph, node)
    centred = x.ravel().astype(np.int64) - params.input_zero_point
    q = requantize(centred, params.multiplier, params.right_shift, params.rounding)
    assert np.array_equal(np.clip(q + params.output_zero_point, *params.clip), y.ravel())


def test_average_multipliers_give_litert_outputs(tmp_path):
    graph, node, x, _ = load("avg_pool_even", tmp_path)
    counts = pool_params(graph, node).counts
    assert np.unique(counts).tolist() == [4]
    m, shift = average_multiplier(4)
    total = x.astype(np.int64).reshape(6, 2, 6, 2, 8).sum(axis=(1, 3))
    assert np.array_equal(
        requantize(total.ravel(), m, shift, "single"), CASES["avg_pool_even.output"].ravel()
    )


def load(case, tmp_path):
    path = tmp_path / f"{case}.tflite"
    path.write_bytes(CASES[f"{case}.model"].tobytes())
    graph = import_tflite(path)
    return graph, graph.nodes[0], CASES[f"{case}.input_0"], CASES[f"{case}.output"]


def test_the_interpreter_shares_no_arithmetic_with_the_parameters():
    text = "".join(p.read_text(encoding="utf-8") for p in REFERENCE.glob("*.py"))
    assert "from vdla.compiler.graph import" in text
    assert not re.search(r"import.*(fixedpoint|quantization|tflite_ops)", text)
    assert not re.search(r"from vdla.compiler.graph\.", text)
