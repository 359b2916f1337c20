"""The store module: OUT entries to memory."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config
from vdla.isa import Opcode
from vdla.timing import TIMING

from .generator import BurstGenerator
from .layouts import (
    INDEX_BITS,
    INSTRUCTION_BITS,
    WriteChannel,
    address_bits,
    beats_bits,
    instruction_layout,
    request_layout,
)
from .queues import SmallQueue

__all__ = ["StoreUnit"]


class StoreUnit(wiring.Component):
    """Executes STOREs.

    A burst's address goes out as soon as it is known; its data follows `store_data_cycles` later
    at the earliest, one beat a cycle (one element a cycle where elements are narrower). An
    instruction is done with its last burst's response.

    Members
    -------
    instruction, index, start, free
        A STORE, at `index` in the program, is accepted in a cycle with `start`, only where the unit
        is `free`.
    base
        Byte address of element 0.
    channel
        AXI.
    read, address, data
        OUT's read port; data comes the cycle after `read`.
    done
        A started instruction is done; in order, one a cycle.
    take_done
        It is retired.
    overflow, bus_error, fault
        The instruction `fault` leaves OUT; it got an error response.
    idle
        No burst is on its way.
    busy, waiting_bus
        Data is sent; it waits for the bus.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "index": In(INDEX_BITS),
                "start": In(1),
                "free": Out(1),
                "base": In(address_bits(config)),
                "channel": Out(WriteChannel(config)),
                "read": Out(1),
                "address": Out(range(config.acc_depth)),
                "data": In(config.out_elem_bytes * 8),
                "done": Out(1),
                "take_done": In(1),
                "overflow": Out(1),
                "bus_error": Out(1),
                "fault": Out(INDEX_BITS),
                "idle": Out(1),
                "waiting_bus": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build generator, address channel, data stages and completion."""
        m = Module()
        config = self._config
        slots = config.axi_outstanding
        m.submodules.generator = generator = BurstGenerator(config)
        m.submodules.requests = requests = SmallQueue(request_layout(config), slots)
        m.submodules.bursts = bursts = SmallQueue(self._burst(), slots)
        answer = data.StructLayout({"last": 1, "index": INDEX_BITS})
        m.submodules.responses = responses = SmallQueue(answer, slots)
        store = instruction_layout(Opcode.STORE, config)(self.instruction)
        shift = (config.out_elem_bytes - 1).bit_length()
        moves, take = Signal(), Signal()
        used = Signal(range(slots + 1))
        sram = Signal(16)
        first, index = Signal(), Signal(INDEX_BITS)
        channel = self.channel
        m.d.comb += [
            moves.eq((store.x_size != 0) & (store.y_size != 0)),
            generator.transfer.address.eq(self.base + (store.dram_base << shift)),
            generator.transfer.rows.eq(store.y_size),
            generator.transfer.row_bytes.eq(store.x_size << shift),
            generator.transfer.stride_bytes.eq(store.x_stride << shift),
            generator.start.eq(self.start & moves),
            self.free.eq(generator.free),
            take.eq(generator.valid & (used != slots)),
            generator.take.eq(take),
            requests.write.eq(take),
            requests.write_data.eq(generator.burst),
            channel.request.eq(requests.head),
            channel.request_valid.eq(requests.valid),
            requests.take.eq(channel.request_ready),
            bursts.write.eq(take),
            bursts.write_data.last_beat.eq(generator.burst.last),
            bursts.write_data.bytes.eq(generator.bytes),
            bursts.write_data.offset.eq(generator.offset),
            bursts.write_data.first.eq(first),
            bursts.write_data.sram.eq(sram),
            responses.write.eq(take),
            responses.write_data.last.eq(generator.last),
            responses.write_data.index.eq(index),
            responses.take.eq(channel.response),
            self.bus_error.eq(channel.response & channel.response_error),
            self.fault.eq(Mux(self.bus_error, responses.head.index, bursts.head.index)),
            bursts.write_data.index.eq(index),
            self.idle.eq((used == 0) & ~generator.valid),
            self.busy.eq(bursts.valid),
        ]
        m.d.sync += used.eq(used + take - channel.response)
        with m.If(take):
            m.d.sync += first.eq(0)
        with m.If(self.start & moves):
            m.d.sync += [sram.eq(store.sram_base), first.eq(1), index.eq(self.index)]
        self._data(m, bursts)
        self._completion(m, moves, channel.response & responses.head.last)
        return m

    def _burst(self) -> data.StructLayout:
        config = self._config
        return data.StructLayout(
            {
                "last_beat": beats_bits(config),
                "bytes": range(config.axi_burst_beats * config.axi_bytes + 1),
                "offset": (config.axi_bytes - 1).bit_length(),
                "first": 1,
                "sram": 16,
                "index": INDEX_BITS,
            }
        )

    def _data(self, m: Module, bursts: SmallQueue) -> None:
        """Read OUT, then register the beat; each stage moves on as soon as the next can."""
        config, channel = self._config, self.channel
        element_bytes, beat_bytes = config.out_elem_bytes, config.axi_bytes
        beat_bits = beat_bytes * 8
        burst = bursts.head
        parts, lanes = max(1, element_bytes // beat_bytes), max(1, beat_bytes // element_bytes)
        shift = (element_bytes - 1).bit_length()
        cell_bytes = min(element_bytes, beat_bytes)

        # Stage 1: one cell of the present burst, as the address of OUT.
        moved = Signal()
        part, kept_lane = Signal(range(max(2, parts))), Signal(range(max(2, lanes)))
        kept_left, kept_entry = Signal.like(burst.bytes), Signal(17)
        lane, left, entry = Signal.like(kept_lane), Signal.like(burst.bytes), Signal(17)
        last_cell, last_part, ends_beat, step = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            lane.eq(Mux(moved, kept_lane, burst.offset >> shift) if lanes > 1 else 0),
            left.eq(Mux(moved, kept_left, burst.bytes)),
            entry.eq(Mux(burst.first & ~moved, burst.sram, kept_entry)),
            last_cell.eq(left == cell_bytes),
            last_part.eq(part == parts - 1),
            ends_beat.eq(last_cell | (lane == lanes - 1)),
            self.read.eq(step),
            self.address.eq(entry),
            self.overflow.eq(bursts.valid & (entry >= config.acc_depth)),
            bursts.take.eq(step & last_cell),
        ]
        with m.If(step):
            m.d.sync += [
                moved.eq(~last_cell),
                kept_left.eq(left - cell_bytes),
                kept_lane.eq(lane + 1),
                part.eq(Mux(last_part, 0, part + 1)),
                kept_entry.eq(entry + last_part),
            ]

        # Stage 2: OUT's data.
        valid, q_part, q_lane = Signal(), Signal.like(part), Signal.like(lane)
        q_ends_beat, q_last = Signal(), Signal()
        consume, room = Signal(), Signal()
        m.d.comb += [
            room.eq(~channel.valid | channel.ready),
            consume.eq(valid & (~q_ends_beat | room)),
            step.eq(bursts.valid & (~valid | consume)),
            self.waiting_bus.eq(channel.valid & ~channel.ready),
        ]
        with m.If(step):
            m.d.sync += [
                valid.eq(1),
                q_part.eq(part),
                q_lane.eq(lane),
                q_ends_beat.eq(ends_beat),
                q_last.eq(last_cell),
            ]
        with m.Elif(consume):
            m.d.sync += valid.eq(0)

        # Stage 3: the bus.
        with m.If(channel.ready):
            m.d.sync += channel.valid.eq(0)
        if lanes == 1:
            beat = self.data.word_select(q_part, beat_bits) if parts > 1 else self.data
            strobe = (1 << beat_bytes) - 1
        else:
            gathered, strobes = Signal(beat_bits), Signal(beat_bytes)
            spread = Cat(*[self.data for _ in range(lanes)])
            mask = Signal(beat_bytes)
            m.d.comb += mask.eq(((1 << element_bytes) - 1) << (q_lane << shift))
            bits = Cat(*[mask[i].replicate(8) for i in range(beat_bytes)])
            beat, strobe = (gathered & ~bits) | (spread & bits), strobes | mask
            with m.If(consume):
                m.d.sync += [gathered.eq(beat), strobes.eq(Mux(q_ends_beat, 0, strobe))]
        with m.If(consume & q_ends_beat):
            m.d.sync += [
                channel.valid.eq(1),
                channel.data.eq(beat),
                channel.strobe.eq(strobe),
                channel.last.eq(q_last),
            ]

    def _completion(self, m: Module, moves: Signal, answered: Signal) -> None:
        """Put instructions that move nothing in order with those that wait for responses."""
        m.submodules.started = started = SmallQueue(1, TIMING.inflight)
        count = Signal(range(TIMING.inflight + 1))
        counted = Signal()
        m.d.comb += [
            started.write.eq(self.start),
            started.write_data.eq(moves),
            self.done.eq(started.valid & (~started.head | (count != 0))),
            started.take.eq(self.take_done),
            counted.eq(self.take_done & started.head),
        ]
        m.d.sync += count.eq(count + answered - counted)
