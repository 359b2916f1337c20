"""Loop nests as instruction loops and micro-ops, against a plain walk."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from vdla.compiler.targets.vdla.kernels import KernelStore, place_kernels
from vdla.compiler.targets.vdla.loops import Iteration, Loop, iterations, merge, sequence
from vdla.compiler.targets.vdla.ops import Kernel, Op
from vdla.config import TINY
from vdla.isa import Gemm, Load, ModuleName

Point = tuple[int, ...]


def walk(base: Point, loops: list[Loop]) -> list[Point]:
    found = []
    for at in product(*(range(loop.extent) for loop in loops)):
        steps = [[k * s for s in loop.steps] for k, loop in zip(at, loops, strict=True)]
        found.append(tuple(b + sum(s[d] for s in steps) for d, b in enumerate(base)))
    return found


def executed(parts: list[Iteration]) -> list[Point]:
    found = []
    for part in parts:
        for o, i in product(range(part.outer.extent), range(part.inner.extent)):
            for uop in part.kernel.uops.tolist():
                steps = zip(uop, part.outer.steps, part.inner.steps, strict=True)
                found.append(tuple(u + o * a + i * b for u, a, b in steps))
    return found


def random_loops(rng: np.random.Generator) -> list[Loop]:
    return [
        Loop(
            int(rng.integers(1, 5)),
            tuple(int(v) for v in rng.integers(-2 if rng.random() < 0.2 else 0, 6, 3)),
            bool(rng.random() < 0.4),
        )
        for _ in range(int(rng.integers(0, 5)))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_nest_is_covered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops, base = random_loops(rng), (100, 100, 100)
    uop_max = int(rng.integers(1, 9))
    parts = list(iterations(base, loops, uop_max))
    assert all(len(part.kernel) <= uop_max for part in parts)
    assert Counter(executed(parts)) == Counter(walk(base, loops))
    for part in parts:
        points = np.array(executed([part]))
        spans = list(zip(points.min(0).tolist(), points.max(0).tolist(), strict=True))
        assert list(part.spans()) == spans


@pytest.mark.parametrize("seed", range(40))
def test_the_first_step_of_a_reduction_is_left_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops, base = random_loops(rng), (100, 100, 100)
    data = [loop for loop in loops if not loop.reduce]
    rest = Counter(walk(base, loops)) - Counter(walk(base, data))
    assert Counter(executed(list(iterations(base, loops, 64, skip_first=True)))) == rest


@pytest.mark.parametrize("seed", range(40))
def test_a_sequence_keeps_its_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops, base = random_loops(rng), (100, 100, 100)
    assert executed(list(sequence(base, loops, 64))) == walk(base, loops)


def test_loops_that_are_one_longer_loop() -> None:
    assert merge([Loop(14, (14, 14, 0)), Loop(14, (1, 1, 0))]) == [Loop(196, (1, 1, 0))]
    apart = [Loop(14, (20, 14, 0)), Loop(14, (1, 1, 0))]
    assert merge(apart) == apart


def gemm(*rows: Point, layer: int = 0) -> Op:
    return Op(ModuleName.COMPUTE, Gemm, {}, layer, kernel=Kernel(np.array(rows, np.int64)))


def test_equal_kernels_are_loaded_once() -> None:
    store = KernelStore(TINY, 64)
    placed = place_kernels([gemm((0, 1, 2)), gemm((3, 4, 5), (6, 7, 0)), gemm((0, 1, 2))], store)
    assert [op.kind for op in placed] == [Load, Gemm, Gemm, Gemm]
    assert placed[0].fields["x_size"] == 3
    assert placed[0].fields["dram_base"] == 64 // 4
    spans = [(op.fields["uop_begin"], op.fields["uop_end"]) for op in placed[1:]]
    assert spans == [(0, 1), (1, 3), (0, 1)]
    assert len(store.image()) == 3 * 4


def test_more_kernels_than_the_buffer_holds() -> None:
    """Every instruction finds its own micro-ops whenever it runs."""
    depth = TINY.uop_depth
    rng = np.random.default_rng(0)
    kinds = [rng.integers(0, 16, (depth // 5, 3)) for _ in range(7)]
    ops = [gemm(*kinds[k].tolist()) for k in rng.integers(0, 7, 60)]
    wanted = [op.kernel.uops.tolist() for op in ops]
    store = KernelStore(TINY, 0)
    placed = place_kernels(ops, store)
    image = store.image().view(np.uint32)
    from vdla.isa import decode_uops

    buffer = np.zeros(depth, np.uint32)
    found = []
    for op in placed:
        if op.kind is Load:
            first, count = op.fields["sram_base"], op.fields["x_size"]
            assert first + count <= depth
            source = op.fields["dram_base"]
            buffer[first : first + count] = image[source : source + count]
        else:
            kernel = buffer[op.fields["uop_begin"] : op.fields["uop_end"]]
            found.append(np.stack(decode_uops(kernel, TINY), 1).tolist())
    assert found == wanted
