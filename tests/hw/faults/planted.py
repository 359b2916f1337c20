"""Faults, each a method of the gateware replaced for one test.

A fault appends statements to an elaborated module: in Amaranth the last assignment wins. The
gateware itself knows nothing of faults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Signal

from tests.hw.formal.harness import named
from vdla.gateware import datapath, load
from vdla.gateware.generator import BurstGenerator
from vdla.gateware.issue import Issue
from vdla.gateware.layouts import instruction_layout
from vdla.gateware.load import LoadUnit
from vdla.gateware.queues import TokenQueue
from vdla.gateware.reading import ReadArbiter
from vdla.gateware.sequencer import Sequencer
from vdla.gateware.slow import SlowLane
from vdla.gateware.store import StoreUnit
from vdla.isa import AluOp, Opcode
from vdla.timing import PAGE_BYTES, TIMING

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """One fault: the program that shows it, and how it is planted."""

    name: str
    program: str
    plant: Callable[[pytest.MonkeyPatch], None]
    waits: float = 0.0


def _after(component: Any, change: Callable[[Any, Module], None]) -> Callable[..., None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        original = component.elaborate

        def elaborate(self: Any, platform: object) -> Module:
            m: Module = original(self, platform)
            change(self, m)
            return m

        patch.setattr(component, "elaborate", elaborate)

    return plant


def _dropped_forward(self: Any, m: Module) -> None:
    m.d.sync += named(m, "late").eq(0)


def _pad_off_by_one(self: Any, m: Module) -> None:
    fields = instruction_layout(Opcode.LOAD, self._config)(self.instruction)
    info = m.submodules.infos.write_data
    m.d.comb += info.x_begin.eq(fields.x_pad_0 + 1)


def _lost_token(self: Any, m: Module) -> None:
    level = named(m, "level")
    with m.If(self.push & (level == 0)):
        m.d.sync += level.eq(0)


def _repeated_beat(self: Any, m: Module) -> None:
    stalled, channel = Signal(), self.channel
    m.d.sync += stalled.eq(channel.valid & ~channel.ready)
    with m.If(stalled & channel.valid & channel.ready):
        m.d.sync += [
            channel.valid.eq(1),
            channel.data.eq(channel.data),
            channel.strobe.eq(channel.strobe),
            channel.last.eq(channel.last),
        ]


def _whole_strobe(self: Any, m: Module) -> None:
    m.d.sync += self.channel.strobe.eq(-1)


def _rounds_down(self: Any, m: Module) -> None:
    m.d.sync += named(m, "up").eq(0)


def _interlock_short(self: Any, m: Module) -> None:
    oldest = named(m, f"slow_{TIMING.slow_cycles - 1}")
    m.d.sync += oldest[0].eq(0)


def _round_robin_stuck(self: Any, m: Module) -> None:
    m.d.sync += named(m, "granted").eq(2)


def _crosses_pages(self: Any, m: Module) -> None:
    m.d.comb += named(m, "to_page").eq(PAGE_BYTES // self._config.axi_bytes)


def _stale_parameters(self: Any, m: Module) -> None:
    operation = self.vector.operation
    is_rq = operation.alu & (operation.alu_opcode == AluOp.RQ)
    m.d.comb += named(m, "wants_params").eq(is_rq & ~operation.empty & self.vector.first)


def _skips_last(patch: pytest.MonkeyPatch) -> None:
    original = Sequencer._loops

    def loops(self: Any, m: Module, now: Any, enter: Signal) -> None:
        original(self, m, now, enter)
        gemm = instruction_layout(Opcode.GEMM, self._config)(self.instruction)
        done, total = Signal(32), Signal(32)
        m.d.comb += total.eq(gemm.iter_out * gemm.iter_in * (gemm.uop_end - gemm.uop_begin))
        with m.If(enter):
            m.d.sync += done.eq(done + 1)
            with m.If(now.last):
                m.d.sync += done.eq(0)
        with m.If((gemm.iter_out > 1) & (done + 2 == total)):
            m.d.comb += now.last.eq(1)

    patch.setattr(Sequencer, "_loops", loops)


def _wraps_instead_of_saturating(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(datapath, "_saturated", lambda value: value[:8])


def _zero_extends(patch: pytest.MonkeyPatch) -> None:
    original = load._widened

    def widened(kind: Any, whole: Any) -> Any:
        entry = original(kind, whole)
        if kind.memory_bits == kind.sram_bits:
            return entry
        step, keep = kind.sram_bits, kind.memory_bits
        return Cat(
            *(
                Cat(entry[step * k : step * k + keep], Signal(step - keep))
                for k in range(kind.scalars)
            )
        )

    patch.setattr(load, "_widened", widened)


FAULTS = (
    Fault("dropped forward", "product", _after(datapath.DataPath, _dropped_forward)),
    Fault("pad off by one", "movement", _after(LoadUnit, _pad_off_by_one)),
    Fault("lost token", "product", _after(TokenQueue, _lost_token)),
    Fault("repeated beat under stall", "movement", _after(StoreUnit, _repeated_beat), waits=0.4),
    Fault("wrong strobe", "movement", _after(StoreUnit, _whole_strobe)),
    Fault("RQ rounds down", "arithmetic", _after(SlowLane, _rounds_down)),
    Fault("OUT wraps", "arithmetic", _wraps_instead_of_saturating),
    Fault("interlock one cycle short", "arithmetic", _after(Issue, _interlock_short)),
    Fault("round-robin stuck", "movement", _after(ReadArbiter, _round_robin_stuck)),
    Fault("burst crosses 4 KiB", "movement", _after(BurstGenerator, _crosses_pages)),
    Fault("stale parameters", "arithmetic", _after(Issue, _stale_parameters)),
    Fault("sequencer skips the last", "product", _skips_last),
    Fault("ACC_8BIT zero-extends", "movement", _zero_extends),
)
