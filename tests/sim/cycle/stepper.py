"""docs/timing.md again, cycle by cycle and register by register: slow, and unlike the engine.

Every decision of a cycle reads the state at its start; changes are queued and committed at its
end. Data moves beat by beat, scratchpads fill element by element and the sequencer is an elastic
pipeline, where the engine has closed forms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.sim.cycle.shapes import Slot, bursts, cells, cells_of, rows, slots_of, writes
from vdla.config import Config
from vdla.isa import (
    Finish,
    Load,
    MemoryType,
    ModuleName,
    Store,
    decode,
    element_bytes,
    module_of,
    pops,
    pushes,
)
from vdla.program import Program
from vdla.timing import TIMING, compute_latency, fetch_bursts

__all__ = ["step"]

MODULES = (ModuleName.LOAD, ModuleName.COMPUTE, ModuleName.STORE)


class _Pace:
    """What a channel of memory may move, counted in 1024ths of a byte from cycle to cycle."""

    def __init__(self, config: Config) -> None:
        self.cost = 1024 * config.axi_bytes
        self.earned = round(1024 * config.dram_bytes_per_cycle) or self.cost
        self.credit = self.cost

    def earn(self) -> None:
        self.credit += self.earned

    def spend(self) -> bool:
        if self.credit < self.cost:
            return False
        self.credit = min(self.credit - self.cost, self.earned - 1)
        return True


@dataclass
class _Port:
    """A generator and what it feeds."""

    slots: int
    bursts: deque[tuple[int, Any, bool]] = field(default_factory=deque)  # index, beats, last
    not_before: int = 0
    used: int = 0
    request: tuple[int, int] | None = None  # beats, visible from
    owed: deque[int] = field(default_factory=deque)  # beats left of each accepted burst
    arrived: deque[int] = field(default_factory=deque)  # cycle of each beat not yet drained
    work: deque[tuple[int, deque[tuple[str, bool]]]] = field(default_factory=deque)


class _Machine:
    def __init__(self, program: Program, dram: np.ndarray) -> None:
        self.config = program.config
        self.instructions = decode(program.instructions[: program.finish + 1], self.config)
        self.dram = dram
        self.t = 0
        self.commits: list[Callable[[], object]] = []
        n = len(self.instructions)
        self.start = [-1] * n
        self.finish = [-1] * n
        self.ready = [False] * n
        self.queue: dict[ModuleName, deque[tuple[int, int]]] = {m: deque() for m in MODULES}
        self.flying: dict[ModuleName, deque[int]] = {m: deque() for m in MODULES}
        self.level: dict[str, int] = {}
        read = self.config.axi_outstanding
        self.ports = [_Port(fetch_bursts(self.config)), _Port(read), _Port(read), _Port(read)]
        for beats in bursts([(0, 16 * n)], self.config.axi_bytes, self.config.axi_burst_beats):
            self.ports[0].bursts.append((-1, beats, False))
        self.ports[0].not_before = TIMING.fetch_start_cycles
        self.granted = 2
        self.address: tuple[int, int, int] | None = None  # reader, beats, on the bus from
        self.memory: deque[tuple[int, int, list[int]]] = deque()  # reader, first beat, beats left
        self.fetched = 0
        self.fetch_beats = 0
        self.reading, self.writing = _Pace(self.config), _Pace(self.config)
        self.sending: deque[tuple[int, list[bool], int, bool]] = deque()  # index, cells, from, last
        self.offered: tuple[int, bool, bool] | None = None  # index, last of burst, of instruction
        self.responses: deque[tuple[int, int, bool]] = deque()
        self.sent = 0
        self.pipe: deque[tuple[int, int, Slot]] = deque()  # entered, instruction, slot
        self.ahead: deque[tuple[int, Slot]] = deque()
        self.next_ahead = 0
        self.stage: tuple[int, Slot] | None = None
        self.at_stage = -1  # the cycle in which a first slot was last seen waiting to start
        self.emptied = [-1] * 4  # the cycle in which a generator emitted its last burst
        self.slow: dict[int, int] = {}
        self.leaving: deque[tuple[int, int]] = deque()  # ready from, instruction
        self.uops = np.full(self.config.uop_depth, 0xA5A5A5A5, np.uint32)
        self.compute = [
            k for k, i in enumerate(self.instructions) if module_of(i) is ModuleName.COMPUTE
        ]

    def later(self, change: Callable[[], object]) -> None:
        self.commits.append(change)

    def run(self, limit: int) -> None:
        while any(f < 0 for f in self.finish):
            assert self.t < limit, "the stepper does not end"
            self.reading.earn()
            self.writing.earn()
            self.respond()
            for module in MODULES:
                self.retire(module)
            self.beat()
            self.arbitrate()
            for r in (1, 2):
                self.write(r)
            self.send()
            for r in range(4):
                self.emit(r)
            self.dispatch()
            self.issue()
            self.sequence()
            for module in MODULES:
                self.begin(module)
            for change in self.commits:
                change()
            self.commits.clear()
            self.t += 1

    # memory

    def beat(self) -> None:
        """Memory returns a beat of the oldest burst."""
        if not self.memory or self.t < self.memory[0][1]:
            return
        if not self.reading.spend():
            return
        reader, _, left = self.memory[0]
        t = self.t
        self.later(lambda: self.ports[reader].arrived.append(t))
        left[0] -= 1
        if left[0] == 0:
            self.later(lambda: self.memory.popleft())

    def arbitrate(self) -> None:
        free = self.address is None
        if self.address is not None and self.t >= self.address[2]:
            reader, beats, _ = self.address
            if len(self.memory) < self.config.axi_outstanding:
                entry = (reader, self.t + self.config.dram_latency_cycles, [beats])
                self.later(lambda: self.memory.append(entry))
                self.address, free = None, True
        if not free:
            return
        for k in (1, 2, 3):
            r = (self.granted + k) % 3
            request = self.ports[r].request
            if request and request[1] <= self.t:
                self.granted = r
                self.ports[r].request = None
                self.address = (r, request[0], self.t + TIMING.grant_cycles)
                return

    # generators and write stages

    def emit(self, r: int) -> None:
        port = self.ports[r]
        if not port.bursts or self.t < port.not_before or port.used == port.slots:
            return
        if r < 3 and port.request is not None:
            return
        index, beats, last = port.bursts.popleft()
        if not port.bursts:
            self.emptied[r] = self.t
        self.later(lambda: setattr(port, "used", port.used + 1))
        if r < 3:
            port.request = (beats, self.t + TIMING.request_cycles)
            port.owed.append(beats)
        else:
            self.sending.append((index, beats, self.t + TIMING.store_data_cycles, last))  # cells

    def drained(self, port: _Port) -> None:
        port.arrived.popleft()
        port.owed[0] -= 1
        if port.owed[0] == 0:
            port.owed.popleft()
            self.later(lambda: setattr(port, "used", port.used - 1))

    def write(self, r: int) -> None:
        port = self.ports[r]
        if not port.work:
            return
        index, cells = port.work[0]
        what, leaves = cells[0]
        if what == "data":
            if not port.arrived or port.arrived[0] + TIMING.drain_cycles > self.t:
                return
            if leaves:
                self.drained(port)
        cells.popleft()
        if not cells:
            port.work.popleft()
            self.later(lambda: self.ready.__setitem__(index, True))

    def send(self) -> None:
        """Store puts a beat in its register, or a narrow element to others; memory takes it."""
        if self.sending:
            index, cells, since, last = self.sending[0]
            if self.t >= since and not (cells[self.sent] and self.offered):
                self.sent += 1
                ends = self.sent == len(cells)
                if cells[self.sent - 1]:
                    self.offered = index, ends, last
                if ends:
                    self.sent = 0
                    self.sending.popleft()
        if self.offered and self.writing.spend():
            index, ends, last = self.offered
            self.offered = None
            if ends:
                self.responses.append((self.t + self.config.dram_latency_cycles, index, last))

    def respond(self) -> None:
        if self.responses and self.responses[0][0] == self.t:
            _, index, last = self.responses.popleft()
            port = self.ports[3]
            self.later(lambda: setattr(port, "used", port.used - 1))
            if last:
                assert TIMING.response_cycles == 1
                self.later(lambda: self.ready.__setitem__(index, True))

    # fetch

    def dispatch(self) -> None:
        if self.fetched == len(self.instructions):
            return
        port, beat = self.ports[0], self.config.axi_bytes
        need = -(-16 * (self.fetched + 1) // beat) - self.fetch_beats
        if len(port.arrived) < need:
            return
        if need and port.arrived[need - 1] + TIMING.drain_cycles > self.t:
            return
        module = module_of(self.instructions[self.fetched])
        if len(self.queue[module]) == self.config.command_queue_depth:
            return
        entry = (self.fetched, self.t + TIMING.queue_cycles)
        self.later(lambda: self.queue[module].append(entry))
        self.fetched += 1
        while self.fetch_beats < 16 * self.fetched // beat:
            self.drained(port)
            self.fetch_beats += 1

    # starting and retiring

    def begin(self, module: ModuleName) -> None:
        queue, flying = self.queue[module], self.flying[module]
        if not queue or queue[0][1] > self.t or len(flying) == TIMING.inflight:
            return
        index = queue[0][0]
        i = self.instructions[index]
        if any(self.level.get(q.value, 0) == 0 for q in pops(i)):
            return
        if isinstance(i, (Load, Store)):
            r = MODULES.index(module) + 1
            if self.ports[r].bursts or self.emptied[r] == self.t:
                return
            if any(not isinstance(self.instructions[k], (Load, Store)) for k in flying):
                return
            self.transfer(index, i, r)
        else:
            if self.stage is None or self.stage[0] != index or self.at_stage != self.t:
                return
            if isinstance(i, Finish) and flying:
                return
            self.use()
        self.start[index] = self.t
        for q in pops(i):
            self.later(lambda q=q: self.add(q.value, -1))
        self.later(lambda: (queue.popleft(), flying.append(index)))

    def add(self, queue: str, change: int) -> None:
        self.level[queue] = self.level.get(queue, 0) + change

    def transfer(self, index: int, i: Load | Store, r: int) -> None:
        kind = i.memory_type
        size, beat = element_bytes(kind, self.config), self.config.axi_bytes
        spans = rows(i, size)
        lengths = bursts(spans, beat, self.config.axi_burst_beats)
        port, t = self.ports[r], self.t
        if isinstance(i, Store):
            if not lengths:
                self.later(lambda: self.ready.__setitem__(index, True))
            spelled = [cell for row in cells(spans, size, beat) for cell in row]
            sent = cells_of(lengths, spelled)
            entries = [(index, n, k + 1 == len(sent)) for k, n in enumerate(sent)]
        else:
            entries = [(index, n, k + 1 == len(lengths)) for k, n in enumerate(lengths)]
            work = (index, deque(writes(i, size, beat)))
            self.later(lambda: port.work.append(work))
            if kind is MemoryType.UOP:
                self.load_uops(i)

        def commit() -> None:
            port.bursts.extend(entries)
            port.not_before = t + TIMING.setup_cycles

        self.later(commit)

    def load_uops(self, i: Load) -> None:
        at = i.sram_base + i.y_pad_0 * (i.x_pad_0 + i.x_size + i.x_pad_1) * (i.x_size > 0)
        pad = np.uint32(i.pad_value & 0xFFFFFFFF)
        self.uops[i.sram_base : i.sram_base + i.sram_size] = pad
        for address, count in rows(i, 4):
            words = self.dram[address : address + count].copy().view("<u4")
            at += i.x_pad_0
            self.uops[at : at + len(words)] = words
            at += len(words) + i.x_pad_1

    def retire(self, module: ModuleName) -> None:
        flying = self.flying[module]
        while self.leaving and self.leaving[0][0] <= self.t:
            self.ready[self.leaving.popleft()[1]] = True
        if not flying or not self.ready[flying[0]]:
            return
        i = self.instructions[flying[0]]
        depth = self.config.token_queue_depth
        if any(self.level.get(q.value, 0) == depth for q in pushes(i)):
            return
        self.finish[flying[0]] = self.t
        for q in pushes(i):
            self.later(lambda q=q: self.add(q.value, 1))
        self.later(lambda: flying.popleft())

    # compute

    def sequence(self) -> None:
        """Read micro-ops ahead, one a cycle, into a pipeline that moves when it can."""
        if len(self.pipe) == TIMING.sequencer_cycles:
            return
        if not self.ahead:
            while self.next_ahead < len(self.compute) and isinstance(
                self.instructions[self.compute[self.next_ahead]], Load
            ):
                self.next_ahead += 1
            if self.next_ahead == len(self.compute):
                return
            index = self.compute[self.next_ahead]
            visible = [v for k, v in self.queue[ModuleName.COMPUTE] if k == index]
            if not visible or visible[0] > self.t:
                return
            before = self.compute[: self.next_ahead]
            if any(
                isinstance(self.instructions[k], Load) and not 0 <= self.finish[k] < self.t
                for k in before
            ):
                return
            self.ahead.extend(
                (index, slot) for slot in slots_of(self.instructions[index], self.uops, self.config)
            )
            self.next_ahead += 1
        self.pipe.append((self.t, *self.ahead.popleft()))

    def issue(self) -> None:
        if self.stage is None and self.pipe:
            entered, index, slot = self.pipe[0]
            if entered + TIMING.sequencer_cycles <= self.t:
                self.pipe.popleft()
                self.stage = (index, slot)
        if self.stage is None:
            return
        if self.start[self.stage[0]] >= 0:
            self.use()
        else:
            self.at_stage = self.t  # it starts below, if it may

    def use(self) -> None:
        assert self.stage is not None
        index, slot = self.stage
        if any(self.t < self.slow.get(entry, -99) + TIMING.slow_cycles for entry in slot.reads):
            return
        if slot.writes is not None and slot.slow:
            self.slow[slot.writes] = self.t
        if slot.last:
            self.leaving.append((self.t + compute_latency(self.config), index))
        self.stage = None


def step(program: Program, dram: np.ndarray, limit: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    """Return start and finish cycles of every instruction up to FINISH."""
    machine = _Machine(program, dram)
    machine.run(limit)
    return np.array(machine.start), np.array(machine.finish)
