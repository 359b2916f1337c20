"""Command queues and dependence-token queues."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Shape, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["CommandQueue", "SmallQueue", "TokenQueue"]


class CommandQueue(wiring.Component):
    """A block-RAM queue whose head shows `queue_cycles` after it was written.

    Room is counted by instructions that have *started*, not by those taken out: compute's
    sequencer takes an instruction before it starts.

    Parameters
    ----------
    width, depth : int
        Bits of an entry; entries, a power of two.

    Members
    -------
    write_data, write, room
        The writer's side; `write` only where there is `room`.
    head, valid, take
        The reader's side.
    started
        One entry's place is free again.
    """

    def __init__(self, width: int, depth: int) -> None:
        self._width, self._depth = width, depth
        super().__init__(
            {
                "write_data": In(width),
                "write": In(1),
                "room": Out(1),
                "head": Out(width),
                "valid": Out(1),
                "take": In(1),
                "started": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the queue."""
        m = Module()
        m.submodules.storage = storage = memory.Memory(
            shape=unsigned(self._width), depth=self._depth, init=[]
        )
        write, read = storage.write_port(), storage.read_port()
        at_write = Signal(range(2 * self._depth))
        at_read = Signal.like(at_write)
        used = Signal(range(self._depth + 1))
        next_read = Signal.like(at_read)
        m.d.comb += [
            next_read.eq(at_read + (self.valid & self.take)),
            write.addr.eq(at_write),
            write.data.eq(self.write_data),
            write.en.eq(self.write),
            read.addr.eq(next_read),
            # A head that has started has lost its place: it must not be read again.
            read.en.eq(self.take | ~self.valid),
            self.head.eq(read.data),
            self.room.eq(used != self._depth),
        ]
        m.d.sync += [
            at_write.eq(at_write + self.write),
            at_read.eq(next_read),
            self.valid.eq(next_read != at_write),
            used.eq(used + self.write - self.started),
        ]
        return m


class TokenQueue(wiring.Component):
    """Dependence tokens between two modules: a level, since tokens carry nothing.

    Members
    -------
    push, room
        The producer's side; `push` only where there is `room`.
    pop, available
        The consumer's side; `pop` only where a token is `available`.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        super().__init__({"push": In(1), "room": Out(1), "pop": In(1), "available": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the queue."""
        m = Module()
        level = Signal(range(self._depth + 1))
        m.d.sync += level.eq(level + self.push - self.pop)
        m.d.comb += [self.room.eq(level != self._depth), self.available.eq(level != 0)]
        return m


class SmallQueue(wiring.Component):
    """A queue in distributed RAM whose head shows the cycle after it was written.

    The writer makes sure that there is room; nothing is checked.

    Parameters
    ----------
    shape : Shape-castable
        An entry.
    depth : int
        Entries; rounded up to a power of two.

    Members
    -------
    write_data, write
        The writer's side.
    head, valid, take
        The reader's side.
    """

    def __init__(self, shape: object, depth: int) -> None:
        self._shape, self._bits = shape, max(1, (depth - 1).bit_length())
        super().__init__(
            {
                "write_data": In(shape),
                "write": In(1),
                "head": Out(shape),
                "valid": Out(1),
                "take": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the queue."""
        m = Module()
        m.submodules.storage = storage = memory.Memory(
            shape=unsigned(Shape.cast(self._shape).width), depth=1 << self._bits, init=[]
        )
        write, read = storage.write_port(), storage.read_port(domain="comb")
        at_write = Signal(self._bits + 1)
        at_read = Signal.like(at_write)
        m.d.comb += [
            write.addr.eq(at_write),
            write.data.eq(self.write_data),
            write.en.eq(self.write),
            read.addr.eq(at_read),
            self.head.eq(read.data),
            self.valid.eq(at_write != at_read),
        ]
        m.d.sync += [
            at_write.eq(at_write + self.write),
            at_read.eq(at_read + Mux(self.valid, self.take, 0)),
        ]
        return m
