"""Shape rules of movements, products and the operators that broadcast, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.one_operator import network, quant
from vdla.compiler.graph import OPS, Graph, Node, Tensor, movement, shapes
from vdla.errors import ModelError

RESIZE = {
    "coordinates": "asymmetric",
    "mode": "nearest",
    "nearest": "floor",
    "roi": None,
    "scales": (1.0, 2.0),
    "size": (1, 8),
}
SPREAD = {
    "dilation": (1, 1),
    "groups": 1,
    "output_padding": (0, 0),
    "padding": ((0, 0), (0, 0)),
    "strides": (1, 1),
}


def test_slices_count_as_ranges_do():
    attrs = {"begin": (0, 5, 3), "end": (1, -1, 9), "step": (1, -2, 2)}
    assert movement.slice_([(1, 6, 9)], attrs) == (1, 3, 3)
    assert movement.slice_([()], {"begin": (), "end": (), "step": ()}) == ()


def test_joins_and_gathers():
    assert movement.concat([(2, 3), (2, 1), (2, 5)], {"axis": 1}) == (2, 9)
    assert movement.gather([(4, 5, 6), (2, 3)], {"axis": 1}) == (4, 2, 3, 6)
    assert movement.gather([(4, 5), ()], {"axis": 0}) == (5,)
    assert movement.expand([(3, 1)], {"shape": (2, 3, 4)}) == (2, 3, 4)
    assert movement.transpose([(2, 3, 4)], {"perm": (2, 0, 1)}) == (4, 2, 3)


def test_matrix_products_follow_numpy():
    for lhs, rhs in (
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((5, 1, 2, 3), (4, 3, 6)),
        ((3,), (7, 3, 2)),
        ((7, 2, 3), (3,)),
    ):
        want = np.matmul(np.zeros(lhs), np.zeros(rhs)).shape
        assert shapes.matmul([lhs, rhs], {}) == want


def test_a_transposed_convolution_grows():
    # (5 - 1) * 2 + (3 - 1) * 1 + 1 = 11, less 1 + 1, and 1 more at the end
    attrs = {
        **SPREAD,
        "strides": (2, 1),
        "padding": ((1, 1), (0, 0)),
        "output_padding": (1, 0),
    }
    assert shapes.conv_transpose([(1, 5, 6, 4), (8, 3, 1, 4)], attrs) == (1, 10, 6, 8)
    grouped = {**SPREAD, "groups": 2, "dilation": (3, 1)}
    assert shapes.conv_transpose([(1, 5, 6, 4), (8, 2, 1, 2), (8,)], grouped) == (1, 8, 6, 8)


@pytest.mark.parametrize(
    ("rule", "inputs", "attrs", "message"),
    [
        (movement.concat, [(1, 2), (1, 2)], {"axis": -1}, "of the 2 dimensions counted from 0, n"),
        (movement.concat, [(1, 2), (2, 2)], {"axis": 1}, r"along axis 1 alone, not be \(1, 2\) an"),
        (movement.concat, [(1, 2), (1, 2, 1)], {"axis": 1}, r"\(1, 2\) and \(1, 2, 1\). Reshape"),
        (movement.concat, [()], {"axis": 0}, "one of the 0 dimensions"),
        (movement.gather, [(4, 5), (1,)], {"axis": 2}, "counted from 0, not 2. Count from"),
        (
            movement.transpose,
            [(2, 3)],
            {"perm": (0, -1)},
            r"each of 2 dimensions once, not \(0, -1",
        ),
        (movement.transpose, [(2, 3)], {"perm": (0,)}, r"once, not \(0,\). Count from 0"),
        (movement.expand, [(2,)], {"shape": (3,)}, r"dimensions of 1, not \(2,\) to \(3,\). Give"),
        (movement.expand, [(1, 2)], {"shape": (2,)}, r"not \(1, 2\) to \(2,\)"),
        (
            movement.slice_,
            [(4,)],
            {"begin": (2,), "end": (2,), "step": (1,)},
            r"at least one element and none outside; axis 0 of \(4,\) is taken from 2 to 2 by 1. C",
        ),
        (movement.slice_, [(4,)], {"begin": (0,), "end": (5,), "step": (1,)}, "from 0 to 5 by 1"),
        (movement.slice_, [(4,)], {"begin": (-2,), "end": (4,), "step": (1,)}, "from -2 to 4"),
        (
            movement.slice_,
            [(4,)],
            {"begin": (0,), "end": (4,), "step": (0,)},
            "a step other than 0",
        ),
        (movement.slice_, [(4,)], {"begin": (), "end": (), "step": ()}, "for each of 1 dimensions"),
        (
            movement.pad,
            [(3,)],
            {"paddings": ((1, 1),), "mode": "mirror"},
            "mode must be one of constant, edge, reflect, wrap, not 'mirror'",
        ),
        (movement.pad, [(1,)], {"paddings": ((1, 0),), "mode": "reflect"}, "to be reflected; "),
        (movement.resize, [(1, 4)], {**RESIZE, "mode": "area"}, "mode must be one of cubic, lin"),
        (movement.resize, [(1, 4)], {**RESIZE, "nearest": "up"}, "nearest must be one of ceil, fl"),
        (movement.resize, [(1, 4)], {**RESIZE, "coordinates": "x"}, "coordinates must be one of"),
        (movement.resize, [(1, 4)], {**RESIZE, "size": (8,)}, r"each of 2 dimensions, not \(8,\)"),
        (movement.resize, [(1, 4)], {**RESIZE, "size": (0, 8)}, "a size of at least 1"),
        (movement.resize, [(1, 4)], {**RESIZE, "scales": (1, 0)}, "positive and finite, not"),
        (
            movement.resize,
            [(1, 4)],
            {**RESIZE, "coordinates": "tf_crop_and_resize"},
            r"a region, a \(begin, end\) pair for each of 2 dimensions, not None",
        ),
        (shapes.broadcast, [(2, 3), (4, 1, 3), (5,)], {}, r"not \(2, 3\) and \(4, 1, 3\) and \(5"),
        (shapes.prelu, [(2, 3), (4, 2, 3)], {}, r"broadcast to its input, not \(4, 2, 3\) to \(2"),
        (shapes.softmax, [(2, 3)], {"axis": -1}, r"from 0, not \(-1,\) of a tensor of rank 2"),
        (shapes.mean, [(2, 3)], {"axes": (1, 0), "keep_dims": True}, r"ascending.* not \(1, 0\)"),
        (shapes.lrn, [()], {"size": 3}, r"not over 3 of shape \(\)"),
        (shapes.matmul, [(2, 3), (4, 2)], {}, r"a common depth.* not be \(2, 3\) and \(4, 2\)"),
        (shapes.matmul, [(), (4,)], {}, r"not be \(\) and \(4,\). Transpose one"),
        (shapes.matmul, [(2, 2, 3), (4, 3, 2)], {}, "must be equal or broadcast"),
        (
            shapes.conv_transpose,
            [(1, 5, 5, 4), (6, 3, 3, 4)],
            {**SPREAD, "groups": 2},
            "input's 4 channels over 2 groups",
        ),
        (
            shapes.conv_transpose,
            [(1, 1, 5, 4), (6, 1, 3, 4)],
            {**SPREAD, "padding": ((1, 0), (0, 0))},
            "must leave an output; 1 is cropped from 1. Crop less",
        ),
        (
            shapes.conv_transpose,
            [(1, 5, 5, 4), (6, 3, 3, 4)],
            {**SPREAD, "output_padding": (-1, 0)},
            "paddings at least 0, not 3, 1, 1, .0, 0. and -1",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(rule, inputs, attrs, message):
    with pytest.raises(ModelError, match=message):
        rule(inputs, attrs)


def one(op, dtypes, output, attrs=None, shape=(2,)):
    """Make a graph of one operator by its dtypes alone."""
    tensors = [Tensor(f"x{k}", shape, np.dtype(d)) for k, d in enumerate(dtypes)]
    tensors.append(Tensor("y", shape, np.dtype(output)))
    names = tuple(t.name for t in tensors)
    return Graph("g", tensors, [Node("n", op, names[:-1], ("y",), attrs or {})], names[:-1], ["y"])


@pytest.mark.parametrize(
    ("op", "dtypes", "output", "message"),
    [
        ("mul", ("float32", "float16"), "float32", "not float16, float32. Put a cast before it"),
        ("mul", ("bool", "bool"), "bool", "mul node 'n' must compute on numbers, not bool"),
        ("exp", ("int32",), "int32", "works on floats, not int32. Dequantize or cast"),
        ("exp", ("float32",), "float64", "one dtype, not float32, float64"),
        ("equal", ("int32", "int32"), "int32", "must give bool, not int32. Put a cast after"),
        ("equal", ("int32", "int8"), "bool", "one dtype, not int32, int8"),
        ("where", ("int8", "int8", "int8"), "int8", "must choose by a bool, not int8"),
        ("where", ("bool", "int8", "int16"), "int8", "one dtype, not int16, int8"),
        ("quantize", ("bool",), "int8", "must make integers of numbers, not int8 of bool"),
        ("quantize", ("float32",), "float32", "must make integers of numbers, not float32"),
        ("dequantize", ("float32",), "float32", "must make floats of integers, not float32 of"),
    ],
)
def test_dtypes_that_do_not_fit_are_refused(op, dtypes, output, message):
    attrs = {"rounding": "double"} if op == "quantize" else {}
    with pytest.raises(ModelError, match=message):
        one(op, dtypes, output, attrs)


def test_indices_are_plain_integers():
    data, indices = np.zeros((4, 2), np.float32), np.zeros(3, np.float32)
    with pytest.raises(ModelError, match="indexed by plain integers, not float32"):
        network("gather", [data, indices], {"axis": 0}, dtype="float32")
    indices = indices.astype(np.int8)
    with pytest.raises(ModelError, match="indexed by plain integers, not int8"):
        network(
            "gather",
            [data, indices],
            {"axis": 0},
            quants=[None, quant(1.0), None],
            dtype="float32",
        )


def test_only_a_quantize_of_floats_rounds_to_even():
    assert one("quantize", ("float32",), "int8", {"rounding": "even"})
    with pytest.raises(ModelError, match="'double' or 'single', not 'even'.*a quantize of floats"):
        one("quantize", ("int8",), "int8", {"rounding": "even"})


def test_a_concat_takes_any_number_of_inputs():
    assert one("concat", ["int8"], "int8", {"axis": 0})
    with pytest.raises(ModelError, match=r"concat takes input \(as often as wanted\)"):
        one("concat", [], "int8", {"axis": 0})


def test_multiplications_are_counted():
    x, w = np.zeros((1, 3, 4, 4), np.float32), np.zeros((6, 3, 2, 2), np.float32)
    attrs = {**SPREAD, "groups": 2, "clip": (0, 1), "rounding": "double"}
    graph = network("conv_transpose2d", [x, w], attrs, constant=[1])
    # every input element meets 3 x 2 taps of 3 outputs
    assert graph.macs(graph.nodes[0]) == 3 * 4 * 4 * 6 * 3
    graph = network("matmul", [np.zeros((2, 3, 4)), np.zeros((4, 5))])
    assert graph.macs(graph.nodes[0]) == 2 * 3 * 5 * 4


def test_every_row_of_the_table_is_whole():
    for op, spec in OPS.items():
        assert list(spec.attrs) == list(dict.fromkeys(spec.attrs)), op
        assert spec.optional < len(spec.inputs), op
