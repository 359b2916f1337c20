"""Dependence tokens: streams worked out by hand, and random ones raced against the clock."""

from __future__ import annotations

import time
from collections import deque

import numpy as np
import pytest

from vdla.compiler.targets.vdla.ops import Op, Range
from vdla.compiler.targets.vdla.tokens import link_tokens
from vdla.config import PYNQ_Z1, TINY
from vdla.isa import Alu, Finish, Gemm, Load, ModuleName, Store

LOAD, COMPUTE, STORE = ModuleName
_KINDS = {LOAD: Load, COMPUTE: Gemm, STORE: Store}
_FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
_QUEUES = {
    (LOAD, "push_next"): "load>compute",
    (COMPUTE, "pop_prev"): "load>compute",
    (COMPUTE, "push_prev"): "compute>load",
    (LOAD, "pop_next"): "compute>load",
    (COMPUTE, "push_next"): "compute>store",
    (STORE, "pop_prev"): "compute>store",
    (STORE, "push_prev"): "store>compute",
    (COMPUTE, "pop_next"): "store>compute",
}


def op(module: ModuleName, reads: list[Range] = (), writes: list[Range] = ()) -> Op:
    return Op(module, _KINDS[module], {}, 0, tuple(reads), tuple(writes))


def finish() -> Op:
    return Op(COMPUTE, Finish, {})


def inp(start: int, size: int = 1) -> Range:
    return Range("inp", start, size)


def out(start: int, size: int = 1) -> Range:
    return Range("out", start, size)


def dram(start: int, size: int = 64) -> Range:
    return Range("dram", start, size)


def text(linked: list[Op]) -> list[str]:
    """An instruction a word: module, then ``<p <n`` for pops and ``>p >n`` for pushes."""
    marks = dict(zip(_FLAGS, ("<p", "<n", ">p", ">n"), strict=True))
    return [
        " ".join([o.kind.__name__.lower(), *(marks[f] for f in _FLAGS if o.flags.get(f))])
        for o in linked
    ]


def link(*ops: Op) -> list[str]:
    return text(link_tokens(ops, TINY, 1 << 12, finish()))


def test_two_virtual_threads() -> None:
    """The docstring's example: each product waits for its load, each reload for its product."""
    loads = [op(LOAD, writes=[inp(k)]) for k in (0, 1)]
    gemms = [op(COMPUTE, [inp(k)], [out(k)]) for k in (0, 1)]
    again = [op(LOAD, writes=[inp(k)]) for k in (0, 1)]
    assert link(*loads, *gemms, *again) == [
        "load >n",
        "load >n",
        "gemm <p >p",
        "gemm <p >p",
        "load <n",
        "load <n >n",
        "finish <p",
    ]


def test_a_wait_that_another_implies_costs_no_token() -> None:
    assert link(
        op(LOAD, writes=[inp(0)]),
        op(LOAD, writes=[inp(1)]),
        op(COMPUTE, [inp(1)], [out(1)]),
        op(COMPUTE, [inp(0)], [out(0)]),
    ) == ["load", "load >n", "gemm <p", "gemm", "finish"]


def test_store_after_compute_and_compute_after_store() -> None:
    assert link(
        op(COMPUTE, writes=[out(0, 4)]),
        op(STORE, [out(0, 4)], [dram(0)]),
        op(COMPUTE, writes=[out(3)]),
        op(STORE, [out(3)], [dram(64)]),
    ) == ["gemm >n", "store <p >p", "gemm <n >n", "store <p >p", "finish <n"]


def test_an_empty_gemm_hands_on_between_store_and_load() -> None:
    """A load of what a store wrote: they share no queue."""
    assert link(
        op(COMPUTE, writes=[out(0)]),
        op(STORE, [out(0)], [dram(128)]),
        op(LOAD, [dram(128)], [inp(0)]),
    ) == ["gemm >n", "store <p >p", "gemm <n >p", "load <n >n", "finish <p"]


def test_a_store_over_what_a_load_read_is_handed_on_too() -> None:
    assert link(op(LOAD, [dram(0)], [inp(0)]), op(STORE, [out(0)], [dram(0)])) == [
        "load >n",
        "gemm <p >n",
        "store <p >p",
        "finish <n",
    ]


def test_compute_that_already_waited_hands_on_without_an_extra_instruction() -> None:
    assert link(
        op(COMPUTE, writes=[out(0)]),
        op(STORE, [out(0)], [dram(128)]),
        op(COMPUTE, writes=[out(0)]),
        op(LOAD, [dram(128)], [inp(0)]),
    ) == ["gemm >n", "store <p >p", "gemm <n >p", "load <n >n", "finish <p"]


def test_rows_between_which_nothing_lies_do_not_conflict() -> None:
    rows = Range("dram", 0, 64, rows=4, stride=256)
    between = Range("dram", 64, 64, rows=4, stride=256)
    assert link(op(STORE, [out(0)], [rows]), op(COMPUTE, [between], [])) == [
        "store >p",
        "gemm",
        "finish <n",
    ]
    assert link(op(STORE, [out(0)], [rows]), op(COMPUTE, [rows], [])) == [
        "store >p",
        "gemm <n",
        "finish",
    ]


# Random streams, executed by modules of random speed.


