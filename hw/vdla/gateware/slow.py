"""The slow operations of a lane: requantization, multiplication, shifts."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.isa import RQ_PACK
from vdla.timing import TIMING

__all__ = ["SlowLane", "SlowOp"]

_ROUND_STAGE = 6
"""Register that holds the rounded product; the shift amounts travel along to it."""


class SlowOp:
    """What the slow pipeline does with its operands."""

    RQ = 0
    MUL = 1
    SHR = 2


class SlowLane(wiring.Component):
    """One lane, `slow_cycles` registers from operands to result.

    RQ adds the bias (1), multiplies (4), rounds (1), shifts (2), adds the zero point and clips
    (1). MUL keeps the low 32 bits of the product. SHR to the left multiplies by a power of two;
    to the right it multiplies by one and shifts where RQ does.

    Members
    -------
    operation
        `SlowOp`.
    enable
        Bit k: what register k of the pipeline takes is wanted. The others stay as they are.
    value
        acc[dst].
    operand
        MUL and SHR: the second operand.
    bias, multiplier, packed
        RQ's parameters.
    low, high
        RQ's clip range; nothing is clipped where ``low > high``.
    result
        `slow_cycles` later.
    """

    def __init__(self) -> None:
        operands = ("value", "operand", "bias", "multiplier")
        super().__init__(
            {
                "operation": In(2),
                "enable": In(TIMING.slow_cycles),
                **{name: In(signed(32)) for name in operands},
                "packed": In(32),
                "low": In(signed(8)),
                "high": In(signed(8)),
                "result": Out(signed(32)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the pipeline."""
        m = Module()
        pack = data.FlexibleLayout(
            32,
            {b.name: data.Field(signed(b.width) if b.signed else b.width, b.lsb) for b in RQ_PACK},
        )(self.packed)
        is_rq = self.operation == SlowOp.RQ

        # 1: bias. Shift amounts past the width act as the mathematical shift.
        x, y = Signal(signed(32), reset_less=True), Signal(signed(32), reset_less=True)
        amount = self.operand
        left = amount < 0
        power = Signal(32)
        by_left = Signal(6)
        m.d.comb += by_left.eq(Mux(amount < -31, 32, (-amount)[:6]))
        with m.If(self.enable[0]), m.Switch(by_left):
            for bit in range(32):
                with m.Case(bit):
                    m.d.comb += power.eq(1 << bit)
        control = data.StructLayout(
            {
                "rq": 1,
                "single": 1,
                "shift": 5,
                "zero": signed(8),
                "low": signed(8),
                "high": signed(8),
            }
        )
        first = Signal(control)
        with m.If(self.enable[0]):
            with m.If(is_rq):
                m.d.comb += [first.shift.eq(pack.shift), first.single.eq(pack.single)]
                m.d.sync += [x.eq(self.value + self.bias), y.eq(self.multiplier)]
            with m.Elif(self.operation == SlowOp.MUL):
                m.d.sync += [x.eq(self.value), y.eq(self.operand)]
            with m.Else():
                m.d.comb += first.shift.eq(Mux(left, 0, Mux(amount > 31, 31, amount[:5])))
                m.d.sync += [x.eq(self.value), y.eq(Mux(left, power, 1))]
        m.d.comb += [
            first.rq.eq(is_rq),
            first.zero.eq(pack.zero_point),
            first.low.eq(self.low),
            first.high.eq(self.high),
        ]
        controls = [first]
        for k in range(1, TIMING.slow_cycles):
            following = Signal(control, name=f"control_{k}", reset_less=True)
            with m.If(self.enable[k - 1]):
                m.d.sync += following.eq(controls[-1])
            controls.append(following)

        # 2..5: the product; two registers behind the multipliers let them be pipelined.
        products = [Signal(signed(64), name=f"product_{k}", reset_less=True) for k in range(4)]
        for k, (older, newer) in enumerate(zip(products, [x * y, *products], strict=False)):
            with m.If(self.enable[1 + k]):
                m.d.sync += older.eq(newer)
        product, at = products[-1], controls[_ROUND_STAGE - 1]

        # 6: round to 31 fraction bits; the single rounding adds half of the final step instead.
        half = Signal(64)
        rounded = Signal(signed(66))
        shifted = Signal(signed(34))
        with m.If(self.enable[_ROUND_STAGE - 1]), m.Switch(at.single):
            with m.Case(1), m.Switch(at.shift):
                for bit in range(32):
                    with m.Case(bit):
                        m.d.comb += half.eq(1 << (30 + bit))
            with m.Default():
                m.d.comb += half.eq(1 << 30)
        m.d.comb += [rounded.eq(product + half.as_signed()), shifted.eq(rounded >> 31)]
        h = Signal(signed(34), reset_less=True)
        highest = Const((1 << 31) - 1, signed(34))
        with m.If(self.enable[_ROUND_STAGE - 1]):
            with m.If(at.rq):
                m.d.sync += h.eq(Mux(~at.single & (shifted > highest), highest, shifted))
            with m.Else():
                m.d.sync += h.eq(product[:32].as_signed())

        # 7, 8: shift, half away from zero where rounding twice.
        quotient, up = Signal(signed(34), reset_less=True), Signal(reset_less=True)
        at = controls[_ROUND_STAGE]
        halved, rest = Signal(), Signal()
        with m.If(self.enable[_ROUND_STAGE]), m.Switch(at.shift):
            with m.Case(0):
                m.d.comb += [halved.eq(0), rest.eq(0)]
            for bit in range(1, 32):
                with m.Case(bit):
                    m.d.comb += halved.eq(h[bit - 1])
                    if bit > 1:
                        m.d.comb += rest.eq(h[: bit - 1].any())
        with m.If(self.enable[_ROUND_STAGE]):
            m.d.sync += [
                quotient.eq(h >> at.shift),
                up.eq(at.rq & ~at.single & halved & ((h >= 0) | rest)),
            ]
        total = Signal(signed(34), reset_less=True)
        with m.If(self.enable[_ROUND_STAGE + 1]):
            m.d.sync += total.eq(quotient + up)

        # 9: zero point and clip.
        at = controls[_ROUND_STAGE + 2]
        placed = Signal(signed(36))
        m.d.comb += placed.eq(total + at.zero)
        result = Signal(signed(32), reset_less=True)
        m.d.comb += self.result.eq(result)
        with m.If(self.enable[_ROUND_STAGE + 2]):
            with m.If(~at.rq):
                m.d.sync += result.eq(total)
            with m.Elif(at.low > at.high):
                m.d.sync += result.eq(placed)
            with m.Elif(placed < at.low):
                m.d.sync += result.eq(at.low)
            with m.Elif(placed > at.high):
                m.d.sync += result.eq(at.high)
            with m.Else():
                m.d.sync += result.eq(placed)
        return m
