"""Shape rules by hand."""

from __future__ import annotations

import pytest

from vdla.compiler.graph import movement, shapes
from vdla.errors import ModelError

WINDOW = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}


@pytest.mark.parametrize(
    ("size", "window", "stride", "dilation", "pads"),
    [
        (32, 3, 1, 1, (1, 1)),
        (32, 3, 2, 1, (0, 1)),  # the odd zero goes after
        (33, 3, 2, 1, (1, 1)),
        (224, 7, 2, 1, (2, 3)),
        (7, 3, 3, 1, (1, 1)),
        (6, 3, 3, 1, (0, 0)),
        (5, 1, 2, 1, (0, 0)),
        (8, 4, 1, 1, (1, 2)),
        (9, 3, 1, 2, (2, 2)),
    ],
)
def test_same_padding(size, window, stride, dilation, pads):
    assert shapes.same_padding(size, window, stride, dilation) == pads
    assert shapes.window_output(size, window, stride, pads, dilation) == -(-size // stride)


def test_conv():
    attrs = {**WINDOW, "strides": (2, 3), "padding": ((1, 1), (0, 1))}
    # (9 + 2 - 3) // 2 + 1 = 5 and (10 + 1 - 5) // 3 + 1 = 3
    assert shapes.conv([(2, 9, 10, 4), (6, 3, 5, 4), (6,)], attrs) == (2, 5, 3, 6)


def test_conv_groups_follow_from_the_weights():
    assert shapes.conv([(1, 5, 5, 12), (8, 3, 3, 3), (8,)], WINDOW) == (1, 3, 3, 8)


def test_depthwise_multiplies_channels():
    assert shapes.depthwise([(1, 5, 5, 4), (1, 3, 3, 8)], WINDOW) == (1, 3, 3, 8)


def test_dense_folds_leading_dimensions_unless_told():
    assert shapes.dense([(1, 2, 2, 4), (3, 16)], {"keep_dims": False}) == (1, 3)
    assert shapes.dense([(1, 5, 4), (3, 4)], {"keep_dims": True}) == (1, 5, 3)


def test_mean_drops_or_keeps_dimensions():
    assert shapes.mean([(1, 7, 7, 64)], {"axes": (1, 2), "keep_dims": False}) == (1, 64)
    assert shapes.mean([(1, 7, 7, 64)], {"axes": (1, 2), "keep_dims": True}) == (1, 1, 1, 64)


def test_broadcast_and_pad():
    assert shapes.broadcast([(1, 4, 4, 8), (8,)], {}) == (1, 4, 4, 8)
    assert movement.pad([(1, 2, 3)], {"paddings": ((0, 0), (1, 0), (2, 2))}) == (1, 3, 7)


@pytest.mark.parametrize(
    ("rule", "inputs", "attrs", "message"),
    [
        (shapes.conv, [(1, 5, 5, 4), (6, 3, 3, 3)], WINDOW, "channels of the weights, .* not 4 ag"),
        (shapes.conv, [(1, 5, 5, 4), (7, 3, 3, 2)], WINDOW, "against 2 with 7 outputs. Transp"),
        (shapes.conv, [(1, 5, 5), (6, 3, 3, 2)], WINDOW, r"must have 4 dimensions, not .* Resh"),
        (shapes.conv, [(1, 2, 5, 4), (6, 3, 3, 4)], WINDOW, r"3 is more than 2 \+ 0. Pad more"),
        (shapes.conv, [(1, 5, 5, 4), (6, 3, 3, 4), (5,)], WINDOW, r"each of 6 outputs, not .*5"),
        (shapes.depthwise, [(1, 5, 5, 4), (1, 3, 3, 6)], WINDOW, "multiple of the input's 4 ch"),
        (shapes.dense, [(1, 7), (3, 4)], {"keep_dims": False}, "rows of 4 elements"),
        (shapes.broadcast, [(1, 4), (1, 3)], {}, r"equal or broadcast, not \(1, 4\) and \(1, 3"),
        (
            shapes.mean,
            [(2, 4)],
            {"axes": (-1,), "keep_dims": True},
            "count the dimensions from 0, not",
        ),
        (movement.pad, [(1, 2)], {"paddings": ((0, 1),)}, "a pair of counts for each of 2 dim"),
        (movement.reshape, [(1, 4)], {"shape": (1, 5)}, r"holds 4 and \(1, 5\) 5. Correct"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(rule, inputs, attrs, message):
    with pytest.raises(ModelError, match=message):
        rule(inputs, attrs)


def test_a_window_of_nothing_but_padding_is_refused():
    with pytest.raises(ModelError, match="smaller than the window.* it is .2, 0. for a window of"):
        shapes.window_output(8, 2, 1, (2, 0), 1)
    with pytest.raises(ModelError, match="strides and dilations must be at least 1"):
        shapes.window_output(8, 2, 0, (0, 0), 1)
