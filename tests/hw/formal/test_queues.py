"""Queues neither lose, duplicate nor reorder; tokens stay in range; full queues refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'")

from amaranth.hdl import Module, Mux, Signal

from tests.hw.formal.harness import Harness, named, run
from vdla.gateware.queues import CommandQueue, SmallQueue, TokenQueue

pytestmark = pytest.mark.rtl

WIDTH = 3


def tokens(queue: TokenQueue, depth: int) -> Harness:
    """The level is pushes less pops, never past the depth, and the flags say so."""
    h = Harness(queue)
    h.free(queue.push, queue.pop)
    held = Signal(range(4 * depth))
    h.m.d.sync += held.eq(held + queue.push - queue.pop)
    h.given(~queue.push | queue.room, ~queue.pop | queue.available)
    h.require(
        held == h.register("level"),
        held <= depth,
        queue.room == (held < depth),
        queue.available == (held > 0),
    )
    return h


def _counts(h: Harness, bits: int) -> tuple[Signal, Signal]:
    unit = h.unit
    written, taken = Signal(bits, name="written"), Signal(bits, name="taken")
    h.m.d.sync += [
        written.eq(written + unit.write),
        taken.eq(taken + (unit.take & unit.valid)),
    ]
    return written, taken


def small(queue: SmallQueue, depth: int) -> Harness:
    """A queue whose writer keeps count."""
    h = Harness(queue)
    bits = max(1, (depth - 1).bit_length()) + 1
    view = h.inner.submodules.storage.read_port(domain="comb")
    h.free(queue.write, queue.take, queue.write_data)
    written, taken = _counts(h, bits)
    held = Signal(bits)
    h.m.d.comb += held.eq(written - taken)
    h.given(~queue.write | (held < depth))
    h.require(
        h.register("at_write") == written,
        h.register("at_read") == taken,
        held <= depth,
        queue.valid == (held != 0),
    )
    k = h.constant(bits, "entry")
    _follow(h, k, written, taken, view)
    return h


def _follow(h: Harness, k: Signal, written: Signal, taken: Signal, view: Any) -> None:
    """Demand that entry k, any one, is kept while it is inside and comes out as it went in."""
    unit, seen = h.unit, Signal(WIDTH)
    with h.m.If(unit.write & (written == k)):
        h.m.d.sync += seen.eq(unit.write_data)
    ahead, held = Signal(len(written)), Signal(len(written))
    h.m.d.comb += [view.addr.eq(k), ahead.eq(k - taken), held.eq(written - taken)]
    kept = (ahead < held) & ~(unit.valid & (ahead == 0))
    h.require(
        ~kept | (view.data == seen),
        ~(unit.valid & (ahead == 0)) | (unit.head == seen),
    )


def command(queue: CommandQueue, depth: int) -> Harness:
    """A queue whose places are free from the start of an instruction on.

    An instruction may start before it is taken, but only the one at the head; it may be taken
    before it starts.
    """
    h = Harness(queue)
    bits = depth.bit_length()  # counts to twice the depth
    view = h.inner.submodules.storage.read_port(domain="comb")
    h.free(queue.write, queue.take, queue.started, queue.write_data)
    written, taken = _counts(h, bits)
    held, unstarted, early = Signal(bits), Signal(bits), Signal()
    h.m.d.comb += held.eq(written - taken)
    entries = Signal(range(depth + 2))  # written and not taken, exactly
    h.m.d.sync += [
        unstarted.eq(unstarted + queue.write - queue.started),
        entries.eq(entries + queue.write - (queue.take & queue.valid)),
    ]
    h.m.d.comb += early.eq(unstarted < entries)
    h.given(
        ~queue.write | queue.room,
        # Something is there to start: the head, or what was taken and has not started.
        ~queue.started | Mux(early, 0, (unstarted > entries) | (queue.valid & (entries != 0))),
        # What starts early is the head alone, and it stays until it is taken.
        ~queue.take | ~queue.valid | ~(early & queue.started),
    )
    h.require(
        h.register("at_write") == written,
        h.register("at_read") == taken,
        h.register("used") == unstarted,
        unstarted <= depth,
        entries <= unstarted + 1,
        entries <= depth + 1,
        held == entries,
        queue.room == (unstarted < depth),
        ~queue.valid | (entries != 0),
        ~early | queue.valid,
    )
    _follow(h, h.constant(bits, "entry"), written, taken, view)
    return h


@pytest.mark.parametrize("depth", [2, 4, 512])
def test_tokens_stay_in_range(depth: int, tmp_path: Path) -> None:
    assert run(tokens(TokenQueue(depth), depth), tmp_path).holds


@pytest.mark.parametrize("depth", [1, 4, 5])
def test_small_queues_keep_order(depth: int, tmp_path: Path) -> None:
    assert run(small(SmallQueue(WIDTH, depth), depth), tmp_path).holds


@pytest.mark.parametrize("depth", [2, 8])
def test_command_queues_keep_order(depth: int, tmp_path: Path) -> None:
    assert run(command(CommandQueue(WIDTH, depth), depth), tmp_path).holds


class LosesAToken(TokenQueue):
    """A push in the cycle of a pop is forgotten."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        level = named(m, "level")
        with m.If(self.push & self.pop):
            m.d.sync += level.eq(level - 1)
        return m


class NeverFull(TokenQueue):
    """There is always room."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += self.room.eq(1)
        return m


class Duplicates(SmallQueue):
    """An entry taken in the cycle of a write is shown again."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        at_read = named(m, "at_read")
        with m.If(self.write & self.take):
            m.d.sync += at_read.eq(at_read)
        return m


class ShortPointer(SmallQueue):
    """Pointers without their wrap bit: a full queue looks empty."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        mask = (1 << self._bits) - 1
        m.d.comb += self.valid.eq((named(m, "at_write") ^ named(m, "at_read")) & mask != 0)
        return m


class ReadsStartedHead(CommandQueue):
    """The head is read each cycle, even when a new entry has its place (a bug we had)."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += m.submodules.storage.read_ports[0].en.eq(1)
        return m


class ShowsTooEarly(CommandQueue):
    """The head shows in the cycle after its write, before the memory has it."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.sync += self.valid.eq(named(m, "next_read") != named(m, "at_write") + self.write)
        return m


@pytest.mark.parametrize(
    ("properties", "planted", "arguments"),
    [
        (tokens, LosesAToken, (4,)),
        (tokens, NeverFull, (4,)),
        (small, Duplicates, (WIDTH, 4)),
        (small, ShortPointer, (WIDTH, 4)),
        (command, ReadsStartedHead, (WIDTH, 2)),
        (command, ShowsTooEarly, (WIDTH, 2)),
    ],
)
def test_a_planted_bug_has_a_trace(
    properties: Any, planted: Any, arguments: tuple[int, ...], tmp_path: Path
) -> None:
    harness = properties(planted(*arguments), arguments[-1])
    assert run(harness, tmp_path, mode="bmc", depth=14).refuted
