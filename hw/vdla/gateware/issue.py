"""The issue stage: micro-ops to read slots of the accumulator's one read port."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config
from vdla.isa import AluOp
from vdla.timing import SLOW_OPERATIONS, TIMING

from .sequencer import vector_layout

__all__ = ["Issue", "Role", "slot_layout"]


class Role:
    """What a slot reads from ACC."""

    FINAL = 0
    SOURCE = 1
    BIAS = 2
    MULTIPLIER = 3
    PACKED = 4


def slot_layout(config: Config) -> data.StructLayout:
    """Return one issue slot: a read of ACC and, in the final one, an operation."""
    return data.StructLayout(
        {
            "role": 3,
            "read": config.dst_index_bits,
            "dst": config.dst_index_bits,
            "inp": (config.inp_depth - 1).bit_length(),
            "wgt": config.wgt_index_bits,
            "writes": 1,
            "gemm": 1,
            "multiplies": 1,
            "zero": 1,
            "overwrite": 1,
            "slow": 1,
            "alu_opcode": 3,
            "use_imm": 1,
            "imm": 16,
            "last": 1,
        }
    )


class Issue(wiring.Component):
    """Starts instructions, and gives each vector its slots.

    A vector takes one slot, a tensor-tensor one two (src, then dst), RQ with new parameters four.
    A slot waits while a slow operation that writes the entry it reads is less than
    `slow_cycles` old.

    Members
    -------
    vector, valid, take
        From the sequencer.
    may_start
        The vector's instruction may start: tokens, room, and for FINISH an empty pipeline.
    start
        It starts this cycle.
    slot, slot_valid
        To the data path.
    overflow, rq_overflow
        An index leaves its buffer; RQ's parameters do.
    stop
        Nothing is issued any more.
    stalled
        A slot waits for a slow result.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "vector": In(vector_layout(config)),
                "valid": In(1),
                "take": Out(1),
                "may_start": In(1),
                "start": Out(1),
                "slot": Out(slot_layout(config)),
                "slot_valid": Out(1),
                "overflow": Out(1),
                "rq_overflow": Out(1),
                "stop": In(1),
                "stalled": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build slots and interlock."""
        m = Module()
        config = self._config
        vector, operation, slot = self.vector, self.vector.operation, self.slot
        named = {op: operation.alu_opcode == op for op in (AluOp.RQ, *SLOW_OPERATIONS)}
        is_rq = operation.alu & named[AluOp.RQ]
        tensor = operation.alu & ~is_rq & ~operation.use_imm
        slow = operation.alu & reduce(or_, (named[op] for op in SLOW_OPERATIONS))
        started, step = Signal(), Signal(range(4))
        previous_src = Signal.like(vector.src)
        final, wants_params = Signal(), Signal()
        m.d.comb += [
            wants_params.eq(
                is_rq & ~operation.empty & (vector.first | (vector.src != previous_src))
            ),
            final.eq(
                operation.empty
                | Mux(wants_params, step == TIMING.rq_parameter_reads, Mux(tensor, step == 1, 1))
            ),
            self.start.eq(self.valid & vector.first & ~started & self.may_start & ~self.stop),
        ]
        read = Signal.like(vector.src)
        m.d.comb += [
            read.eq(Mux(final, vector.dst, vector.src + Mux(is_rq, step, 0))),
            slot.read.eq(read),
            slot.dst.eq(vector.dst),
            slot.inp.eq(vector.src),
            slot.wgt.eq(vector.wgt),
            slot.gemm.eq(operation.gemm),
            slot.zero.eq(operation.reset),
            slot.multiplies.eq(operation.gemm & ~operation.reset & ~operation.empty & final),
            slot.overwrite.eq(operation.overwrite),
            slot.slow.eq(slow),
            slot.alu_opcode.eq(operation.alu_opcode),
            slot.use_imm.eq(operation.use_imm),
            slot.imm.eq(operation.imm),
            slot.writes.eq(final & ~operation.empty),
            slot.last.eq(final & vector.last),
            slot.role.eq(Mux(final, Role.FINAL, Mux(is_rq, Role.BIAS + step, Role.SOURCE))),
        ]

        # Interlock: destinations of slow operations issued 1 .. slow_cycles - 1 cycles ago.
        recent = [
            Signal(data.StructLayout({"valid": 1, "dst": config.dst_index_bits}), name=f"slow_{k}")
            for k in range(1, TIMING.slow_cycles)
        ]
        go, conflict, reads = Signal(), Signal(), Signal()
        m.d.comb += [
            reads.eq(~operation.empty & (operation.alu | ~(operation.reset | operation.overwrite))),
            conflict.eq(
                reads & Cat(entry.valid & (entry.dst == slot.read) for entry in recent).any()
            ),
            go.eq(
                self.valid
                & (self.start | started | ~vector.first)
                & ~conflict
                & ~self.stop
                & ~self.overflow
                & ~self.rq_overflow
            ),
            self.stalled.eq(
                self.valid & (self.start | started | ~vector.first) & conflict & ~self.stop
            ),
            self.slot_valid.eq(go),
            self.take.eq(go & final),
        ]
        m.d.sync += recent[0].valid.eq(go & final & slow & ~operation.empty)
        m.d.sync += recent[0].dst.eq(slot.dst)
        for older, newer in zip(recent[1:], recent[:-1], strict=True):
            m.d.sync += older.eq(newer)

        with m.If(go):
            m.d.sync += step.eq(Mux(final, 0, step + 1))
        with m.If(self.take):
            m.d.sync += [started.eq(0), previous_src.eq(vector.src)]
        with m.Elif(self.start):
            m.d.sync += started.eq(1)

        src_depth = Mux(operation.gemm, config.inp_depth, config.acc_depth)
        checked = self.valid & ~operation.empty
        m.d.comb += [
            self.overflow.eq(
                checked
                & (
                    (vector.dst >= config.acc_depth)
                    | vector.uop_overflow
                    | (slot.multiplies & (vector.wgt >= config.wgt_depth))
                    | ((slot.multiplies | tensor) & (vector.src >= src_depth))
                )
            ),
            self.rq_overflow.eq(
                checked & is_rq & (vector.src + TIMING.rq_parameter_reads > config.acc_depth)
            ),
        ]
        return m
