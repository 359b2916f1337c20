"""Compute's data path: from issue slots to results in ACC and OUT."""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config
from vdla.isa import AluOp
from vdla.timing import TIMING, compute_latency

from .issue import Role, slot_layout
from .matmul import MatrixProduct, product_cycles
from .slow import SlowLane, SlowOp

__all__ = ["DataPath"]

_FAST: dict[AluOp, Callable[[Value, Value], ValueLike]] = {
    AluOp.MIN: lambda a, b: Mux(a < b, a, b),
    AluOp.MAX: lambda a, b: Mux(a < b, b, a),
}
"""Fast operations of two signed lanes. ADD is what is left: it shares the adder of GEMM."""

LANE_BITS = 32
OUT_BITS = 8
_RING = 16
"""Entries of the buffer of results on their way: a power of two above every forward distance."""


class DataPath(wiring.Component):
    """One pipeline for all operations, so that they write in the order in which they issue.

    Stage 0 is the issue slot. Operands meet their accumulator at stage `_operands`; a fast result
    is ready one stage later, a slow one `slow_cycles` later; all are written at the last stage,
    `compute_latency`. Results that are ready but not yet readable from ACC are forwarded: the
    youngest straight from its register, the others from a small buffer in distributed RAM.

    Members
    -------
    slot, slot_valid
        From the issue stage.
    inp_address, wgt_address, operand_read, inp, wgt
        Read ports of INP and WGT; data comes the cycle after.
    acc_address, acc_read, acc
        ACC's read port; data comes the cycle after.
    write, address, data
        ACC's and OUT's write ports.
    out_data
        The same, saturated, for OUT.
    done
        An instruction's last result is written in the next cycle, in which it may retire.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lanes = config.batch * config.block_out
        super().__init__(
            {
                "slot": In(slot_layout(config)),
                "slot_valid": In(1),
                "inp_address": Out(range(config.inp_depth)),
                "wgt_address": Out(range(config.wgt_depth)),
                "operand_read": Out(1),
                "inp": In(config.inp_elem_bytes * 8),
                "wgt": In(config.wgt_elem_bytes * 8),
                "acc_address": Out(config.dst_index_bits),
                "acc_read": Out(1),
                "acc": In(config.acc_elem_bytes * 8),
                "write": Out(1),
                "address": Out(config.dst_index_bits),
                "data": Out(config.acc_elem_bytes * 8),
                "out_data": Out(config.out_elem_bytes * 8),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the pipeline."""
        m = Module()
        config = self._config
        # INP and WGT: block RAM, its output register, the broadcast register; then products.
        operands = TIMING.sram_cycles + TIMING.broadcast_cycles + product_cycles(config)
        latency = compute_latency(config)
        assert latency == operands + TIMING.slow_cycles + TIMING.acc_write_cycles

        stages = [Signal(slot_layout(config), name="stage_0")]
        valids = [Signal(name="valid_0")]
        m.d.comb += [stages[0].eq(self.slot), valids[0].eq(self.slot_valid)]
        for k in range(1, latency + 1):
            stage = Signal(slot_layout(config), name=f"stage_{k}", reset_less=True)
            valid = Signal(name=f"valid_{k}")
            m.d.sync += valid.eq(valids[-1])
            with m.If(valids[-1]):
                m.d.sync += stage.eq(stages[-1])
            stages.append(stage)
            valids.append(valid)

        sums = self._multiply(m, stages, valids)
        value = self._accumulator(m, stages, valids, operands)
        self._results(m, stages, valids, operands, value, sums)
        m.d.comb += self.done.eq(valids[latency - 1] & stages[latency - 1].last)
        return m

    def _multiply(self, m: Module, stages: list[data.View], valids: list[Signal]) -> Value:
        """Read INP and WGT at stage 0 and return the sums at the operand stage."""
        config = self._config
        m.submodules.product = product = MatrixProduct(config)
        m.d.comb += [
            self.inp_address.eq(self.slot.inp),
            self.wgt_address.eq(self.slot.wgt),
            self.operand_read.eq(self.slot_valid & self.slot.multiplies),
        ]
        multiplies = [valid & stage.multiplies for stage, valid in zip(stages, valids, strict=True)]
        inp, wgt = self.inp, self.wgt
        steps = ("output", "broadcast")
        for position, step in enumerate(steps, 1):
            inp_next, wgt_next = (
                Signal(len(self.inp), name=f"inp_{step}", reset_less=True),
                Signal(len(self.wgt), name=f"wgt_{step}", reset_less=True),
            )
            with m.If(multiplies[position]):
                m.d.sync += [inp_next.eq(inp), wgt_next.eq(wgt)]
            inp, wgt = inp_next, wgt_next
        m.d.comb += [
            product.inp.eq(inp),
            product.wgt.eq(wgt),
            product.enable.eq(Cat(multiplies[len(steps) + 1 :])),
        ]
        return product.sums

    def _accumulator(
        self, m: Module, stages: list[data.View], valids: list[Signal], operands: int
    ) -> Signal:
        """Return acc[read] at the operand stage, the youngest write to it included."""
        config = self._config
        width = config.acc_elem_bytes * 8
        ask = operands - 2
        reading = stages[ask]
        m.d.comb += [self.acc_address.eq(reading.read), self.acc_read.eq(valids[ask])]

        # Distance to the youngest earlier slot that writes the entry read; 0 for none.
        furthest = TIMING.slow_cycles + 3
        distance, behind = Signal(range(furthest + 1)), Signal(range(furthest + 1))
        for k in range(furthest, 0, -1):
            older = stages[ask + k]
            with m.If(valids[ask + k] & older.writes & (older.dst == reading.read)):
                m.d.comb += distance.eq(k)
        slow_behind, slow = Signal(), Signal()
        with m.Switch(distance):
            for k in range(1, furthest + 1):
                with m.Case(k):
                    m.d.comb += slow.eq(stages[ask + k].slow)
        m.d.sync += [behind.eq(distance), slow_behind.eq(slow)]

        self._fast = Signal(width, name="fast", reset_less=True)
        self._slow = Signal(width, name="slow_result")
        self._last = Signal(width, name="last_written", reset_less=True)
        m.submodules.ring = ring = memory.Memory(shape=unsigned(width), depth=_RING, init=[])
        place = Signal(range(_RING))
        m.d.sync += place.eq(place + 1)
        store, forward, retire = (
            ring.write_port(),
            ring.read_port(domain="comb"),
            ring.read_port(domain="comb"),
        )
        with m.If(self.write):
            m.d.sync += self._last.eq(self.data)
        m.d.comb += [
            store.addr.eq(place),
            store.data.eq(self._fast),
            store.en.eq(valids[operands + 1] & stages[operands + 1].writes),
            # A slot k ahead passed the fast stage k - 2 cycles ago.
            forward.addr.eq(place - (behind - 2)),
            retire.addr.eq(place - (TIMING.slow_cycles - 1)),
        ]
        self._retired = retire.data

        early = Signal(width)
        late = Signal(2)
        slow_at = TIMING.slow_cycles
        with m.If(behind == 0):
            m.d.comb += early.eq(self.acc)
        with m.Elif(slow_behind), m.Switch(behind):
            with m.Case(slow_at + 1):
                m.d.comb += early.eq(self._slow)
            with m.Case(slow_at + 2):
                m.d.comb += early.eq(self.data)
            with m.Default():
                m.d.comb += early.eq(self._last)
        with m.Elif(behind == 2):
            m.d.comb += early.eq(self._fast)
        with m.Else():
            m.d.comb += early.eq(forward.data)
        operand = Signal(width, reset_less=True)
        with m.If(valids[operands - 1]):
            m.d.sync += operand.eq(early)
        m.d.sync += late.eq(Mux(slow_behind, Mux(behind == slow_at, 2, 0), Mux(behind == 1, 1, 0)))
        value = Signal(width)
        with m.Switch(late):
            with m.Case(2):
                m.d.comb += value.eq(self._slow)
            with m.Case(1):
                m.d.comb += value.eq(self._fast)
            with m.Default():
                m.d.comb += value.eq(operand)
        return value

    def _results(
        self,
        m: Module,
        stages: list[data.View],
        valids: list[Signal],
        operands: int,
        value: Signal,
        sums: Value,
    ) -> None:
        """Compute results at the operand stage and write them at the last one."""
        here, valid = stages[operands], valids[operands]
        holds = {}
        for role in (Role.SOURCE, Role.BIAS, Role.MULTIPLIER, Role.PACKED):
            holds[role] = Signal(len(value), name=f"held_{role}", reset_less=True)
            with m.If(valid & (here.role == role)):
                m.d.sync += holds[role].eq(value)

        immediate = Signal(signed(LANE_BITS))
        m.d.comb += immediate.eq(here.imm.as_signed())
        slow_operation = Mux(
            here.alu_opcode == AluOp.RQ,
            SlowOp.RQ,
            Mux(here.alu_opcode == AluOp.MUL, SlowOp.MUL, SlowOp.SHR),
        )
        wanted = valid & here.writes
        enable = Cat(
            valids[operands + k] & stages[operands + k].slow for k in range(TIMING.slow_cycles)
        )
        fast, slow = [], []
        for lane in range(self._lanes):
            a, product = _lane(value, lane), _lane(sums, lane)
            b = Mux(here.use_imm, immediate, _lane(holds[Role.SOURCE], lane))
            result = Signal(signed(LANE_BITS), name=f"fast_{lane}")
            addend = Mux(here.gemm, product, b)
            with m.If(here.gemm & here.zero):
                m.d.comb += result.eq(0)
            with m.Elif(here.gemm & here.overwrite):
                m.d.comb += result.eq(product)
            for operation, function in _FAST.items():
                with m.Elif(~here.gemm & (here.alu_opcode == operation)):
                    m.d.comb += result.eq(function(a, b))
            with m.Else():
                m.d.comb += result.eq(a + addend)
            fast.append(result)

            unit = SlowLane()
            m.submodules[f"lane_{lane}"] = unit
            m.d.comb += [
                unit.operation.eq(slow_operation),
                unit.enable.eq(enable),
                unit.value.eq(a),
                unit.operand.eq(b),
                unit.bias.eq(_lane(holds[Role.BIAS], lane)),
                unit.multiplier.eq(_lane(holds[Role.MULTIPLIER], lane)),
                unit.packed.eq(_lane(holds[Role.PACKED], lane)),
                unit.low.eq(here.imm[:8]),
                unit.high.eq(here.imm[8:]),
            ]
            slow.append(unit.result)
        with m.If(wanted):
            m.d.sync += self._fast.eq(Cat(*fast))
        m.d.comb += self._slow.eq(Cat(*slow))

        ready = stages[operands + TIMING.slow_cycles]
        writes = valids[operands + TIMING.slow_cycles] & ready.writes
        written = Signal(len(value))
        with m.If(ready.slow):
            m.d.comb += written.eq(self._slow)
        with m.Else():
            m.d.comb += written.eq(self._retired)
        entry = Signal(len(self.data), reset_less=True)
        out_entry = Signal(len(self.out_data), reset_less=True)
        m.d.comb += [self.data.eq(entry), self.out_data.eq(out_entry)]
        m.d.sync += self.write.eq(writes)
        with m.If(writes):
            m.d.sync += [
                self.address.eq(ready.dst),
                entry.eq(written),
                out_entry.eq(Cat(_saturated(_lane(written, k)) for k in range(self._lanes))),
            ]


def _lane(entry: Value, lane: int) -> Value:
    return entry[LANE_BITS * lane : LANE_BITS * (lane + 1)].as_signed()


def _saturated(value: Value) -> Value:
    high, low = Const(127, signed(OUT_BITS)), Const(-128, signed(OUT_BITS))
    return Mux(value > 127, high, Mux(value < -128, low, value[:OUT_BITS]))[:OUT_BITS]
