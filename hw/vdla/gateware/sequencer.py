"""The micro-op sequencer: loops of a GEMM or ALU instruction as a stream of indices."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config
from vdla.isa import Opcode

from .layouts import INDEX_BITS, INSTRUCTION_BITS, instruction_layout, micro_op_layout

__all__ = ["Sequencer", "operation_layout", "vector_layout"]

_OFFSET_BITS = 15
"""Index bits that two 14-bit loop counts add to a factor's."""


def operation_layout() -> data.StructLayout:
    """Return what every micro-op carries of its instruction."""
    return data.StructLayout(
        {
            "gemm": 1,
            "alu": 1,
            "finish": 1,
            "empty": 1,
            "reset": 1,
            "overwrite": 1,
            "alu_opcode": 3,
            "use_imm": 1,
            "imm": 16,
            "pop_prev": 1,
            "pop_next": 1,
            "push_prev": 1,
            "push_next": 1,
            "index": INDEX_BITS,
        }
    )


def vector_layout(config: Config) -> data.StructLayout:
    """Return one micro-op ready to issue: its indices, wide enough to show that they overflow."""
    return data.StructLayout(
        {
            "dst": config.dst_index_bits + _OFFSET_BITS,
            "src": config.src_index_bits + _OFFSET_BITS,
            "wgt": config.wgt_index_bits + _OFFSET_BITS,
            "first": 1,
            "last": 1,
            "uop_overflow": 1,
            "operation": operation_layout(),
        }
    )


