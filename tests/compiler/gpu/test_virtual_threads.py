"""Threads whose elements lie in pieces: the same values, barriers, and registers of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu import byte_cases
from tests.compiler.gpu.cases import SAME, Case, convolution, dense, depthwise, matmul
from tests.compiler.gpu.tiled import tiled
from tests.compiler.targets.gpu.broken import barriers_of, without
from tests.compiler.targets.gpu.on_processor import run_as
from tests.compiler.targets.gpu.race_checker import first_race, watched
from tests.compiler.targets.gpu.schedules import moving_pieces
from vdla.compiler.gpu.convolution_tiles import ConvolutionTile
from vdla.compiler.gpu.matrix import default_matrix_tile, schedule_matrices
from vdla.compiler.gpu.part import part_of
from vdla.compiler.gpu.product import ProductTile
from vdla.compiler.gpu.rows import product_of
from vdla.compiler.gpu.tiles import Tile, in_one_piece
from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.gpu import CUDA, METAL, Dialect, build_kernel, source_of
from vdla.compiler.targets.gpu.kernel import Guard, Loop, walk
from vdla.compiler.te import compute, create_schedule, placeholder
from vdla.errors import LoweringError
from vdla.runtime.opencl import OpenClDevice

CASES: dict[str, tuple[Case, Tile]] = {
    "dense 65x33x129": (
        dense(65, 33, 129),
        ProductTile(threads=(4, 4), columns=8, rows=4, depth=16, virtual_columns=2, virtual_rows=4),
    ),
    "dense 1x17x5": (
        dense(1, 17, 5),
        ProductTile(threads=(2, 1), columns=4, rows=1, depth=8, virtual_columns=2),
    ),
    "matmul batch": (
        matmul((2, 5, 16), (16, 19)),
        ProductTile(threads=(2, 3), columns=8, rows=2, depth=16, virtual_columns=2, virtual_rows=2),
    ),
    "matmul of halves": (
        matmul((20, 18), (18, 36), "float16"),
        ProductTile(threads=(4, 4), columns=8, rows=2, depth=8, virtual_columns=2, virtual_rows=2),
    ),
    "conv 17 channels": (
        convolution((1, 14, 13, 17), 33, (3, 3), padding=SAME, bias=False),
        ConvolutionTile(
            threads=(2, 2, 4), channels=8, columns=4, depth=6, virtual_channels=2, virtual_columns=4
        ),
    ),
    "conv to 17 channels": (
        convolution((1, 9, 6, 8), 17, (3, 3), padding=SAME),
        ConvolutionTile(threads=(3, 2, 4), channels=8, columns=2, depth=8, virtual_channels=2),
    ),
    "conv 1x1 images": (
        convolution((4, 1, 1, 7), 13, (3, 3), padding=SAME),
        ConvolutionTile(threads=(2, 1, 1), channels=8, columns=1, depth=7, virtual_channels=2),
    ),
    "conv stride 3": (
        convolution((4, 20, 21, 3), 10, (7, 7), (3, 3), ((3, 2), (1, 3))),
        ConvolutionTile(
            threads=(2, 2, 4), channels=8, columns=2, depth=3, virtual_channels=2, virtual_columns=2
        ),
    ),
    "depthwise": (
        depthwise((1, 12, 17, 40), (3, 3), padding=SAME),
        ConvolutionTile(
            threads=(4, 2, 4), channels=8, columns=4, depth=3, virtual_channels=2, virtual_columns=4
        ),
    ),
}
"""Operators, and tiles in pieces that do not divide most of them."""


@pytest.mark.parametrize("name", CASES)
def test_pieces_compute_the_operator(name: str, pocl: OpenClDevice) -> None:
    case, tile = CASES[name]
    kernel, given = tiled(case, tile)
    case.check(*pocl.build(kernel)(*given))


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        (
            "int8 matmul 65x70x33",
            ProductTile(
                threads=(4, 4), columns=8, rows=4, depth=8, virtual_columns=2, virtual_rows=4
            ),
        ),
        (
            "int8 conv 3x3",
            ConvolutionTile(
                threads=(2, 2, 4),
                channels=8,
                columns=2,
                depth=5,
                virtual_channels=2,
                virtual_columns=2,
            ),
        ),
    ],
)
def test_pieces_of_integers_are_exact(name: str, tile: Tile, pocl: OpenClDevice) -> None:
    case = byte_cases.CASES[name]()
    kernel, given = tiled(case, tile)
    (found,) = pocl.build(kernel)(*given)
    np.testing.assert_array_equal(found, case.exact)


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("name", CASES)
def test_other_sources_do_too(name: str, dialect: Dialect, tmp_path: Path) -> None:
    case, tile = CASES[name]
    kernel, given = tiled(case, tile)
    case.check(run_as(dialect, kernel, *given, folder=tmp_path))


@pytest.mark.parametrize("name", CASES)
def test_barriers_and_shared_arrays_are_those_of_one_piece(name: str) -> None:
    case, tile = CASES[name]
    kernel, plain = tiled(case, tile)[0], tiled(case, in_one_piece(tile))[0]
    assert len(barriers_of(kernel)) == len(barriers_of(plain)) <= 2
    for own, other in zip(kernel.shared, plain.shared, strict=True):
        assert own.total <= other.total  # where pieces end sooner, all of a block do
    assert [b.total for b in kernel.registers] == [b.total for b in plain.registers]
    assert (kernel.grid, kernel.block) == (plain.grid, plain.block)


@pytest.mark.parametrize("name", ["dense 65x33x129", "conv stride 3"])
def test_threads_never_come_together(name: str, tmp_path: Path) -> None:
    case, tile = CASES[name]
    kernel, given = tiled(case, tile)
    report = watched(kernel, *given, folder=tmp_path)
    assert report.text == ""
    np.testing.assert_allclose(report.output, case.exact, rtol=1e-5, atol=1e-4)
    for barrier in barriers_of(kernel):
        assert first_race(without(kernel, barrier), *given, folder=tmp_path) == "local"


def test_sums_past_the_end_are_added_up_and_not_stored() -> None:
    # One more column than whole tiles: no piece of it is tested for where terms are added up.
    kernel, _ = tiled(*CASES["dense 65x33x129"])
    guarded = [part for part in walk(kernel.body) if isinstance(part, Guard)]
    assert guarded
    for guard in guarded:
        assert not any(isinstance(p, Loop) and p.var.name.startswith("k") for p in walk(guard))


def test_memory_is_written_in_vectors_where_pieces_are() -> None:
    tile = ProductTile(threads=(8, 8), columns=8, rows=4, depth=16, virtual_columns=2)
    kernel, _ = tiled(dense(64, 32, 128), tile)
    assert not any(isinstance(part, Guard) for part in walk(kernel.body))
    assert source_of(kernel, CUDA).count("*(float4 *)&out[") == 1


def test_pieces_of_every_length_and_end(pocl: OpenClDevice) -> None:
    for size, window, threads, pieces in ((1, 1, 1, 2), (7, 3, 2, 3), (48, 5, 8, 3), (49, 2, 8, 3)):
        kernel = build_kernel("k", *moving_pieces(size, window, threads, pieces))
        a = np.random.default_rng(size).standard_normal(size + window - 1).astype(np.float32)
        (found,) = pocl.build(kernel)(a)
        expected = np.lib.stride_tricks.sliding_window_view(a, window).max(-1)
        np.testing.assert_array_equal(found, expected)


def test_what_is_shared_must_not_differ_between_virtual_threads() -> None:
    a = placeholder((64,), "float32", "a")
    b = compute((64,), lambda i: a[i] + 1, "b")
    c = compute((64,), lambda i: b[i] * 2, "c")
    s = create_schedule(c)
    virtual, thread = s[c].split(s[c].axis[0], factor=32)
    s[c].bind(virtual, "vthread")
    s[c].bind(thread, "threadIdx.x")
    s[b].compute_at(s[c], virtual)
    s[b].bind(s[b].axis[0], "threadIdx.x")
    s[b].set_scope("shared")
    kernel = build_kernel("k", s, [a, c])  # all 64 elements, once
    (shared,) = kernel.shared
    assert shared.total == 64


def test_warps_have_no_virtual_threads() -> None:
    part = part_of(*_graph(matmul((64, 32), (32, 64), "float16")))
    product = product_of(part.output)
    assert product is not None
    s = schedule_matrices(product, default_matrix_tile(product.rows, product.columns))
    stored = next(one for one in s.stages if one.intrinsics and one.scope == "shared")
    tile = next(leaf for leaf in stored.leaves if "unroll" in stored.annotations.get(leaf, {}))
    stored.bind(tile, "vthread")
    with pytest.raises(
        LoweringError,
        match=r"Virtual threads share out what a thread computes by itself, and "
        r"matrix_store_float32 is for a warp: leave \S+ unbound\.",
    ):
        build_kernel("k", s, [*part.inputs, product.output])


def _graph(case: Case) -> tuple[Graph, tuple[Node, ...]]:
    return case.graph, case.graph.nodes
