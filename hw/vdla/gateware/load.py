"""The load unit: transfers from memory into scratchpads, padding included.

Both the load module (INP and WGT) and compute's loader (UOP and ACC) are one of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.config import Config
from vdla.isa import MemoryType, Opcode
from vdla.timing import TIMING, read_slots

from .layouts import INDEX_BITS, INSTRUCTION_BITS, address_bits, instruction_layout
from .queues import SmallQueue
from .reading import BeatSource, Requester

__all__ = ["LoadKind", "LoadUnit", "compute_kinds", "load_kinds"]

COUNT_BITS = 17
"""Rows and columns of a padded block: 16 bits and twice 15."""


@dataclass(frozen=True)
class LoadKind:
    """One memory type as a load unit moves it.

    Attributes
    ----------
    memory_type : MemoryType
    bank : int
        Which scratchpad of the unit is written.
    scalars, memory_bits, sram_bits : int
        Scalars of an element, and the width of one in memory and in the scratchpad.
    depth : int
        Entries of the scratchpad.
    """

    memory_type: MemoryType
    bank: int
    scalars: int
    memory_bits: int
    sram_bits: int
    depth: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of an element in memory."""
        return self.scalars * self.memory_bits // 8


def load_kinds(config: Config) -> tuple[LoadKind, ...]:
    """Return what the load module moves."""
    inp, wgt = config.batch * config.block_in, config.block_out * config.block_in
    return (
        LoadKind(MemoryType.INP, 0, inp, 8, 8, config.inp_depth),
        LoadKind(MemoryType.WGT, 1, wgt, 8, 8, config.wgt_depth),
    )


def compute_kinds(config: Config) -> tuple[LoadKind, ...]:
    """Return what compute's loader moves."""
    lanes = config.batch * config.block_out
    return (
        LoadKind(MemoryType.UOP, 0, 1, 32, 32, config.uop_depth),
        LoadKind(MemoryType.ACC, 1, lanes, 32, 32, config.acc_depth),
        LoadKind(MemoryType.ACC_8BIT, 1, lanes, 8, 32, config.acc_depth),
    )


