"""The core in Amaranth's simulator beside the reference memory, small enough to run mutants."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from vdla.gateware.core import Core
from vdla.isa import MemoryType
from vdla.program import Program
from vdla.registers import BASES

__all__ = ["Observed", "run"]

_PAGE = 4096


@dataclass
class Observed:
    """What a run did.

    Attributes
    ----------
    memory : ndarray of uint8
    cycles : int or None
        From the start to the done bit; None where it never came.
    complaints : list of str
        What the memory saw that no master may do.
    error : int
        Its cause; 0 for none.
    """

    memory: np.ndarray
    cycles: int | None = None
    error: int = 0
    complaints: list[str] = field(default_factory=list)


def run(
    program: Program, dram: np.ndarray, *, waits: float = 0.0, seed: int = 1, limit: int = 3000
) -> Observed:
    """Run a program; without `waits` the memory is the reference memory, to the cycle."""
    config = program.config
    core, width = Core(config), config.axi_bytes
    code = -(-len(dram) // _PAGE) * _PAGE
    words = np.ascontiguousarray(program.instructions[: program.finish + 1]).view(np.uint8)
    memory = np.zeros(code + words.size + _PAGE, np.uint8)
    memory[: len(dram)] = dram
    memory[code : code + words.size] = words.reshape(-1)
    seen = Observed(memory)
    rng = Random(seed)

    async def bench(ctx: Any) -> None:
        control, read, write = core.control, core.read, core.write
        ctx.set(control.instruction_base, code)
        ctx.set(control.instruction_count, program.finish + 1)
        reads: deque[tuple[int, int, int]] = deque()  # ready in cycle, first, beats
        answers: deque[int] = deque()
        asked: deque[tuple[int, int]] = deque()
        beats: deque[tuple[int, int, int]] = deque()
        for name in ("request_ready", "ready"):
            ctx.set(getattr(write, name), 1)
        sent = 0
        await ctx.tick()
        for cycle in range(limit):
            ctx.set(control.start, cycle == 0)
            # R, then AR: a burst's last beat still counts as in flight.
            given = reads and reads[0][0] <= cycle and rng.random() >= waits
            busy = len(reads)
            ctx.set(read.valid, bool(given))
            if given:
                _, first, count = reads[0]
                place = first + sent * width
                data = memory[place : place + width].tobytes()
                ctx.set(read.data, int.from_bytes(data, "little"))
                ctx.set(read.last, sent == count - 1)
                sent += 1
                if sent == count:
                    reads.popleft()
                    sent = 0
            accepts = busy < config.axi_outstanding and rng.random() >= waits
            ctx.set(read.request_ready, accepts)
            takes = [rng.random() >= waits for _ in range(2)]
            ctx.set(write.request_ready, takes[0])
            ctx.set(write.ready, takes[1])
            answered = bool(answers) and answers[0] <= cycle
            ctx.set(write.response, answered)
            if answered:
                answers.popleft()
            if accepts and ctx.get(read.request_valid):
                first, count = ctx.get(read.request.address), ctx.get(read.request.last) + 1
                _judge(seen, first, count, width)
                reads.append((cycle + config.dram_latency_cycles, first, count))
            if takes[0] and ctx.get(write.request_valid):
                first, count = ctx.get(write.request.address), ctx.get(write.request.last) + 1
                _judge(seen, first, count, width)
                asked.append((first, count))
            if takes[1] and ctx.get(write.valid):
                strobe = ctx.get(write.strobe)
                beats.append((ctx.get(write.data), strobe, ctx.get(write.last)))
            while asked and len(beats) >= asked[0][1]:
                first, count = asked.popleft()
                for k in range(count):
                    data, strobe, last = beats.popleft()
                    if last != (k == count - 1):
                        seen.complaints.append("WLAST in the wrong beat")
                    for lane in range(width):
                        if strobe >> lane & 1:
                            memory[first + k * width + lane] = data >> 8 * lane & 0xFF
                answers.append(cycle + config.dram_latency_cycles)
            if ctx.get(control.error.valid):
                seen.error = int(ctx.get(control.error.cause).value)
                return
            if ctx.get(control.done):
                seen.cycles = cycle + 1
                break
            await ctx.tick()
        if beats:
            seen.complaints.append("beats that no burst announced")

    simulator = Simulator(core)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    seen.memory = memory[: len(dram)]
    return seen


def _judge(seen: Observed, first: int, beats: int, width: int) -> None:
    if first // _PAGE != (first + beats * width - 1) // _PAGE:
        seen.complaints.append("a burst crosses 4 KiB")
    if first % width:
        seen.complaints.append("a burst begins inside a beat")


assert set(BASES) == set(MemoryType), "bases of all types are 0 here"
