"""Tiles as a search space: each computes the same, and records choose for their own task alone."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.gpu.byte_cases import CASES as BYTE_CASES
from tests.compiler.gpu.cases import CASES, SAME, Case, convolution, dense
from vdla.compiler.gpu import GpuNetwork, compile_network
from vdla.compiler.gpu.estimate import registers_of, seconds_of
from vdla.compiler.gpu.product import ProductTile
from vdla.compiler.gpu.tiles import (
    ConvolutionSums,
    ProductSums,
    in_one_piece,
    point_of,
    tiles_of,
)
from vdla.compiler.gpu.tuning import GpuMachine, GpuTemplate, templates_of
from vdla.compiler.graph import Graph
from vdla.compiler.targets.gpu import source_of
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.features import NAMES
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import Record
from vdla.compiler.zoo.builder import Builder
from vdla.errors import InputError
from vdla.runtime.gpu_network import place_network
from vdla.runtime.opencl import OpenClDevice

MACHINE = GpuMachine("opencl", "a device")
SOME = ("dense 65x33x129", "matmul batch", "conv 3x3", "conv uneven", "conv dilated")


def template(graph: Graph, machine: GpuMachine = MACHINE) -> GpuTemplate:
    ((one, often),) = templates_of(graph, machine)
    assert often == 1
    return one


def chosen(graph: Graph, one: GpuTemplate, point: Point) -> GpuNetwork:
    """Return a graph compiled as a record of its task says."""
    return compile_network(graph, Database([Record(one.task, point, 1.0, one.unit)]), MACHINE)


def sources(made: GpuNetwork) -> list[str]:
    return [source_of(kernel) for kernel in made.kernels]


def drawn(one: GpuTemplate, count: int) -> list[Point]:
    rng = np.random.default_rng(5)
    return [one.space[int(k)] for k in rng.choice(len(one.space), count, replace=False)]


@pytest.mark.parametrize("name", SOME)
def test_every_tile_computes_the_operator(name: str, pocl: OpenClDevice) -> None:
    case = CASES[name]()
    one = template(case.graph)
    for point in drawn(one, 4):
        ran = place_network(chosen(case.graph, one, point), pocl)
        case.check(ran.run(dict(zip(case.graph.inputs, case.inputs, strict=True)))["out"])


@pytest.mark.parametrize("name", ["int8 dense 7x13x5", "int8 conv 3x3"])
def test_every_tile_computes_the_integers(name: str, pocl: OpenClDevice) -> None:
    case = BYTE_CASES[name]()
    one = template(case.graph)
    for point in drawn(one, 2):
        ran = place_network(chosen(case.graph, one, point), pocl)
        found = ran.run(dict(zip(case.graph.inputs, case.inputs, strict=True)))["out"]
        np.testing.assert_array_equal(found, case.exact)


def test_tiles_fit_and_none_is_much_larger_than_the_operator() -> None:
    for sums in (
        ProductSums(batch=1, rows=1, columns=1000, terms=512),
        ProductSums(batch=8, rows=65, columns=129, terms=33),
        ConvolutionSums(
            output=(1, 28, 28, 128), window=(3, 3), strides=(2, 2), dilation=(1, 1), terms=64
        ),
    ):
        default = next(iter(sums.tiles()))
        tiles = tiles_of(sums, default)
        assert tiles[0] == default
        assert 10 < len(set(tiles)) == len(tiles) <= 1025
        for tile in tiles[1:]:
            work, point = sums.work(tile), point_of(tile)
            assert work.shared_bytes <= 32 << 10
            assert registers_of(work) <= 128
            assert 32 <= work.threads <= 256
            assert point["depth"] <= sums.terms
            if isinstance(sums, ProductSums):
                assert (point["across"] - 1) * point["columns"] < sums.columns
                assert (point["down"] - 1) * point["rows"] < sums.rows
            else:
                assert (point["across"] - 1) * point["channels"] < 128
                assert (point["wide"] - 1) * point["columns"] < 28
                assert point["high"] <= 28


def test_pieces_are_of_vectors_across_and_single_along_the_other_axis() -> None:
    square = list(ProductSums(batch=1, rows=256, columns=256, terms=64).tiles())
    assert {(t.columns, t.virtual_columns) for t in square} == {
        (1, 1),
        (2, 1),
        (4, 1),
        (8, 1),
        (8, 2),
    }
    # Eight threads or more across are one row of threads for those that are served at a time.
    assert all(t.virtual_rows == 1 for t in square if t.threads[0] >= 8)
    assert {t.virtual_rows for t in square if t.threads[0] == 4 and t.rows == 8} == {1, 8}


def test_an_estimate_has_conflicts_of_banks() -> None:
    # A step of 16 terms reads 4 vectors of each of 8 rows, and 2 of 8 columns for each term; in one
    # piece these take twice as long.
    sums = ProductSums(batch=1, rows=1024, columns=1024, terms=1024)
    tile = ProductTile(threads=(8, 16), columns=8, rows=8, depth=16, virtual_columns=2)
    assert sums.work(tile).reads == 8 * 4 + 16 * 2
    assert sums.work(in_one_piece(tile)).reads == 8 * 4 + 16 * 2 * 2


def test_an_estimate_is_a_roofline() -> None:
    # 4 blocks of 2 warps; a step of 16 terms: 256 products and 32 reads of 128 bits a thread, and
    # 1,024 elements to copy, 16 a thread with 4 instructions each. 2 * (256 + 32 + 64) / 4 = 176
    # cycles, and 500 for the memory, which nothing hides: 4 steps of 676 cycles at 1.5 GHz.
    tile = ProductTile(threads=(8, 8), columns=4, rows=4, depth=16)
    work = ProductSums(batch=1, rows=64, columns=64, terms=64).work(tile)
    assert (work.blocks, work.threads, work.steps, work.shared_bytes) == (4, 64, 4, 4096)
    assert seconds_of(work) == pytest.approx(4 * 676 / 1.5e9)
    # A multiprocessor's 65,536 registers hold 21 blocks of 64 threads with 48: 128 are 7 rounds.
    many = ProductSums(batch=2048, rows=64, columns=64, terms=64).work(tile)
    assert seconds_of(many) == pytest.approx(7 * 4 * 21 * 176 / 1.5e9)
    # Tiles of 128 x 1 with 8 products of a thread in steps of 8 terms, 1,032 elements a block: what
    # all blocks read, 4,096 rows of 32 tiles, takes longest.
    thin = ProductTile(threads=(16, 1), columns=8, rows=1, depth=8)
    work = ProductSums(batch=1, rows=4096, columns=4096, terms=8).work(thin)
    assert seconds_of(work) == pytest.approx(4096 * 32 * 4 * 1032 / 2e12)


def test_a_record_chooses_for_its_own_task_and_for_no_other() -> None:
    graph = dense(65, 33, 129).graph
    one = template(graph)
    rules = sources(compile_network(graph))
    assert one.space[0] == one.default
    assert sources(chosen(graph, one, one.default)) == rules
    other = one.space[7]
    assert sources(chosen(graph, one, other)) != rules
    alike = dense(65, 33, 128).graph
    assert sources(chosen(alike, one, other)) == sources(compile_network(alike))
    for elsewhere in (replace(MACHINE, kind="cuda"), replace(MACHINE, device="another")):
        assert template(graph, elsewhere).task.key != one.task.key
        records = Database([Record(one.task, other, 1.0, one.unit)])
        assert sources(compile_network(graph, records, elsewhere)) == rules


def test_a_record_of_no_point_is_refused() -> None:
    graph = dense(65, 33, 129).graph
    one = template(graph)
    with pytest.raises(
        InputError,
        match=r"A record's point must be one of the template's \d+, and .*'depth': 999.* is none: "
        r"delete the record, or tune again\.",
    ):
        chosen(graph, one, {**one.default, "depth": 999})


def test_a_template_is_sent_without_its_weights() -> None:
    case = convolution((1, 14, 13, 64), 64, (3, 3), padding=SAME)
    one = template(case.graph)
    sent = pickle.dumps(one)
    assert len(sent) < case.graph.tensors["b"].data.nbytes / 4
    there = pickle.loads(sent)
    assert there.task.key == one.task.key
    assert there.space[5] == one.space[5]
    ours, theirs = one.graph.tensors["b"].data, there.graph.tensors["b"].data
    np.testing.assert_array_equal(ours, theirs)
    assert np.std(ours) == pytest.approx(np.std(case.graph.tensors["b"].data), rel=0.05)


def test_products_of_what_is_computed_have_a_template() -> None:
    one = template(CASES["matmul batch"]().graph)
    assert pickle.loads(pickle.dumps(one)).graph.inputs == ("a", "b")
    constant = template(dense(65, 33, 129).graph)
    assert one.task.shape["constant"] == [False, False]
    assert constant.task.shape["constant"] == [False, True, True]


def test_a_networks_operators_are_counted_by_task() -> None:
    net = Builder("net", (1, 8, 8, 16))
    first = net.conv("first", "input", 16, 3)
    second = net.conv("second", first, 16, 3)
    wide = net.conv("wide", second, 32, 1)
    found = templates_of(net.finish(net.dense("classes", net.mean("mean", wide), 5)), MACHINE)
    assert sorted((one.task.operator, one.task.shape["weight"], often) for one, often in found) == [
        ("gpu.conv2d", [16, 3, 3, 16], 2),
        ("gpu.conv2d", [32, 1, 1, 16], 1),
        ("gpu.dense", [5, 32], 1),
    ]


def test_channels_in_groups_are_not_tuned() -> None:
    assert templates_of(CASES["conv grouped"]().graph, MACHINE) == []


@pytest.mark.parametrize("name", SOME)
def test_points_have_features_and_an_estimate(name: str) -> None:
    case: Case = CASES[name]()
    one = template(case.graph)
    seen = set()
    for point in drawn(one, 4):
        features = one.features(point)
        assert features is not None
        assert features.shape == (len(NAMES),)
        assert np.isfinite(features).all()
        seen.add(features.tobytes())
        assert 0 < one.prior(point) < 1e-3
        assert one.floor(point) == 0
    assert len(seen) == 4
