"""Passes of warps over the banks of shared memory, as they are worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.gpu.cases import CASES, dense, matmul
from tests.compiler.gpu.tiled import tiled
from tests.compiler.targets.gpu.schedules import CASES as BY_HAND
from vdla.compiler.gpu import compile_network, operator_kernel
from vdla.compiler.gpu.banks import Passes, network_passes, passes_of, passes_of_warp, requests_of
from vdla.compiler.gpu.loads import loads_of
from vdla.compiler.gpu.product import ProductTile
from vdla.compiler.ir.stmt import Access, Buffer, Store
from vdla.compiler.targets.gpu import Kernel, build_kernel
from vdla.compiler.targets.gpu.kernel import THREAD, Guard, Loop, Statement
from vdla.compiler.te.expr import Call, Const, Var

LANES = np.arange(32)
SHARED, OWN = (Buffer(scope, "float32", scope, 1024) for scope in ("shared", "register"))
STEP = Var("i")
READ = Store(
    Access(OWN, STEP),
    Call("load", (), "float32", (("position", 0),)),
    (Access(SHARED, THREAD[0] * 32),),
)
"""A column of 32 rows, an element a thread."""
LARGE = ProductTile(threads=(8, 16), columns=8, rows=8, depth=16, virtual_columns=2, virtual_rows=8)


@pytest.mark.parametrize(
    ("addresses", "size", "wavefronts", "conflicts"),
    [
        (4 * LANES, 4, 1, 0),  # each word of another bank
        (0 * LANES, 4, 1, 0),  # one word for all
        (4 * (31 - LANES), 4, 1, 0),
        (8 * LANES, 4, 2, 1),  # words 0, 2 ... 62: two in each even bank
        (128 * LANES, 4, 32, 31),  # 32 words of bank 0
        (132 * LANES, 4, 1, 0),  # a row of 33 words a thread
        (4 * (LANES % 8), 4, 1, 0),
        (128 * (LANES // 16), 4, 2, 1),  # words 0 and 32
        (LANES, 1, 1, 0),  # 32 bytes are 8 words
        (2 * LANES, 2, 1, 0),
        (4 * LANES, 1, 1, 0),
        (8 * LANES, 8, 2, 0),  # half a warp takes all 32 banks
        (16 * LANES, 8, 4, 2),  # two words of each second pair of banks
        (16 * LANES, 16, 4, 0),  # a quarter does
        (32 * LANES, 16, 8, 4),  # eight floats a thread: banks 0 to 3, 8 to 11 and so on, twice
        (0 * LANES, 16, 4, 0),
        (np.where(LANES < 8, 16 * LANES, -1), 16, 1, 0),  # one quarter takes part
        (np.where(LANES % 8 == 0, 128 * LANES, -1), 4, 4, 3),
    ],
)
def test_a_warp_takes_as_many_passes_as_its_most_wanted_bank(
    addresses: np.ndarray, size: int, wavefronts: int, conflicts: int
) -> None:
    assert passes_of_warp(addresses[None], size) == Passes(1, wavefronts, conflicts)


def test_who_takes_no_part_asks_for_nothing() -> None:
    assert passes_of_warp(np.full((3, 32), -1), 4) == Passes()
    both = np.stack([4 * LANES, 8 * LANES])
    assert passes_of_warp(both, 4) == Passes(2, 3, 1)


@pytest.mark.parametrize(
    ("columns", "rows", "conflicts"),
    [
        (2, 8, 0),
        (2, 1, 0),  # of float32, a quarter of a warp stands in one row
        # 32 vectors of b in a step, each read by quarters whose 8 threads want 64 words, two in
        # each bank that they want: 4 passes more of each of 4 warps, 16 steps and 8 blocks.
        (1, 8, 32 * 4 * 4 * 16 * 8),
    ],
)
def test_a_product_of_256(columns: int, rows: int, conflicts: int) -> None:
    kernel, _ = tiled(
        dense(256, 256, 256), replace(LARGE, virtual_columns=columns, virtual_rows=rows)
    )
    # Of each thread and step, in vectors: 8 rows of 16 terms, 16 terms of 8 columns; it fills 4 of
    # the 128 x 16 elements of a, and 2 of the 16 x 64 of b.
    requests = (32 + 32 + 4 + 2) * 4 * 16 * 8
    assert passes_of(kernel) == Passes(requests, 4 * requests + conflicts, conflicts)


def test_a_product_of_halves_needs_rows_apart() -> None:
    # Half a warp is two rows of threads. Rows that follow each other, 32 bytes long, lie in
    # different banks; rows that are 8 apart in the same ones.
    case = matmul((256, 256), (256, 256), "float16")
    assert passes_of(tiled(case, LARGE)[0]).conflicts == 0
    together = passes_of(tiled(case, replace(LARGE, virtual_rows=1))[0])
    # 32 reads of rows in a step: two passes more for each.
    assert together.conflicts == 32 * 2 * 4 * 16 * 8


def test_elements_are_read_once_and_as_wide_as_they_are_aligned() -> None:
    kernel, _ = tiled(
        matmul((8, 6), (6, 12)), ProductTile(threads=(3, 2), columns=4, rows=4, depth=6)
    )
    sizes = Counter((r.buffer.name, r.size) for r in requests_of(kernel.body) if not r.writes)
    # A thread's 4 rows of 6 terms follow each other, from a multiple of 24 elements on.
    assert sizes == {("a.shared", 16): 6, ("b.shared", 16): 6}
    apart, _ = tiled(
        matmul((8, 6), (6, 12)),
        ProductTile(threads=(3, 2), columns=4, rows=4, depth=6, virtual_rows=4),
    )
    sizes = Counter((r.buffer.name, r.size) for r in requests_of(apart.body) if not r.writes)
    # Each of its rows begins at a multiple of 6 elements, which are 24 bytes: 3 pairs.
    assert sizes == {("a.shared", 8): 4 * 3, ("b.shared", 16): 6}


@pytest.mark.parametrize(
    ("stmt", "passes"),
    [
        # At step i the threads from i on read another word of bank 0 each.
        (Loop(STEP, THREAD[0] + 1, READ), Passes(32, 32 * 33 // 2, 31 * 32 // 2)),
        (Loop(STEP, Const(5), READ), Passes(5, 5 * 32, 5 * 31)),
        (Guard((THREAD[0].lt(3),), READ), Passes(1, 3, 2)),
        # Written out, what does not change is read once.
        (Loop(STEP, Const(5), READ, unroll=True), Passes(1, 32, 31)),
    ],
)
def test_threads_that_run_a_statement_are_counted(stmt: Statement, passes: Passes) -> None:
    kernel = Kernel("k", (), (2, 3, 1), (32, 1, 1), (SHARED,), (), stmt)
    assert passes_of(kernel) == passes * 6


def test_a_moving_window_in_pieces() -> None:
    # 3 blocks of one warp with 8 threads. Each fills 52 elements in 7 steps; the last step has 4
    # threads. It reads 2 elements of each of 3 pieces for each of 5 terms, one by one, as a window
    # may begin anywhere: 16 * v + 2 * t + i + k, 8 words of 8 banks.
    kernel = build_kernel("k", *BY_HAND["moving_pieces"][0])
    assert passes_of(kernel) == Passes(3 * (7 + 30), 3 * (7 + 30), 0)


@pytest.mark.parametrize("name", ["dense 65x33x129", "conv 3x3", "conv large", "depthwise"])
def test_no_fewer_words_are_passed_than_elements_are_needed(name: str) -> None:
    # A pass gives 32 words at the most, and serves 32 threads.
    case = CASES[name]()
    kernel = operator_kernel(case.graph, case.graph.nodes[0]).kernel
    found = passes_of(kernel)
    assert 0 <= found.conflicts < found.wavefronts
    assert found.requests * 32 * 4 * 16 > loads_of(kernel).fetched


def test_default_tiles_have_no_conflicts() -> None:
    for case in (dense(1024, 64, 1024), CASES["conv large"](), CASES["dense 64x32x96"]()):
        found = network_passes(compile_network(case.graph))
        assert found.conflicts == 0
        one_piece = network_passes(compile_network(case.graph, virtual=False))
        assert one_piece.requests == found.requests
        if case.exact.size > 1 << 18:
            assert one_piece.conflicts > found.wavefronts // 10
