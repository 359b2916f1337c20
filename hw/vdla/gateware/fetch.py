"""Fetch: reads the instruction stream and hands instructions to the command queues."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config
from vdla.isa import AluOp, MemoryType, Opcode
from vdla.registers import ErrorCause
from vdla.timing import INSTRUCTION_BYTES, TIMING, fetch_bursts

from .layouts import INSTRUCTION_BITS, address_bits, instruction_layout
from .queues import SmallQueue
from .reading import BeatSource

__all__ = ["Fetch"]


class Fetch(wiring.Component):
    """Instruction fetch.

    Members
    -------
    start, base, count
        In a cycle with `start`, reading of `count` instructions from address `base` begins. The
        stream starts on a page.
    source
        To the arbiter.
    instruction, dispatch, room
        An instruction for module m (load, compute, store) in a cycle with ``dispatch[m]``; only
        where ``room[m]``.
    index
        Of the next instruction.
    illegal, bus_error, ended
        The next instruction is refused, with its reason; it came with an error; the stream ended.
    busy
        There are instructions to come.
    stop
        Nothing is dispatched any more.
    waiting_queue
        An instruction waits for room.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "start": In(1),
                "base": In(address_bits(config)),
                "count": In(32),
                "source": Out(BeatSource(config)),
                "instruction": Out(INSTRUCTION_BITS),
                "dispatch": Out(3),
                "room": In(3),
                "index": Out(32),
                "illegal": Out(ErrorCause),
                "bus_error": Out(1),
                "ended": Out(1),
                "busy": Out(1),
                "stop": In(1),
                "waiting_queue": Out(1),
                "waiting_bus": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build reader, queue and dispatch."""
        m = Module()
        config = self._config
        beat_bytes, burst_beats = config.axi_bytes, config.axi_burst_beats
        burst_bytes = beat_bytes * burst_beats
        slots = fetch_bursts(config, TIMING)
        source = self.source

        # Requests: whole bursts from a page on, the last one shorter.
        beats_left = Signal(32 + 4)
        cursor = Signal(address_bits(config))
        used = Signal(range(slots + 1))
        freed = Signal(range(slots + 1))
        take, short = Signal(), Signal()
        m.d.comb += [
            take.eq((beats_left != 0) & (used < slots) & (~source.valid | source.grant)),
            short.eq(beats_left < burst_beats),
        ]
        with m.If(source.grant):
            m.d.sync += source.valid.eq(0)
        with m.If(take):
            m.d.sync += [
                source.valid.eq(1),
                source.request.address.eq(cursor),
                source.request.last.eq(Mux(short, beats_left - 1, burst_beats - 1)),
                cursor.eq(cursor + burst_bytes),
                beats_left.eq(Mux(short, 0, beats_left - burst_beats)),
            ]
        m.d.sync += used.eq(used + take - freed)

        # Beats to words that hold whole instructions.
        word_bits = max(INSTRUCTION_BITS, config.axi_data_bits)
        parts = word_bits // config.axi_data_bits
        depth = max(2, slots * burst_bytes * 8 // word_bits)
        # The top bit tells that a beat of the word came with an error.
        m.submodules.words = words = SmallQueue(word_bits + 1, depth)
        if parts == 1:
            m.d.comb += [
                words.write_data.eq(Cat(source.beat.data, source.beat.error)),
                words.write.eq(source.beat_valid),
            ]
        else:
            held, held_error = Signal(word_bits - config.axi_data_bits), Signal()
            part = Signal(range(parts))
            last_part, error = part == parts - 1, held_error | source.beat.error
            with m.If(source.beat_valid):
                m.d.sync += [
                    held.eq(Cat(held, source.beat.data)[config.axi_data_bits :]),
                    held_error.eq(~last_part & error),
                    part.eq(Mux(last_part, 0, part + 1)),
                ]
            m.d.comb += [
                words.write_data.eq(Cat(held, source.beat.data, error)),
                words.write.eq(source.beat_valid & last_part),
            ]

        # Dispatch.
        left = Signal(32)
        lanes = word_bits // INSTRUCTION_BITS
        lane = Signal(range(max(2, lanes)))
        present = Array(
            [words.head[i * INSTRUCTION_BITS : (i + 1) * INSTRUCTION_BITS] for i in range(lanes)]
        )
        target = Signal(range(3))
        finish = instruction_layout(Opcode.LOAD, config)(self.instruction).opcode == Opcode.FINISH
        go, ready = Signal(), Signal()
        m.d.comb += [
            self.instruction.eq(present[lane if lanes > 1 else 0]),
            ready.eq(
                words.valid
                & self.busy
                & ~self.stop
                & ~self.bus_error
                & (self.illegal == ErrorCause.NONE)
            ),
            self.bus_error.eq(words.valid & self.busy & words.head[-1]),
            go.eq(ready & self.room.bit_select(target, 1)),
            self.dispatch.eq(go << target),
            self.waiting_queue.eq(ready & ~go),
            self.waiting_bus.eq(~words.valid & self.busy),
            words.take.eq(go & ((lane == lanes - 1) | (left == 1))),
        ]
        self._decode(m, words.valid & self.busy, target)
        with m.If(go):
            m.d.sync += [
                left.eq(left - 1),
                self.busy.eq((left != 1) & ~finish),
                self.index.eq(self.index + 1),
                lane.eq(Mux(lane == lanes - 1, 0, lane + 1)),
            ]
            with m.If((left == 1) & ~finish):
                m.d.sync += self.ended.eq(1)
        each = max(1, burst_bytes // INSTRUCTION_BYTES)
        place = Signal(range(max(2, each)))
        if burst_bytes >= INSTRUCTION_BYTES:
            with m.If(go):
                m.d.sync += place.eq(Mux(place == each - 1, 0, place + 1))
                m.d.comb += freed.eq(place == each - 1)
        else:
            with m.If(go):
                m.d.comb += freed.eq(INSTRUCTION_BYTES // burst_bytes)
        with m.If(self.start):
            m.d.sync += [
                cursor.eq(self.base),
                beats_left.eq(
                    (self.count * INSTRUCTION_BYTES + (beat_bytes - 1))
                    >> (beat_bytes - 1).bit_length()
                ),
                left.eq(self.count),
                self.index.eq(0),
                self.busy.eq(self.count != 0),
                self.ended.eq(self.count == 0),
                lane.eq(0),
                used.eq(0),
                place.eq(0),
            ]
        return m

    def _decode(self, m: Module, valid: object, target: Signal) -> None:
        """Choose the module and refuse what no module executes."""
        config = self._config
        load = instruction_layout(Opcode.LOAD, config)(self.instruction)
        alu = instruction_layout(Opcode.ALU, config)(self.instruction)
        illegal = Signal(ErrorCause)
        to_load = (load.memory_type == MemoryType.INP) | (load.memory_type == MemoryType.WGT)
        unknown = load.memory_type > max(MemoryType)
        prev = load.pop_prev | load.push_prev
        behind = load.pop_next | load.push_next
        m.d.comb += target.eq(1)
        with m.Switch(load.opcode):
            with m.Case(Opcode.LOAD):
                m.d.comb += target.eq(Mux(to_load, 0, 1))
                with m.If(unknown):
                    m.d.comb += illegal.eq(ErrorCause.ILLEGAL_MEMORY_TYPE)
                with m.Elif(load.memory_type == MemoryType.OUT):
                    m.d.comb += illegal.eq(ErrorCause.LOAD_OUT)
                with m.Elif(to_load & prev):
                    m.d.comb += illegal.eq(ErrorCause.ILLEGAL_FLAG)
            with m.Case(Opcode.STORE):
                m.d.comb += target.eq(2)
                with m.If(unknown):
                    m.d.comb += illegal.eq(ErrorCause.ILLEGAL_MEMORY_TYPE)
                with m.Elif(load.memory_type != MemoryType.OUT):
                    m.d.comb += illegal.eq(ErrorCause.STORE_NOT_OUT)
                with m.Elif(behind):
                    m.d.comb += illegal.eq(ErrorCause.ILLEGAL_FLAG)
            with m.Case(Opcode.GEMM, Opcode.FINISH):
                pass
            with m.Case(Opcode.ALU), m.If(alu.alu_opcode > max(AluOp)):
                m.d.comb += illegal.eq(ErrorCause.ILLEGAL_ALU_OPCODE)
            with m.Default():
                m.d.comb += illegal.eq(ErrorCause.ILLEGAL_OPCODE)
        with m.If(valid):
            m.d.comb += self.illegal.eq(illegal)