class LoadUnit(wiring.Component):
    """Executes LOADs: requests bursts ahead of data, writes elements in order.

    Members
    -------
    instruction, index, start, free
        A LOAD, at `index` in the program, is accepted in a cycle with `start`, only where the unit
        is `free`.
    bases
        Byte address of element 0 of each kind.
    source
        To the arbiter.
    write, address, data
        One entry for scratchpad ``bank`` in a cycle with ``write[bank]``; `data` is as wide as the
        widest entry.
    done
        An instruction's last element is in its scratchpad at the end of this cycle.
    overflow, bus_error, fault
        The instruction being written, `fault`, leaves its scratchpad; it got an error response.
    busy, waiting_bus
        An instruction is being written; it waits for data.
    """

    def __init__(self, config: Config, kinds: tuple[LoadKind, ...]) -> None:
        self._config, self._kinds = config, kinds
        depth = max(kind.depth for kind in kinds)
        width = max(kind.scalars * kind.sram_bits for kind in kinds)
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "index": In(INDEX_BITS),
                "start": In(1),
                "free": Out(1),
                "bases": In(address_bits(config)).array(len(kinds)),
                "source": Out(BeatSource(config)),
                "write": Out(max(kind.bank for kind in kinds) + 1),
                "address": Out(range(depth)),
                "data": Out(width),
                "done": Out(1),
                "overflow": Out(1),
                "bus_error": Out(1),
                "fault": Out(INDEX_BITS),
                "waiting_bus": Out(1),
                "busy": Out(1),
            }
        )

    def _info(self) -> data.StructLayout:
        """Return what the write stage keeps of an instruction."""
        lanes = max(1, (self._config.axi_bytes - 1).bit_length())
        return data.StructLayout(
            {
                "kind": range(max(2, len(self._kinds))),
                "sram": 16,
                "index": INDEX_BITS,
                "x_begin": COUNT_BITS,
                "x_end": COUNT_BITS,
                "x_total": COUNT_BITS,
                "y_begin": COUNT_BITS,
                "y_end": COUNT_BITS,
                "y_total": COUNT_BITS,
                "pad": 8,
                "lane": lanes,
                "lane_step": lanes,
                "empty": 1,
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the decoder, the requester and the write stage."""
        m = Module()
        config = self._config
        m.submodules.requester = requester = Requester(config, read_slots(config))
        m.submodules.infos = infos = SmallQueue(self._info(), TIMING.inflight)
        connect(m, flipped(self.source), requester.source)
        self._decode(m, requester, infos)
        self._write_stage(m, requester, infos)
        return m

    def _decode(self, m: Module, requester: Requester, infos: SmallQueue) -> None:
        kinds, config = self._kinds, self._config
        load = instruction_layout(Opcode.LOAD, config)(self.instruction)
        info = infos.write_data
        transfer = requester.transfer
        index = Signal(range(max(2, len(kinds))))
        moves = Signal()
        for position, kind in enumerate(kinds):
            shift = (kind.memory_bytes - 1).bit_length()
            with m.If(load.memory_type == kind.memory_type):
                m.d.comb += [
                    index.eq(position),
                    transfer.address.eq(self.bases[position] + (load.dram_base << shift)),
                    transfer.row_bytes.eq(load.x_size << shift),
                    transfer.stride_bytes.eq(load.x_stride << shift),
                ]
        m.d.comb += [
            transfer.rows.eq(load.y_size),
            moves.eq((load.x_size != 0) & (load.y_size != 0)),
            requester.start.eq(self.start & moves),
            self.free.eq(requester.free),
            infos.write.eq(self.start),
            info.kind.eq(index),
            info.sram.eq(load.sram_base),
            info.index.eq(self.index),
            info.x_begin.eq(load.x_pad_0),
            info.x_end.eq(load.x_pad_0 + load.x_size),
            info.x_total.eq(load.x_pad_0 + load.x_size + load.x_pad_1),
            info.y_begin.eq(load.y_pad_0),
            info.y_end.eq(load.y_pad_0 + load.y_size),
            info.y_total.eq(load.y_pad_0 + load.y_size + load.y_pad_1),
            info.pad.eq(load.pad_value),
            info.lane.eq(transfer.address),
            info.lane_step.eq(transfer.stride_bytes),
            info.empty.eq((load.x_size == 0) | ((load.y_pad_0 + load.y_size + load.y_pad_1) == 0)),
        ]

    def _write_stage(self, m: Module, requester: Requester, infos: SmallQueue) -> None:
        """Write one cell a cycle: a beat, an element narrower than one, or padding."""
        config, kinds = self._config, self._kinds
        beat_bits = config.axi_data_bits
        info, beat = infos.head, requester.beat
        x, y = Signal(COUNT_BITS), Signal(COUNT_BITS)
        offset = Signal(COUNT_BITS + 16)
        widest = max(kind.scalars * kind.memory_bits for kind in kinds)
        parts = max(1, widest // beat_bits)
        part = Signal(range(max(2, parts)))
        # The beats before an entry's last one: each has its register, so that one changes a cycle.
        held = [
            Signal(beat_bits, name=f"held_{k}", reset_less=True) for k in range(max(1, parts - 1))
        ]
        row_lane, lane_moved = Signal.like(info.lane), Signal()
        lane = Signal.like(info.lane)

        is_data, cell, element, ends = Signal(), Signal(), Signal(), Signal()
        last_part, last_lane = Signal(), Signal()
        last_x, last_y = Signal(), Signal()
        m.d.comb += [
            is_data.eq(
                (x >= info.x_begin) & (x < info.x_end) & (y >= info.y_begin) & (y < info.y_end)
            ),
            cell.eq(infos.valid & (info.empty | ~is_data | requester.beat_valid)),
            self.waiting_bus.eq(infos.valid & ~cell),
            self.busy.eq(infos.valid),
            element.eq(cell & ~info.empty & (~is_data | last_part)),
            last_x.eq(x + 1 == info.x_total),
            last_y.eq(y + 1 == info.y_total),
            ends.eq(cell & (info.empty | (element & last_x & last_y))),
            infos.take.eq(ends),
            self.done.eq(ends),
        ]
        wholes: list[Value] = []
        for position, kind in enumerate(kinds):
            bits = kind.memory_bytes * 8
            if bits >= beat_bits:
                count = bits // beat_bits
                whole = Cat(*held[: count - 1], beat.data)
                ends_part, ends_lane = part == count - 1, 1
            else:
                start = Mux(lane_moved, lane, Mux(y == info.y_begin, info.lane, row_lane))
                shift = (kind.memory_bytes - 1).bit_length()
                slot = Signal(range(beat_bits // bits), name=f"slot{position}")
                m.d.comb += slot.eq(start >> shift)
                whole = beat.data.word_select(slot, bits)
                ends_part, ends_lane = 1, slot == beat_bits // bits - 1
            with m.If(info.kind == position):
                m.d.comb += [last_part.eq(ends_part), last_lane.eq(ends_lane)]
                if bits < beat_bits:
                    with m.If(cell & is_data):
                        m.d.sync += [
                            lane.eq((slot + 1) << shift),
                            lane_moved.eq(1),
                        ]
            wholes.append(whole)
        take_beat = Signal()
        m.d.comb += [
            take_beat.eq(cell & is_data & ~info.empty & (last_lane | (x + 1 == info.x_end))),
            requester.beat_take.eq(take_beat),
            requester.freed.eq(take_beat & beat.last),
        ]
        with m.If(cell & is_data & ~info.empty):
            if parts > 1:
                m.d.sync += part.eq(Mux(last_part, 0, part + 1))
                with m.Switch(part):
                    for k in range(parts - 1):
                        with m.Case(k):
                            m.d.sync += held[k].eq(beat.data)
        with m.If(element):
            m.d.sync += [x.eq(Mux(last_x, 0, x + 1)), offset.eq(offset + 1)]
            with m.If(last_x):
                m.d.sync += [y.eq(y + 1), lane_moved.eq(0)]
                with m.If(y >= info.y_begin):
                    current = Mux(y == info.y_begin, info.lane, row_lane)
                    m.d.sync += row_lane.eq(current + info.lane_step)
        with m.If(ends):
            m.d.sync += [x.eq(0), y.eq(0), offset.eq(0), lane_moved.eq(0)]

        target = Signal(COUNT_BITS + 17)
        depths = Array([kind.depth for kind in kinds])
        banks = Array([1 << kind.bank for kind in kinds])
        fits = Signal()
        m.d.comb += [
            target.eq(info.sram + offset),
            fits.eq(target < depths[info.kind]),
            self.overflow.eq(element & ~fits),
            self.bus_error.eq(cell & is_data & ~info.empty & beat.error),
            self.fault.eq(info.index),
        ]
        m.d.sync += [
            self.write.eq(Mux(element & fits, banks[info.kind], 0)),
            self.address.eq(target),
        ]
        entry = Signal(len(self.data), reset_less=True)
        m.d.comb += self.data.eq(entry)
        with m.If(element), m.Switch(info.kind):
            for position, (kind, whole) in enumerate(zip(kinds, wholes, strict=True)):
                with m.Case(position):
                    with m.If(is_data):
                        m.d.sync += entry.eq(_widened(kind, whole))
                    with m.Else():
                        m.d.sync += entry.eq(_padding(kind, info.pad))


def _widened(kind: LoadKind, whole: Value) -> Value:
    """Return an entry as the scratchpad holds it, its scalars sign-extended."""
    scalars = (whole.word_select(k, kind.memory_bits) for k in range(kind.scalars))
    return Cat(_extend(scalar, kind.sram_bits) for scalar in scalars)


def _padding(kind: LoadKind, pad: Value) -> Value:
    return _extend(pad, kind.sram_bits).replicate(kind.scalars)


def _extend(value: Value, width: int) -> Value:
    return Cat(value, value[-1].replicate(width - len(value)))
