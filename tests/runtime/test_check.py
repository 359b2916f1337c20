"""The comparison with the interpreter finds what is wrong, and where first."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import vdla
from tests.networks import Draft, images_for, residual
from vdla.compiler.graph import Graph
from vdla.compiler.network import pipeline
from vdla.compiler.network.layout import Layout
from vdla.compiler.network.memory import place_buffers
from vdla.module import Layer, Module, Segment
from vdla.runtime.check import Difference, compare, graph_of, spread
from vdla.runtime.devices import open_device
from vdla.runtime.network import Network
from vdla.runtime.session import Session


@pytest.fixture(scope="module")
def module() -> Module:
    return vdla.compile(residual(), place={"stem": "cpu"}).module


def test_the_network_comes_back_from_the_module(module: Module) -> None:
    original, found = residual(), graph_of(module)
    assert [vars(n) for n in found.nodes] == [vars(n) for n in original.nodes]
    assert (found.inputs, found.outputs) == (original.inputs, original.outputs)
    for name, tensor in original.tensors.items():
        again = found.tensors[name]
        assert (again.shape, again.dtype) == (tensor.shape, tensor.dtype)
        if tensor.quant is not None:
            assert again.quant is not None
            assert again.quant.same_as(tensor.quant)
        if tensor.data is not None:
            np.testing.assert_array_equal(again.data, tensor.data)


def test_spreading_moves_buffers_apart_and_changes_neither_results_nor_time(
    module: Module,
) -> None:
    def overlaps(m: Module) -> int:
        spans = [(b.offset, b.offset + b.nbytes) for b in m.buffers]
        return sum(a[0] < b[1] and b[0] < a[1] for a, b in combinations(spans, 2))

    apart = spread(module)
    assert overlaps(module) > 0
    assert overlaps(apart) == 0
    images = images_for(residual(), 1)
    runs = [Network(m).run(images) for m in (module, apart)]
    np.testing.assert_array_equal(runs[0].outputs["softmax.out"], runs[1].outputs["softmax.out"])
    assert runs[0].cycles == runs[1].cycles


def with_segment_byte(module: Module, place: int) -> Module:
    """Flip a bit of a constant in the arena."""
    constants, *rest = module.segments
    data = constants.data.copy()
    data[place] ^= 0x40
    return replace(module, segments=(Segment(constants.offset, data), *rest))


def test_a_wrong_weight_is_found_in_its_layer(module: Module) -> None:
    wrong = with_segment_byte(module, 0)  # the first weight of the first layer on vdla
    run = Network(wrong).run(images_for(residual(), 3), device="functional", check=True)
    assert run.bit_exact is False
    assert run.first_difference is not None
    assert run.first_difference.startswith("sum at (0, ")
    assert run.summary()["bit_exact"] is False


def test_a_difference_counts_images_from_the_first_of_all() -> None:
    difference = Difference("body", (0, 1, 2, 3), 4, 5)
    assert str(difference.at_image(7)) == "body at (7, 1, 2, 3): 4, not 5"


def test_a_wrong_memory_plan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Draft("plan", (1, 5, 5, 16))
    x = net.conv("x", "input", 16)
    b = net.conv("b", net.conv("a", x, 16), 16)
    graph = net.finish(net.add("sum", net.conv("c", b, 16), x))

    def overlapping(layout: Layout, start: int, *, shared: bool) -> tuple[list[int], int]:
        offsets, end = place_buffers(layout, start, shared=shared)
        names = [tensor for tensor, _ in layout.buffers]
        offsets[names.index("b.out")] = offsets[names.index("x.out")]
        return offsets, end

    images = images_for(graph, 1)
    assert vdla.compile(graph).run(images, device="functional", check=True).bit_exact
    monkeypatch.setattr(pipeline, "place_buffers", overlapping)
    run = vdla.compile(graph, cache=False).run(images, device="functional", check=True)
    # Each layer alone is right; what the host reads in the end is not.
    assert run.bit_exact is False
    assert run.first_difference is not None
    assert run.first_difference.startswith("sum at (0, ")


def test_a_session_keeps_every_buffer(module: Module) -> None:
    from vdla.compiler.reference import Interpreter

    graph: Graph = residual()
    images = images_for(graph, 2)
    apart = spread(module)
    device = open_device("functional", apart.config, 2)
    with Session(apart, device) as session:
        outcome = session.run({"input": images}, keep=True)
    want = Interpreter(graph).run(images, keep_all=True)
    for index, buffer in enumerate(apart.buffers):
        np.testing.assert_array_equal(outcome.buffers[index], want[buffer.tensor])


@pytest.mark.parametrize(
    ("dtype", "got", "want", "same"),
    [
        ("float32", [1.0, 100.0], [1.005, 100.0], True),  # a ten-thousandth of the largest
        ("float32", [1.0, 100.0], [1.02, 100.0], False),
        ("float16", [1.0, 100.0], [1.02, 100.0], True),
        ("float32", [np.inf, np.nan, 1.0], [np.inf, np.nan, 1.0], True),
        ("float32", [np.inf, 1.0], [-np.inf, 1.0], False),
        ("float32", [np.nan, 1.0], [2.0, 1.0], False),
        ("int32", [1, 100], [1, 101], False),
    ],
)
def test_what_counts_as_equal(dtype: str, got: list[float], want: list[float], same: bool) -> None:
    layer = Layer("exp", "exp", ("x",), ("y",), {}, "cpu")
    found = compare(layer, np.array([got], dtype), np.array([want], dtype))
    assert (found is None) is same


def test_a_check_never_has_two_devices_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board is one: whoever opens it again is refused."""
    opened: list[object] = []

    def one_at_a_time(*arguments: Any, **options: Any) -> Any:
        assert not opened
        device = open_device(*arguments, **options)
        close = device.close

        def closed() -> None:
            opened.clear()
            close()

        device.close = closed  # type: ignore[method-assign]
        opened.append(device)
        return device

    monkeypatch.setattr("vdla.runtime.network.open_device", one_at_a_time)
    network, images = vdla.compile(residual()), images_for(residual(), 3)
    run = network.run(images, device="functional", check=True, max_images_at_once=1)
    assert run.bit_exact
    plain = network.run(images, device="functional", max_images_at_once=1)
    for name, expected in plain.outputs.items():
        np.testing.assert_array_equal(run.outputs[name], expected)
