"""The read side of the memory bus: request registers, the arbiter, owners of data."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config

from .generator import BurstGenerator, transfer_layout
from .layouts import ReadChannel, request_layout
from .queues import SmallQueue

__all__ = ["BeatSource", "ReadArbiter", "Requester", "beat_layout"]


def beat_layout(config: Config) -> data.StructLayout:
    """Return one beat as its reader sees it: data, whether it ends a burst, whether it failed."""
    return data.StructLayout({"data": config.axi_data_bits, "last": 1, "error": 1})


class BeatSource(wiring.Signature):
    """One reader's side of the arbiter.

    Members
    -------
    request, valid, grant
        A burst asked for; it is taken in the cycle of `grant`.
    beat, beat_valid
        Data that came back for this reader; it is always taken.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "request": Out(request_layout(config)),
                "valid": Out(1),
                "grant": In(1),
                "beat": In(beat_layout(config)),
                "beat_valid": In(1),
            }
        )


class Requester(wiring.Component):
    """A generator whose bursts are requested while there is a slot for their data.

    Members
    -------
    transfer, start, free
        As `BurstGenerator`.
    freed
        A slot's last beat is written this cycle.
    source
        To the arbiter.
    beat, beat_valid, beat_take
        Data in order of arrival.
    """

    def __init__(self, config: Config, slots: int) -> None:
        self._config, self._slots = config, slots
        super().__init__(
            {
                "transfer": In(transfer_layout(config)),
                "start": In(1),
                "free": Out(1),
                "freed": In(1),
                "source": Out(BeatSource(config)),
                "beat": Out(beat_layout(config)),
                "beat_valid": Out(1),
                "beat_take": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build generator, request register, slot count and data queue."""
        m = Module()
        config = self._config
        m.submodules.generator = generator = BurstGenerator(config)
        m.submodules.beats = beats = SmallQueue(
            beat_layout(config), self._slots * config.axi_burst_beats
        )
        used = Signal(range(self._slots + 1))
        take = Signal()
        source = self.source
        m.d.comb += [
            generator.transfer.eq(self.transfer),
            generator.start.eq(self.start),
            self.free.eq(generator.free),
            take.eq(generator.valid & (used != self._slots) & (~source.valid | source.grant)),
            generator.take.eq(take),
            beats.write_data.eq(source.beat),
            beats.write.eq(source.beat_valid),
            self.beat.eq(beats.head),
            self.beat_valid.eq(beats.valid),
            beats.take.eq(self.beat_take),
        ]
        m.d.sync += used.eq(used + take - self.freed)
        with m.If(source.grant):
            m.d.sync += source.valid.eq(0)
        with m.If(take):
            m.d.sync += [source.request.eq(generator.burst), source.valid.eq(1)]
        return m


class ReadArbiter(wiring.Component):
    """Grants whole bursts round-robin and hands data back to whoever asked.

    The address channel is a register: a burst granted in cycle g is on the bus from g + 1
    (`grant_cycles`), and the next grant may come in the cycle in which it is accepted.

    Members
    -------
    sources
        The readers, the first served first at the start.
    channel
        AXI.
    idle
        No burst is on its way.
    """

    def __init__(self, config: Config, sources: int, in_flight: int) -> None:
        self._config, self._count, self._in_flight = config, sources, in_flight
        super().__init__(
            {
                "sources": In(BeatSource(config)).array(sources),
                "channel": Out(ReadChannel(config)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the arbiter."""
        m = Module()
        count = self._count
        channel = self.channel
        m.submodules.owners = owners = SmallQueue(range(count), self._in_flight)
        granted = Signal(range(count), init=count - 1)
        chosen = Signal(range(count))
        open_ = Signal()
        some = Signal()
        valids = [source.valid for source in self.sources]
        requests = Array([source.request for source in self.sources])
        m.d.comb += [
            open_.eq(~channel.request_valid | channel.request_ready),
            some.eq(open_ & Cat(valids).any()),
        ]
        with m.Switch(granted):
            for last in range(count):
                with m.Case(last):
                    for step in range(count, 0, -1):
                        index = (last + step) % count
                        with m.If(valids[index]):
                            m.d.comb += chosen.eq(index)
        with m.If(channel.request_ready):
            m.d.sync += channel.request_valid.eq(0)
        with m.If(some):
            m.d.sync += [
                channel.request_valid.eq(1),
                channel.request.eq(requests[chosen]),
                granted.eq(chosen),
            ]
        m.d.comb += [
            owners.write_data.eq(chosen),
            owners.write.eq(some),
            owners.take.eq(channel.valid & channel.last),
            self.idle.eq(~owners.valid & ~channel.request_valid),
        ]
        for index, source in enumerate(self.sources):
            m.d.comb += [
                source.grant.eq(some & (chosen == index)),
                source.beat.data.eq(channel.data),
                source.beat.last.eq(channel.last),
                source.beat.error.eq(channel.error),
                source.beat_valid.eq(channel.valid & (owners.head == index)),
            ]
        return m
