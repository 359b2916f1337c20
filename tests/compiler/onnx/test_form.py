"""Operators that are not as ONNX defines them: each is named, with the rule and its value."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.onnx.models import Model
from tests.compiler.onnx.test_refusals import refused
from vdla.compiler.onnx import import_onnx

FLOAT = onnx.TensorProto.FLOAT


def of(
    op: str,
    *constants: Any,
    shape: tuple[int, ...] = (1, 4, 8, 8),
    opset: int = 17,
    code: int = FLOAT,
    **attrs: Any,
) -> onnx.ModelProto:
    """Return a model of one operator: of an image, and of constants; shapes stand for weights."""
    m = Model(opset)
    inputs = [m.input("x", shape, code)]
    for values in constants:
        shaped = isinstance(values, tuple)
        inputs.append("" if values is None else m.drawn(*values) if shaped else m.constant(values))
    return m.finish(m.node(op, *inputs, **attrs))


def real(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


FILTERS = (6, 4, 3, 3)
NORMALS = [real(1, 1, 1, 1)] * 3
WRONG = {
    "pads for one dimension": (
        of("Conv", FILTERS, pads=[1, 1]),
        r"pads must be 4 integers of at least 0 for the shape it has, not \[1, 1\]",
    ),
    "pads below 0": (of("Conv", FILTERS, pads=[1, 1, -1, 1]), r"at least 0 .*not \[1, 1, -1, 1\]"),
    "pads of a pool": (
        of("MaxPool", kernel_shape=[2, 2], pads=[0, 0, 1]),
        r"pads must be 4 integers .*not \[0, 0, 1\]",
    ),
    "one stride": (of("Conv", FILTERS, strides=[2]), r"strides must be 2 .* not \[2\]"),
    "a stride of 0": (of("Conv", FILTERS, strides=[0, 2]), r"at least 1 .* not \[0, 2\]"),
    "one dilation": (of("Conv", FILTERS, dilations=[2]), r"dilations must be 2 .* not \[2\]"),
    "a pool's window": (
        of("AveragePool", kernel_shape=[2]),
        r"kernel_shape must be 2 .* not \[2\]",
    ),
    "another kernel_shape": (
        of("Conv", FILTERS, kernel_shape=[5, 5]),
        r"kernel_shape must be the weights' \[3, 3\], not \[5, 5\]\. Leave it out",
    ),
    "auto_pad": (
        of("Conv", FILTERS, auto_pad="SAME"),
        "auto_pad must be one of NOTSET, SAME_LOWER, SAME_UPPER, VALID, not 'SAME'",
    ),
    "auto_pad of a pool": (of("MaxPool", kernel_shape=[2, 2], auto_pad="same"), "not 'same'"),
    "filters of a signal": (
        of("Conv", (6, 4, 3)),
        r"as many dimensions as the input, not \(6, 4, 3\) for \(1, 4, 8, 8\)",
    ),
    "a bias": (
        of("Conv", FILTERS, (7,)),
        r"a bias must have one element for each of 6 outputs, not shape \(7,\)",
    ),
    "infinite weights": (
        of("Conv", np.full(FILTERS, np.inf, np.float32)),
        "its weights must be finite; c0 holds 216 infinite in 216 elements",
    ),
    "a transposed convolution's channels": (
        of("ConvTranspose", (3, 6, 3, 3)),
        r"the input's 4 channels first, over 1 groups, not shape \(3, 6, 3, 3\)",
    ),
    "a transposed convolution's shape": (
        of("ConvTranspose", (4, 6, 3, 3), output_shape=[12]),
        r"output_shape must be 2 integers .*, not \[12\]",
    ),
    "a transposed convolution's padding": (
        of("ConvTranspose", (4, 6, 3, 3), output_padding=[1]),
        r"output_padding must be 2 integers .*, not \[1\]",
    ),
    "Slice": (
        of("Slice", whole(0), whole(2), whole(5)),
        r"an axis must lie in -4\.\.3, not be 5",
    ),
    "Slice by two axes": (
        of("Slice", whole(0), whole(2, 2), whole(1)),
        "a start, an end, an axis and a step each, not 1, 2, 1 and 1",
    ),
    "Slice twice": (
        of("Slice", whole(0, 0), whole(2, 2), whole(1, -3)),
        r"an axis must be named once, not \[1, -3\]",
    ),
    "ReduceMean": (of("ReduceMean", axes=[4]), r"an axis must lie in -4\.\.3, not be 4"),
    "Softmax": (of("Softmax", axis=-5), r"an axis must lie in -4\.\.3, not be -5"),
    "Softmax of old": (of("Softmax", axis=7, opset=11), r"-4\.\.3, not be 7"),
    "Squeeze": (of("Squeeze", whole(4)), r"-4\.\.3, not be 4"),
    "Unsqueeze": (of("Unsqueeze", whole(5)), r"-5\.\.4, not be 5"),
    "Unsqueeze twice": (of("Unsqueeze", whole(0, 0)), r"named once, not \[0, 0\]"),
    "Flatten": (of("Flatten", axis=5), r"an axis must lie in -4\.\.4, not be 5"),
    "Resize": (
        of("Resize", None, real(2, 2), opset=18, axes=[2, 4]),
        r"an axis must lie in -4\.\.3, not be 4",
    ),
    "Resize by two": (
        of("Resize", None, real(2, 2)),
        r"scales must be 4 numbers for a tensor of shape \(1, 4, 8, 8\), not \[2.0, 2.0\]",
    ),
    "Resize by a policy": (
        of("Resize", None, None, whole(1, 4, 9, 9), opset=18, keep_aspect_ratio_policy="smaller"),
        "policy must be one of not_larger, not_smaller, stretch, not 'smaller'",
    ),
    "Slice by no steps": (
        of("Slice", whole(0), whole(2), whole(1), whole()),
        "a start, an end, an axis and a step each, not 1, 1, 1 and 0",
    ),
    "Upsample": (of("Upsample", real(2, 2), opset=9), r"scales must be 4 numbers"),
    "Concat": (of("Concat", (1, 4, 8, 8), axis=4), r"-4\.\.3, not be 4"),
    "Concat without an axis": (
        of("Concat", (1, 4, 8, 8)),
        r"these have not: Concat 'n0' \(node 0\): it must have the attribute axis\. Export",
    ),
    "Concat of ranks": (of("Concat", (1, 4), axis=1), r"Concat 'n0' \(node 0\): .*differ along"),
    "Split": (
        of("Split", whole(1, 3)),
        r"parts of at least 1 must add up to 1, not \[1, 3\]",
    ),
    "Transpose": (of("Transpose", perm=[0, 1, 2]), r"each of 4 dimensions once, not \[0, 1, 2\]"),
    "Gather by reals": (
        of("Gather", real(1, 2)),
        "its input indices must be one of int32, int64, not float",
    ),
    "Gather beyond": (of("Gather", whole(4), axis=1), r"must lie in -4\.\.3, not 4\.\.4"),
    "Clip": (
        of("Clip", real(0, 1, 0, 0)),
        r"min must be one number, not of shape \(4,\)\. Use Max, Min",
    ),
    "Pad": (of("Pad", whole(0, 0, 1, 1)), r"pads must be 8 integers, .* not \[0, 0, 1, 1\]"),
    "Pad by reflection": (
        of("Pad", whole(0, 0, 8, 0, 0, 0, 0, 0), mode="reflect"),
        r"must be within the input, less than \(1, 4, 8, 8\), not \(\(0, 0\), \(0, 0\), \(8, 0\)",
    ),
    "Gemm": (of("Gemm", (8, 8)), r"matrices must have 2 dimensions, not shape \(1, 4, 8, 8\)"),
    "infinite factors": (
        of("MatMul", np.full((8, 2), -np.inf, np.float32)),
        "its weights must be finite; c0 holds 16 infinite in 16",
    ),
    "a negative variance": (
        of("BatchNormalization", *NORMALS, real(1, 1, -0.5, 1)),
        "a variance must be at least 0, and above it with epsilon, not -0.5 with 1e-05",
    ),
    "a variance of nothing": (
        of("BatchNormalization", *NORMALS, real(1, 1, 0, 1), epsilon=0.0),
        "a variance must be at least 0, and above it with epsilon, not 0 with 0",
    ),
    "an infinite scale": (
        of("BatchNormalization", real(1, np.inf, 1, 1), *NORMALS),
        "its scale must be finite; c0 holds 1 infinite in 4 elements",
    ),
    "five variances": (
        of("BatchNormalization", *NORMALS, real(1, 1, 1, 1, 1)),
        r"its variance must have one element for each of 4 channels, not shape \(5,\)",
    ),
    "no zero point": (
        of(
            *("MatMulInteger", np.ones((8, 2), np.uint8), np.zeros(0, np.uint8)),
            code=onnx.TensorProto.UINT8,
        ),
        r"a zero point must be one number, or 8 along axis -2, not of shape \(0,\)",
    ),
    "two types": (
        of("Add", whole(1)),
        "its inputs A and B must be of one type, not float and int64",
    ),
    "a scale's axis": (
        of("QuantizeLinear", real(1, 1), np.array([0, 0], np.uint8), axis=9),
        r"an axis must lie in -4\.\.3, not be 9",
    ),
    "scales of other channels": (
        of("QuantizeLinear", real(1, 1), np.array([0, 0], np.uint8)),
        r"QuantizeLinear 'n0' \(node 0\): Per-channel scales must match",
    ),
    "a float stride": (
        of("Conv", FILTERS, strides=[1.0, 1.0]),
        "its attribute strides must be INTS, not FLOATS",
    ),
    "no input": (of("Add"), "it must have 2 inputs, not 1"),
    "an input left out": (of("Reshape", None), "its input shape must be given"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_a_malformed_operator_is_refused_by_node(case: str) -> None:
    model, words = WRONG[case]
    assert f"{model.graph.node[0].op_type} 'n0' (node 0): " in refused(model, words)


def test_all_malformed_operators_are_listed_at_once() -> None:
    m = Model()
    x = m.node("Concat", m.input("x", (1, 4, 8, 8)), m.drawn(1, 4, 8, 8))
    model = m.finish(m.node("MaxPool", m.node("LRN", x), strides=2))
    message = refused(model, "in the model these have not: ")
    assert "Concat 'n0' (node 0): it must have the attribute axis; " in message
    assert "LRN 'n1' (node 1): it must have the attribute size; " in message
    assert "MaxPool 'n2' (node 2): it must have the attribute kernel_shape; " in message
    assert "MaxPool 'n2' (node 2): its attribute strides must be INTS, not INT. " in message


def test_what_onnx_allows_is_taken() -> None:
    for model in (
        of("Conv", FILTERS, auto_pad="SAME_UPPER", kernel_shape=[3, 3]),
        of("Conv", (6, 4, 3), shape=(1, 4, 8), strides=[2], dilations=[2], pads=[1, 2]),
        of("Flatten", axis=-4),
        of("Flatten", axis=4),
        of("Softmax", axis=-4),
        of("Clip", None, real(6).reshape(())),
        of("Pad", whole(0, 0, 7, 0, 0, 0, 0, 0), mode="reflect"),
        of("Where", real(0), real(-np.inf), code=onnx.TensorProto.BOOL),
    ):
        import_onnx(model)
