"""Additions on the tiles of convolutions: the same results, fewer cycles, fewer bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vdla
from tests.configs import EVERY, MATRIX
from tests.networks import Draft, images_for, residual
from vdla.compiler.graph import Graph
from vdla.compiler.network import compile_graph
from vdla.compiler.ops import LoweredNode
from vdla.compiler.reference import Interpreter
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.task import Record
from vdla.config import PYNQ_Z1, Config


def skip(
    channels: int, size: tuple[int, int], window: int, stride: int, *, swapped: bool = False
) -> Graph:
    """Return ``conv b(a) + downsample c(a)`` over a first convolution."""
    net = Draft("skip", (1, *size, 20), seed=channels)
    a = net.conv("a", "input", channels)
    b = net.conv("b", a, channels, window=window, stride=stride)
    c = net.conv("c", a, channels, window=1, stride=stride)
    return net.finish(net.add("sum", *((c, b) if swapped else (b, c))))


def fused(graph: Graph, config: Config = PYNQ_Z1, **options) -> dict[str, str]:
    module = compile_graph(graph, config, **options)
    return {layer.name: layer.fused_into for layer in module.layers if layer.fused_into}


def assert_exact(graph: Graph, config: Config, vthreads: int = 2) -> None:
    images = images_for(graph, 2)
    run = vdla.compile(graph, config=config, vthreads=vthreads).run(images, check=True)
    assert run.bit_exact, run.first_difference
    (got,), (want,) = run.outputs.values(), Interpreter(graph).run(images).values()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("vthreads", [1, 2])
@pytest.mark.parametrize("config", MATRIX, ids=lambda c: c.name)
def test_a_residual_block_is_exact(config: Config, vthreads: int) -> None:
    assert_exact(residual(), config, vthreads)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("channels", "size", "window", "stride"),
    [(16, (7, 7), 3, 1), (40, (9, 6), 3, 2), (33, (5, 12), 1, 1), (64, (1, 1), 1, 1)],
)
def test_odd_shapes_are_exact(channels, size, window, stride, swapped) -> None:
    graph = skip(channels, size, window, stride, swapped=swapped)
    assert fused(graph) == {"sum": "c"}
    assert_exact(graph, PYNQ_Z1)


def test_the_intermediate_result_is_neither_stored_nor_loaded() -> None:
    graph = skip(64, (28, 28), 3, 1)
    runs = [
        vdla.compile(graph, without=without).run(images_for(graph, 1))
        for without in ((), ("fusion",))
    ]
    moved = [sum(x["dram_bytes"] or 0 for x in run.summary()["layers"]) for run in runs]
    assert moved[1] - moved[0] >= 28 * 28 * 64
    assert runs[0].cycles < runs[1].cycles
    rows = {row["name"]: row for row in runs[0].summary()["layers"]}
    assert rows["sum"]["fused_into"] == "c"
    assert rows["sum"]["cycles"] is None
    assert sum(row["cycles"] or 0 for row in rows.values()) == runs[0].cycles


def test_what_others_read_is_stored_and_not_fused() -> None:
    net = Draft("twice", (1, 6, 6, 16))
    a = net.conv("a", "input", 16)
    b = net.conv("b", a, 16)
    graph = net.finish(net.conv("d", net.add("sum", b, a), 16), b)
    assert fused(graph) == {}


def test_a_sum_of_a_tensor_with_itself_is_not_fused() -> None:
    net = Draft("double", (1, 6, 6, 16))
    graph = net.finish(net.add("sum", *[net.conv("a", "input", 16)] * 2))
    assert fused(graph) == {}
    assert_exact(graph, PYNQ_Z1)


def test_what_the_user_places_on_the_cpu_is_not_fused() -> None:
    assert fused(residual(), place={"sum": "cpu"}) == {}
    assert fused(residual(), place={"body": "cpu"}) == {}
    assert fused(residual(), without=("fusion",)) == {}


def test_other_blocks_on_the_way_out_keep_additions_apart() -> None:
    assert fused(residual(), EVERY["1x16x32"]) == {}
    assert_exact(residual(), EVERY["1x16x32"])


@pytest.mark.parametrize("vthreads", [1, 2])
def test_the_identity_has_room_beside_weights_that_would_fill_their_buffer(vthreads: int) -> None:
    draft = Draft("narrow", (1, 7, 7, 128))
    graph = draft.finish(draft.add("sum", draft.conv("wide", "input", 128, window=1), "input"))
    config = PYNQ_Z1.replace(wgt_bytes=8 << 10)  # 32 blocks; the convolution has 64
    images = images_for(graph, 1)
    run = vdla.compile(graph, config=config, vthreads=vthreads).run(images, check=True)
    assert run.bit_exact, run.first_difference


def test_what_a_network_chose_as_one_stays_one_whatever_it_takes_alone() -> None:
    graph = skip(16, (7, 7), 3, 1)
    lowered: dict[str, LoweredNode] = {}
    compile_graph(graph, PYNQ_Z1, lowered_as=lowered.update)
    both = lowered["sum"]
    assert both.template is not None
    assert both.point is not None
    slow = Record(both.template.task, both.point, 1e9, "cycles", device="cycle")
    assert fused(graph, records=Database([slow])) == {}
    chosen = replace(slow, chosen_in=graph.name)
    assert fused(graph, records=Database([chosen])) == {"sum": "c"}
    assert fused(graph, records=Database([replace(slow, chosen_in="another")])) == {}
