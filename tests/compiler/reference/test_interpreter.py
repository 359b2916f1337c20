"""The interpreter's inputs and outputs, and operators small enough to do by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.reference import Interpreter
from vdla.errors import InputError, ModelError

INT8 = np.dtype(np.int8)


def quant(scale, zero_point=0):
    return Quant(np.float32([scale]), np.array([zero_point]))


def one_node(op, inputs, output, attrs):
    names = [t.name for t in inputs]
    node = Node(op, op, tuple(names), (output.name,), attrs)
    read = [t.name for t in inputs if not t.is_constant]
    return Graph(op, [*inputs, output], [node], read, [output.name])


def pool(op, shape, window, strides, padding, output, zero_point=0):
    x = Tensor("x", shape, INT8, quant(1, zero_point))
    y = Tensor("y", output, INT8, quant(1, zero_point))
    attrs = {"window": window, "strides": strides, "padding": padding, "clip": (-128, 127)}
    return one_node(op, [x], y, attrs)


def test_max_pool_padding_is_minus_infinity():
    graph = pool("max_pool2d", (1, 2, 2, 1), (2, 2), (2, 2), ((1, 1), (1, 1)), (1, 2, 2, 1))
    x = np.array([[-100, -90], [-128, -70]], np.int8).reshape(1, 2, 2, 1)
    assert Interpreter(graph).run(x)["y"].ravel().tolist() == [-100, -90, -128, -70]


def test_average_divides_by_what_is_not_padding_and_rounds_away_from_zero():
    graph = pool("avg_pool2d", (1, 1, 3, 1), (1, 2), (1, 2), ((0, 0), (0, 1)), (1, 1, 2, 1))
    run = Interpreter(graph).run
    # (-4 + -1) / 2 = -2.5 -> -3, and the last window holds one element.
    assert run(np.array([-4, -1, 7], np.int8).reshape(1, 1, 3, 1))["y"].ravel().tolist() == [-3, 7]
    assert run(np.array([4, 1, -7], np.int8).reshape(1, 1, 3, 1))["y"].ravel().tolist() == [3, -7]


def conv(x_shape, weight, y_shape, strides, padding, bias=None, zero_point=0, scale=1.0):
    x = Tensor("x", x_shape, INT8, quant(1, zero_point))
    w = Tensor("w", weight.shape, INT8, quant(1), weight)
    y = Tensor("y", y_shape, INT8, quant(scale, 0))
    b = Tensor("b", (weight.shape[0],), np.dtype(np.int32), None, bias)
    attrs = {
        "strides": strides,
        "padding": padding,
        "dilation": (1, 1),
        "clip": (-128, 127),
        "rounding": "double",
    }
    return one_node("conv2d", [x, w, b] if bias is not None else [x, w], y, attrs)


def test_conv_of_one_pixel():
    weight = np.array([[2, -3], [1, 4]], np.int8).reshape(2, 1, 1, 2)
    bias = np.array([10, -20], np.int32)
    graph = conv((1, 1, 1, 2), weight, (1, 1, 1, 2), (1, 1), ((0, 0), (0, 0)), bias, zero_point=-1)
    # Inputs less their zero point: 4, 6. 2*4 - 3*6 + 10 = 0; 4 + 24 - 20 = 8.
    x = np.array([3, 5], np.int8).reshape(1, 1, 1, 2)
    assert Interpreter(graph).run(x)["y"].ravel().tolist() == [0, 8]


def test_conv_stride_3_skips_pixels():
    weight = np.ones((1, 1, 1, 1), np.int8)
    graph = conv((1, 7, 7, 1), weight, (1, 3, 3, 1), (3, 3), ((0, 0), (0, 0)))
    x = np.arange(49, dtype=np.int8).reshape(1, 7, 7, 1)
    expected = [0, 3, 6, 21, 24, 27, 42, 45, 48]
    assert Interpreter(graph).run(x)["y"].ravel().tolist() == expected


def test_conv_padding_stands_for_zero_and_may_be_one_sided():
    weight = np.ones((1, 2, 2, 1), np.int8)
    graph = conv((1, 2, 2, 1), weight, (1, 2, 2, 1), (1, 1), ((0, 1), (0, 1)), zero_point=5)
    x = np.array([[6, 7], [8, 9]], np.int8).reshape(1, 2, 2, 1)
    # Less 5: 1 2 / 3 4; padding below and to the right adds nothing.
    assert Interpreter(graph).run(x)["y"].ravel().tolist() == [10, 6, 7, 4]


def test_conv_requantizes_half_away_from_zero_and_saturates():
    weight = np.full((1, 1, 1, 1), 1, np.int8)
    graph = conv((1, 1, 4, 1), weight, (1, 1, 4, 1), (1, 1), ((0, 0), (0, 0)), scale=4.0)
    x = np.array([6, -6, 5, -5], np.int8).reshape(1, 1, 4, 1)
    # 1/4 = 2**30 * 2**(-1 - 31): the high multiply gives 3, -3, 3 (2.5), -2 (-2.5); halved: 1.5,
    # -1.5, 1.5, -1.
    assert Interpreter(graph).run(x)["y"].ravel().tolist() == [2, -2, 2, -1]
    graph = conv((1, 1, 2, 1), weight, (1, 1, 2, 1), (1, 1), ((0, 0), (0, 0)), scale=0.25)
    x = np.array([100, -100], np.int8).reshape(1, 1, 2, 1)
    assert Interpreter(graph).run(x)["y"].ravel().tolist() == [127, -128]


def test_a_sum_past_32_bits_is_refused():
    weight = np.full((1, 1, 1, 1), 127, np.int8)
    bias = np.array([2**31 - 100], np.int32)
    graph = conv((1, 1, 1, 1), weight, (1, 1, 1, 1), (1, 1), ((0, 0), (0, 0)), bias)
    with pytest.raises(ModelError, match=r"must fit 32 bits; 'conv2d' reaches .* more coarsely"):
        Interpreter(graph).run(np.full((1, 1, 1, 1), 127, np.int8))


def test_add_by_hand():
    a, b = Tensor("a", (1, 3), INT8, quant(1, 10)), Tensor("b", (1, 3), INT8, quant(0.5, -2))
    y = Tensor("y", (1, 3), INT8, quant(0.5, 1))
    graph = one_node("add", [a, b], y, {"clip": (-128, 20), "rounding": "double"})
    # a: 2, -3, 100; b: 0.5, 1, 0. Sums 2.5, -2, 100 in steps of 0.5, plus 1; the last is clipped.
    inputs = {"a": np.array([[12, 7, 110]], np.int8), "b": np.array([[-1, 0, -2]], np.int8)}
    assert Interpreter(graph).run(inputs)["y"].tolist() == [[6, -3, 20]]


def reshaped(shape):
    x, y = Tensor("x", (1, 2, 3), INT8, quant(1)), Tensor("y", shape, INT8, quant(1))
    return one_node("reshape", [x], y, {"shape": shape})


def test_a_reshape_keeps_images_apart():
    x = np.arange(12, dtype=np.int8).reshape(2, 2, 3)
    assert Interpreter(reshaped((1, 6))).run(x)["y"].tolist() == [[*range(6)], [*range(6, 12)]]
    # Without an image axis in the output, images run one by one and are stacked.
    assert Interpreter(reshaped((6,))).run(x)["y"].tolist() == [[*range(6)], [*range(6, 12)]]
    assert Interpreter(reshaped((6,))).run(x[:1])["y"].tolist() == [*range(6)]


def test_many_images_give_what_one_gives():
    rng = np.random.default_rng(0)
    weight = rng.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8)
    graph = conv((1, 5, 5, 2), weight, (1, 3, 3, 4), (2, 2), ((1, 1), (1, 1)), scale=900.0)
    interpreter = Interpreter(graph)
    interpreter._images_at_once = 3  # seven images take three passes
    x = rng.integers(-128, 128, (7, 5, 5, 2)).astype(np.int8)
    together = interpreter.run(x)["y"]
    apart = [interpreter.run(image[None])["y"][0] for image in x]
    np.testing.assert_array_equal(together, apart)
    assert len(np.unique(together)) > 20


def test_keep_all_returns_every_activation():
    graph = reshaped((1, 6))
    x = np.zeros((1, 2, 3), np.int8)
    assert sorted(Interpreter(graph).run(x, keep_all=True)) == ["x", "y"]
    assert sorted(Interpreter(graph).run(x)) == ["y"]


def test_inputs_are_checked():
    run = Interpreter(reshaped((1, 6))).run
    with pytest.raises(InputError, match="'x' must be int8, not uint8. Convert it"):
        run(np.zeros((1, 2, 3), np.uint8))
    with pytest.raises(InputError, match=r"not int8 of shape \(1, 3, 2\). Convert it"):
        run(np.zeros((1, 3, 2), np.int8))
    with pytest.raises(InputError, match="with N at least 1"):
        run(np.zeros((0, 2, 3), np.int8))
    with pytest.raises(InputError, match="Inputs of .* must be x, not y: give each by its name"):
        run({"y": np.zeros((1, 2, 3), np.int8)})


def test_several_inputs_come_by_name_and_in_equal_number():
    a, b = Tensor("a", (1, 3), INT8, quant(1)), Tensor("b", (1, 3), INT8, quant(1))
    y = Tensor("y", (1, 3), INT8, quant(1))
    graph = one_node("add", [a, b], y, {"clip": (-128, 127), "rounding": "double"})
    with pytest.raises(InputError, match="must be a mapping by name, not one array.*reads a, b"):
        Interpreter(graph).run(np.zeros((1, 3), np.int8))
    with pytest.raises(InputError, match="same number of images, not {'a': 1, 'b': 2}"):
        Interpreter(graph).run({"a": np.zeros((1, 3), np.int8), "b": np.zeros((2, 3), np.int8)})


def rounding():
    """A float operator before a quantize, as between two quantized parts."""
    x, y = (Tensor(name, (1, 3), np.dtype(np.float32)) for name in "xy")
    z = Tensor("z", (1, 3), INT8, quant(0.5))
    nodes = [
        Node("root", "sqrt", ("x",), ("y",), {}),
        Node("round", "quantize", ("y",), ("z",), {"rounding": "even"}),
    ]
    return Graph("rounding", [x, y, z], nodes, ["x"], ["z"])


def test_what_others_rounded_is_taken_a_step_away_at_most():
    run = Interpreter(rounding()).run
    x = np.array([[4, 9, 16]], np.float32)
    assert run(x)["z"].tolist() == [[4, 6, 8]]
    near, far = np.array([[4, 7, 8]], np.int8), np.array([[4, 6, 10]], np.int8)
    assert run(x, rounded={"z": near})["z"].tolist() == [[4, 7, 8]]
    assert run(x, rounded={"z": far})["z"].tolist() == [[4, 6, 8]]
    # Nothing but quantized floats is taken.
    assert run(x, rounded={"y": x})["z"].tolist() == [[4, 6, 8]]
    both = np.concatenate([near, far])
    assert run(x.repeat(2, 0), rounded={"z": both})["z"].tolist() == [[4, 6, 8]] * 2


def test_inputs_of_a_network_that_takes_one_image_at_a_time():
    run = Interpreter(reshaped((6,))).run
    with pytest.raises(InputError, match=r"must have the shape \(1, 2, 3\), or \(n, ...\)"):
        run(np.zeros((3, 2), np.int8))
    with pytest.raises(InputError, match="must be int8, not uint8"):
        run(np.zeros((1, 2, 3), np.uint8))