def random_stream(rng: np.random.Generator, length: int) -> list[Op]:
    ops = []
    for _ in range(length):
        module = (LOAD, COMPUTE, STORE)[rng.integers(3)]
        size = int(rng.integers(1, 5))
        here, there = int(rng.integers(0, 24)), int(rng.integers(0, 24))
        memory = Range("dram", there * 64, 64 * size) if rng.random() < 0.7 else None
        if memory and rng.random() < 0.3:
            memory = Range("dram", there * 64, 64, rows=size, stride=192)
        if module is LOAD:
            ops.append(op(LOAD, [memory] if memory else [], [inp(here, size)]))
        elif module is STORE:
            ops.append(op(STORE, [out(here, size)], [memory] if memory else []))
        elif rng.random() < 0.3:
            ops.append(op(COMPUTE, [memory] if memory else [], []))
        else:
            ops.append(op(COMPUTE, [inp(there, size)], [out(here, size)]))
    return ops


def cells(r: Range) -> set[tuple[str, int]]:
    rows = (r.start + y * r.stride for y in range(r.rows))
    return {(r.space, row + k) for row in rows for k in range(r.size)}


def execute(linked: list[Op], rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return start and finish of every instruction; modules run in order, at random speeds."""
    queues = {name: deque() for name in set(_QUEUES.values())}
    lanes = {m: deque(k for k, o in enumerate(linked) if o.module is m) for m in ModuleName}
    free = dict.fromkeys(ModuleName, 0.0)
    times = [(-1.0, -1.0)] * len(linked)
    moved = True
    while moved:
        moved = False
        for module, lane in lanes.items():
            while lane:
                o = linked[lane[0]]
                pops = [_QUEUES[module, f] for f in _FLAGS[:2] if o.flags.get(f)]
                if not all(queues[q] for q in pops):
                    break
                begin = max([free[module], *(queues[q].popleft() for q in pops)])
                end = begin + float(rng.exponential(10.0 ** rng.integers(0, 3)))
                free[module] = end
                times[lane.popleft()] = begin, end
                for flag in _FLAGS[2:]:
                    if o.flags.get(flag):
                        queues[_QUEUES[module, flag]].append(end)
                moved = True
    assert not any(lanes.values()), "the stream deadlocks"
    assert not any(queues.values()), "tokens are left"
    return times


@pytest.mark.parametrize("seed", range(40))
def test_conflicting_instructions_never_overlap_or_swap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    linked = link_tokens(random_stream(rng, 80), TINY, 1 << 12, finish())
    touched = [
        (
            {c for r in o.reads for c in cells(r)},
            {c for r in o.writes for c in cells(r)},
        )
        for o in linked
    ]
    for _ in range(3):
        times = execute(linked, rng)
        for later, (reads, writes) in enumerate(touched):
            for earlier in range(later):
                before_reads, before_writes = touched[earlier]
                if before_writes & (reads | writes) or before_reads & writes:
                    assert times[earlier][1] <= times[later][0], (earlier, later)
        assert times[-1][0] >= max(end for _, end in times[:-1])


def edges(linked: list[Op]) -> list[tuple[int, int]]:
    """Return (pusher, popper) of every token: the k-th pop of a queue takes the k-th push."""
    pushed: dict[str, list[int]] = {name: [] for name in set(_QUEUES.values())}
    popped: dict[str, list[int]] = {name: [] for name in set(_QUEUES.values())}
    for index, o in enumerate(linked):
        for flag in _FLAGS:
            if o.flags.get(flag):
                (popped if flag in _FLAGS[:2] else pushed)[_QUEUES[o.module, flag]].append(index)
    return [pair for name in pushed for pair in zip(pushed[name], popped[name], strict=True)]


def ordered_before(linked: list[Op], tokens: list[tuple[int, int]]) -> list[int]:
    """Return, for each instruction, a bit mask of those that must have finished before it."""
    before: list[int] = []
    last: dict[ModuleName, int] = {}
    for index, o in enumerate(linked):
        earlier = [pusher for pusher, popper in tokens if popper == index]
        earlier += [last[o.module]] if o.module in last else []
        mask = 0
        for k in earlier:
            mask |= before[k] | 1 << k
        before.append(mask)
        last[o.module] = index
    return before


@pytest.mark.parametrize("seed", range(10))
def test_no_token_can_be_left_out(seed: int) -> None:
    linked = link_tokens(random_stream(np.random.default_rng(seed), 40), TINY, 1 << 12, finish())
    places = [
        ({c for r in o.reads for c in cells(r)}, {c for r in o.writes for c in cells(r)})
        for o in linked
    ]
    conflicts = [
        (i, k)
        for k, (reads, writes) in enumerate(places)
        for i, (old_reads, old_writes) in enumerate(places[:k])
        if old_writes & (reads | writes) or old_reads & writes
    ]
    conflicts += [(i, len(linked) - 1) for i in range(len(linked) - 1)]
    tokens = edges(linked)
    assert all(ordered_before(linked, tokens)[k] >> i & 1 for i, k in conflicts)
    for token in tokens:
        fewer = ordered_before(linked, [other for other in tokens if other != token])
        assert not all(fewer[k] >> i & 1 for i, k in conflicts), token


def test_twenty_thousand_instructions_link_in_seconds() -> None:
    """A tenth of the time budget of ResNet-18's compilation, on a slow machine."""
    ops = []
    for step in range(4000):
        half = step % 2 * 64
        ops.append(op(LOAD, [], [inp(half, 64)]))
        ops.append(op(LOAD, [], [Range("wgt", half, 64)]))
        ops.append(op(COMPUTE, [inp(half, 64), Range("wgt", half, 64)], [out(half, 64)]))
        ops.append(Op(COMPUTE, Alu, {}, 0, (), (out(half, 64),)))
        ops.append(op(STORE, [out(half, 64)], [dram(step * 64 % 4096)]))
    started = time.process_time()
    linked = link_tokens(ops, PYNQ_Z1, 1 << 13, finish())
    assert len(linked) == 20001
    assert time.process_time() - started < 4