class Sequencer(wiring.Component):
    """Walks the loops and adds their offsets to the micro-ops, one a cycle.

    Four registers (`sequencer_cycles`): address, block RAM, its output register, index addition.
    A register moves on whenever the next is free, so that a stalled issue stage finds the
    following micro-ops right behind.

    Members
    -------
    instruction, index, valid, take
        The head of compute's queue, where it is a GEMM, ALU or FINISH that may enter.
    uop_address, uop_read, uop
        The micro-op buffer's read port; data comes the cycle after.
    vector, vector_valid, vector_take
        To the issue stage.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "index": In(INDEX_BITS),
                "valid": In(1),
                "take": Out(1),
                "uop_address": Out(config.uop_index_bits),
                "uop_read": Out(1),
                "uop": In(32),
                "vector": Out(vector_layout(config)),
                "vector_valid": Out(1),
                "vector_take": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the loops and the four registers."""
        m = Module()
        config = self._config
        gemm = instruction_layout(Opcode.GEMM, config)(self.instruction)
        alu = instruction_layout(Opcode.ALU, config)(self.instruction)
        step = data.StructLayout(
            {
                "uop": config.uop_index_bits,
                "dst": config.dst_index_bits + _OFFSET_BITS,
                "src": config.src_index_bits + _OFFSET_BITS,
                "wgt": config.wgt_index_bits + _OFFSET_BITS,
                "first": 1,
                "last": 1,
                "uop_overflow": 1,
                "operation": operation_layout(),
            }
        )
        now = Signal(step)
        enter = Signal()
        self._loops(m, now, enter)
        m.d.comb += [
            now.operation.gemm.eq(gemm.opcode == Opcode.GEMM),
            now.operation.alu.eq(gemm.opcode == Opcode.ALU),
            now.operation.finish.eq(gemm.opcode == Opcode.FINISH),
            now.operation.reset.eq(gemm.reset),
            now.operation.overwrite.eq(gemm.overwrite),
            now.operation.alu_opcode.eq(alu.alu_opcode),
            now.operation.use_imm.eq(alu.use_imm),
            now.operation.imm.eq(alu.imm),
            now.operation.index.eq(self.index),
            *(
                now.operation[flag].eq(gemm[flag])
                for flag in ("pop_prev", "pop_next", "push_prev", "push_next")
            ),
        ]

        address, fetched, read = Signal(step), Signal(step), Signal(step)
        word = Signal(32)
        valids = [Signal(name=f"valid_{name}") for name in ("address", "fetched", "read")]
        moves = [Signal(name=f"move_{name}") for name in ("address", "fetched", "read", "vector")]
        m.d.comb += [
            moves[3].eq(~self.vector_valid | self.vector_take),
            moves[2].eq(~valids[2] | moves[3]),
            moves[1].eq(~valids[1] | moves[2]),
            moves[0].eq(~valids[0] | moves[1]),
            enter.eq(self.valid & moves[0]),
            self.uop_address.eq(address.uop),
            self.uop_read.eq(moves[1]),
        ]
        with m.If(moves[0]):
            m.d.sync += [valids[0].eq(self.valid), address.eq(now)]
        with m.If(moves[1]):
            m.d.sync += [valids[1].eq(valids[0]), fetched.eq(address)]
        with m.If(moves[2]):
            m.d.sync += [valids[2].eq(valids[1]), read.eq(fetched), word.eq(self.uop)]
        uop = micro_op_layout(config)(word)
        vector = self.vector
        with m.If(moves[3]):
            m.d.sync += [
                self.vector_valid.eq(valids[2]),
                vector.dst.eq(uop.dst + read.dst),
                vector.src.eq(uop.src + read.src),
                vector.wgt.eq(uop.wgt + read.wgt),
                vector.first.eq(read.first),
                vector.last.eq(read.last),
                vector.uop_overflow.eq(read.uop_overflow),
                vector.operation.eq(read.operation),
            ]
        return m

    def _loops(self, m: Module, now: data.View, enter: Signal) -> None:
        """Step the two loops and the micro-ops inside them."""
        config = self._config
        gemm = instruction_layout(Opcode.GEMM, config)(self.instruction)
        running = Signal()
        uop = Signal(config.uop_index_bits + 1)
        inner, outer = Signal(14), Signal(14)
        kinds = ("dst", "src", "wgt")
        rows = {kind: Signal.like(now[kind], name=f"{kind}_row") for kind in kinds}
        places = {kind: Signal.like(now[kind], name=f"{kind}_place") for kind in kinds}
        present = Signal.like(uop)
        last_uop, last_inner, last_outer, empty = (Signal() for _ in range(4))
        is_alu = gemm.opcode == Opcode.ALU
        factors_in = {
            "dst": gemm.dst_factor_in,
            "src": gemm.src_factor_in,
            "wgt": Mux(is_alu, 0, gemm.wgt_factor_in),
        }
        factors_out = {
            "dst": gemm.dst_factor_out,
            "src": gemm.src_factor_out,
            "wgt": Mux(is_alu, 0, gemm.wgt_factor_out),
        }
        m.d.comb += [
            present.eq(Mux(running, uop, gemm.uop_begin)),
            last_uop.eq(present + 1 == gemm.uop_end),
            last_inner.eq(Mux(running, inner, 0) + 1 == gemm.iter_in),
            last_outer.eq(Mux(running, outer, 0) + 1 == gemm.iter_out),
            empty.eq(
                (gemm.opcode == Opcode.FINISH)
                | (gemm.iter_in == 0)
                | (gemm.iter_out == 0)
                | (gemm.uop_begin >= gemm.uop_end)
            ),
            now.operation.empty.eq(empty),
            now.uop.eq(present),
            now.uop_overflow.eq(~empty & (present >= config.uop_depth)),
            now.first.eq(~running),
            now.last.eq(empty | (last_uop & last_inner & last_outer)),
            self.take.eq(enter & now.last),
        ]
        for kind in kinds:
            m.d.comb += now[kind].eq(Mux(running, places[kind], 0))
        with m.If(enter):
            m.d.sync += running.eq(~now.last)
            with m.If(~last_uop):
                m.d.sync += uop.eq(present + 1)
                for kind in kinds:
                    m.d.sync += places[kind].eq(now[kind])
                with m.If(~running):
                    m.d.sync += [inner.eq(0), outer.eq(0)]
                    for kind in kinds:
                        m.d.sync += rows[kind].eq(0)
            with m.Elif(~last_inner):
                m.d.sync += [uop.eq(gemm.uop_begin), inner.eq(Mux(running, inner, 0) + 1)]
                for kind in kinds:
                    m.d.sync += places[kind].eq(now[kind] + factors_in[kind])
                with m.If(~running):
                    m.d.sync += outer.eq(0)
                    for kind in kinds:
                        m.d.sync += rows[kind].eq(0)
            with m.Else():
                m.d.sync += [
                    uop.eq(gemm.uop_begin),
                    inner.eq(0),
                    outer.eq(Mux(running, outer, 0) + 1),
                ]
                for kind in kinds:
                    row = Mux(running, rows[kind], 0) + factors_out[kind]
                    m.d.sync += [rows[kind].eq(row), places[kind].eq(row)]
