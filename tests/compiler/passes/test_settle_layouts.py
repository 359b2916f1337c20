"""Transposes sink, cancel, and end where they cost least; results stay."""

from __future__ import annotations

import pytest

from tests.compiler.passes.nets import Net, assert_same, counts, ops, random_net
from vdla.compiler.graph import Graph
from vdla.compiler.passes.layout_rules import regroup
from vdla.compiler.passes.settle_layouts import settle_layouts

NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def settled(net: Net, *outputs: str) -> Graph:
    before = net.graph(*outputs)
    after = settle_layouts(before)
    assert_same(before, after)
    return after


def test_transposes_cancel_around_what_sees_no_dimensions() -> None:
    net = Net()
    x = net.transpose(net.conv(net.input(1, 4, 5, 3), 8), *NCHW)
    x = net.op("tanh", net.op("relu", x))
    x = net.conv(net.transpose(x, *NHWC), 4)
    assert ops(settled(net, x)) == ["conv2d", "relu", "tanh", "conv2d"]


def test_a_residual_addition_is_done_in_nhwc() -> None:
    net = Net()
    x = net.transpose(net.input(1, 3, 4, 5), *NHWC)
    x = net.transpose(net.conv(x, 8), *NCHW)
    y = net.transpose(net.conv(net.transpose(x, *NHWC), 8), *NCHW)
    x = net.op("add", x, y)
    x = net.conv(net.transpose(x, *NHWC), 4)
    after = settled(net, x)
    assert ops(after) == ["transpose", "conv2d", "conv2d", "add", "conv2d"]


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("slice", {"begin": (0, 1, 2, 0), "end": (1, 6, 4, 5), "step": (1, 2, 1, 1)},
         {"begin": (0, 2, 0, 1), "end": (1, 4, 5, 6), "step": (1, 1, 1, 2)}),
        ("pad", {"paddings": ((0, 0), (1, 2), (3, 4), (5, 6)), "value": 1.5, "mode": "constant"},
         {"paddings": ((0, 0), (3, 4), (5, 6), (1, 2)), "value": 1.5, "mode": "constant"}),
        ("mean", {"axes": (2, 3), "keep_dims": True, "rounding": "single"},
         {"axes": (1, 2), "keep_dims": True, "rounding": "single"}),
        ("softmax", {"axis": 1, "beta": 1.0}, {"axis": 3, "beta": 1.0}),
    ],
)  # fmt: skip
def test_attributes_follow_their_dimensions(op: str, attrs: dict, expected: dict) -> None:
    net = Net()
    x = net.transpose(net.input(1, 4, 5, 6), *NCHW)
    x = net.transpose(net.op(op, x, **attrs), *NHWC)
    after = settled(net, x)
    assert ops(after) == [op]
    assert dict(after.nodes[0].attrs) == expected


def test_a_reduction_that_drops_dimensions_needs_no_transpose() -> None:
    net = Net()
    x = net.transpose(net.input(1, 4, 5, 6), *NCHW)
    after = settled(net, net.op("mean", x, axes=(2, 3), keep_dims=False))
    assert ops(after) == ["mean"]
    assert after.nodes[0].attrs["axes"] == (1, 2)


def test_concatenation_is_along_the_last_dimension() -> None:
    net = Net()
    x, y = (net.transpose(net.input(1, 4, 5, c), *NCHW) for c in (2, 3))
    after = settled(net, net.transpose(net.op("concat", x, y, axis=1), *NHWC))
    assert ops(after) == ["concat"]
    assert after.nodes[0].attrs["axis"] == 3


def test_constants_are_transposed_and_scales_of_a_channel_come_along() -> None:
    net = Net()
    x = net.transpose(net.input(1, 4, 5, 6), *NCHW)
    x = net.op("mul", x, net.drawn(6, 1, 1))
    gate = net.op("sigmoid", net.op("reshape", net.input(1, 6), shape=(1, 6, 1, 1)))
    x = net.op("mul", x, gate)
    after = settled(net, net.transpose(x, *NHWC))
    assert counts(after) == {"mul": 2, "sigmoid": 1, "reshape": 2}


def test_channels_are_shuffled_by_one_transpose() -> None:
    net = Net()
    x = net.transpose(net.conv(net.input(1, 4, 4, 6), 8), *NCHW)
    x = net.op("reshape", x, shape=(1, 2, 4, 4, 4))
    x = net.op("reshape", net.transpose(x, 0, 2, 1, 3, 4), shape=(1, 8, 4, 4))
    x = net.conv(net.transpose(x, *NHWC), 8)
    after = settled(net, x)
    assert ops(after) == ["conv2d", "reshape", "transpose", "reshape", "conv2d"]
    assert after.nodes[2].attrs["perm"] == (0, 1, 2, 4, 3)


def test_a_classifier_reads_its_image_as_it_lies() -> None:
    net = Net()
    x = net.transpose(net.conv(net.input(1, 4, 5, 3), 8), *NCHW)
    x = net.op("relu", net.op("reshape", x, shape=(1, 160)))
    x = net.op("dense", x, net.drawn(7, 160), net.drawn(7), keep_dims=False)
    assert ops(settled(net, x)) == ["conv2d", "reshape", "relu", "dense"]


def test_a_transpose_that_moves_nothing_is_a_reshape() -> None:
    net = Net()
    x = net.transpose(net.input(1, 1, 28, 28), *NHWC)
    after = settled(net, net.conv(x, 4))
    assert ops(after) == ["reshape", "conv2d"]
    net = Net()
    x = net.op("mean", net.input(1, 4, 5, 6), axes=(1, 2), keep_dims=True)
    x = net.op("reshape", net.transpose(x, *NCHW), shape=(1, 6))
    assert ops(settled(net, x)) == ["mean", "reshape"]


def test_an_output_keeps_its_name_and_layout() -> None:
    net = Net()
    x = net.op("relu", net.transpose(net.conv(net.input(1, 4, 5, 3), 8), *NCHW))
    after = settled(net, x)
    assert ops(after) == ["conv2d", "relu", "transpose"]
    assert after.tensors[x].shape == (1, 8, 4, 5)


def test_what_has_many_readers_is_not_moved_at_a_loss() -> None:
    net = Net()
    x = net.transpose(net.input(1, 4, 5, 6), *NCHW)
    ends = [net.op("pad", x, paddings=((0, 0),) * 3 + ((0, k),), value=0.0, mode="constant")
            for k in (1, 2, 3)]  # fmt: skip
    assert counts(settled(net, *ends))["transpose"] == 1


@pytest.mark.parametrize(
    ("shape", "target", "perm", "expected"),
    [
        # NCHW: channels split.
        ((1, 8, 6, 6), (1, 2, 4, 6, 6), NCHW,
         ((0, 1, 2, 3), (1, 6, 6, 2, 4), (0, 3, 4, 1, 2))),
        # NCHW: flattened, so that the elements must be brought together first.
        ((1, 8, 2, 3), (1, 48), NCHW, ((0, 3, 1, 2), (1, 48), (0, 1))),
        # Height and width become one.
        ((1, 8, 2, 3), (1, 8, 6), NCHW, ((0, 1, 2, 3), (1, 6, 8), (0, 2, 1))),
    ],
)  # fmt: skip
def test_a_reshape_is_split_around(
    shape: tuple, target: tuple, perm: tuple, expected: tuple
) -> None:
    assert regroup(shape, target, perm) == expected


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_keep_their_results(seed: int) -> None:
    before = random_net(seed)
    assert_same(before, settle_layouts(before))
