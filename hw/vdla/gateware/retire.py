"""Starting and retiring instructions in order, with their tokens."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.timing import TIMING

from .queues import SmallQueue

__all__ = ["Retirement", "token_flags"]

token_flags = data.StructLayout({"prev": 1, "next": 1})


class Retirement(wiring.Component):
    """Keeps the pushes of instructions in flight and gives them when they are done.

    Members
    -------
    start, pushes
        An instruction starts, with the tokens it will push.
    room
        Fewer than `inflight` instructions are in flight.
    empty
        None is.
    done
        The oldest one is done.
    push, has_room
        The token queues.
    retire
        The oldest one retires this cycle.
    waiting
        It is done and a token queue is full.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "pushes": In(token_flags),
                "room": Out(1),
                "empty": Out(1),
                "done": In(1),
                "push": Out(token_flags),
                "has_room": In(token_flags),
                "retire": Out(1),
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the queue of flags."""
        m = Module()
        m.submodules.flags = flags = SmallQueue(token_flags, TIMING.inflight)
        count = Signal(range(TIMING.inflight + 1))
        blocked = Signal()
        m.d.comb += [
            flags.write.eq(self.start),
            flags.write_data.eq(self.pushes),
            self.room.eq(count != TIMING.inflight),
            self.empty.eq(count == 0),
            blocked.eq(
                (flags.head.prev & ~self.has_room.prev) | (flags.head.next & ~self.has_room.next)
            ),
            self.retire.eq(flags.valid & self.done & ~blocked),
            self.waiting.eq(flags.valid & self.done & blocked),
            flags.take.eq(self.retire),
            self.push.prev.eq(self.retire & flags.head.prev),
            self.push.next.eq(self.retire & flags.head.next),
        ]
        m.d.sync += count.eq(count + self.start - self.retire)
        return m
