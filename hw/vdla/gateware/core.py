"""The core: fetch, load, compute and store, joined by queues, tokens and scratchpads."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.config import Config
from vdla.isa import Opcode
from vdla.registers import ErrorCause, ErrorModule
from vdla.timing import TIMING, fetch_bursts, read_slots

from .compute import Compute
from .control import CoreControl
from .fetch import Fetch
from .layouts import (
    INDEX_BITS,
    INSTRUCTION_BITS,
    ReadChannel,
    WriteChannel,
    instruction_layout,
)
from .load import LoadUnit, compute_kinds, load_kinds
from .queues import CommandQueue, TokenQueue
from .reading import ReadArbiter
from .retire import Retirement
from .scratchpads import scratchpad
from .store import StoreUnit

__all__ = ["Core"]

LOAD, COMPUTE, STORE = range(3)


class Core(wiring.Component):
    """Everything but the control port.

    Members
    -------
    control
        Start, addresses, errors and events.
    read, write
        The memory bus.
    trace_start, trace_finish
        Bit m: an instruction of module m (load, compute, store) starts or retires this cycle.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "control": In(CoreControl()),
                "read": Out(ReadChannel(config)),
                "write": Out(WriteChannel(config)),
                "trace_start": Out(3),
                "trace_finish": Out(3),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the modules and what joins them."""
        m = Module()
        config, control = self._config, self.control
        reset = control.soft_reset & control.bus_idle
        inner = Module()
        m.submodules.machine = ResetInserter(reset)(inner)

        slots = fetch_bursts(config) + 2 * read_slots(config)
        inner.submodules.arbiter = arbiter = ReadArbiter(config, 3, slots + 1)
        inner.submodules.fetch = fetch = Fetch(config)
        inner.submodules.load = load = LoadUnit(config, load_kinds(config))
        inner.submodules.compute = compute = Compute(config)
        inner.submodules.store = store = StoreUnit(config)
        queues = []
        for name in ("load", "compute", "store"):
            queue = CommandQueue(INSTRUCTION_BITS + INDEX_BITS, config.command_queue_depth)
            inner.submodules[f"{name}_queue"] = queue
            queues.append(queue)
        tokens = {}
        for name in ("load_compute", "compute_load", "compute_store", "store_compute"):
            tokens[name] = TokenQueue(config.token_queue_depth)
            inner.submodules[f"tokens_{name}"] = tokens[name]

        connect(inner, arbiter.channel, flipped(self.read))
        readers = (fetch.source, load.source, compute.source)
        for arbitrated, source in zip(arbiter.sources, readers, strict=True):
            connect(inner, arbitrated, source)
        connect(inner, store.channel, flipped(self.write))
        self._fetch(inner, fetch, queues)
        waits = self._load(inner, load, queues[LOAD], tokens)
        self._compute(inner, compute, queues[COMPUTE], tokens)
        waits_store = self._store(inner, store, queues[STORE], tokens)
        self._scratchpads(inner, load, compute, store)
        self._errors(inner, fetch, load, compute, store)
        events = control.events
        inner.d.comb += [
            control.bus_idle.eq(
                arbiter.idle
                & store.idle
                & ~fetch.source.valid
                & ~load.source.valid
                & ~compute.source.valid
            ),
            control.idle.eq(control.bus_idle & ~fetch.busy & self._all_retired(inner, fetch)),
            control.done.eq(compute.finished),
            events.fetch.memory.eq(fetch.waiting_bus),
            events.fetch.full.eq(fetch.waiting_queue),
            events.load.busy.eq(load.busy & ~load.waiting_bus),
            events.load.memory.eq(load.waiting_bus),
            events.load.pop_next.eq(waits),
            events.compute.busy.eq(compute.busy),
            events.compute.memory.eq(compute.waiting_bus),
            events.compute.pop_prev.eq(compute.waiting_prev),
            events.compute.pop_next.eq(compute.waiting_next),
            events.compute.push.eq(compute.waiting_push),
            events.store.busy.eq(store.busy & ~store.waiting_bus),
            events.store.memory.eq(store.waiting_bus),
            events.store.pop_prev.eq(waits_store),
            events.load.instructions.eq(self.trace_finish[LOAD]),
            events.compute.instructions.eq(self.trace_finish[COMPUTE]),
            events.store.instructions.eq(self.trace_finish[STORE]),
        ]
        return m

    def _all_retired(self, m: Module, fetch: Fetch) -> Value:
        """Return whether everything that was dispatched since the last reset has retired."""
        modules = len(self.trace_finish)
        left = Signal(range(modules * (self._config.command_queue_depth + TIMING.inflight) + 1))
        retired = Signal(range(modules + 1))
        m.d.comb += retired.eq(sum(self.trace_finish))
        m.d.sync += left.eq(left + fetch.dispatch.any() - retired)
        return left == 0

    def _fetch(self, m: Module, fetch: Fetch, queues: list[CommandQueue]) -> None:
        control = self.control
        m.d.comb += [
            fetch.start.eq(control.start),
            fetch.base.eq(control.instruction_base),
            fetch.count.eq(control.instruction_count),
            fetch.stop.eq(control.stop),
            fetch.room.eq(Cat(queue.room for queue in queues)),
        ]
        for k, queue in enumerate(queues):
            m.d.comb += [
                queue.write_data.eq(Cat(fetch.instruction, fetch.index[:INDEX_BITS])),
                queue.write.eq(fetch.dispatch[k]),
                queue.started.eq(self.trace_start[k]),
            ]

    def _load(
        self, m: Module, load: LoadUnit, queue: CommandQueue, tokens: dict[str, TokenQueue]
    ) -> Signal:
        """Start and retire the load module's instructions; returns whether a token is awaited."""
        config, control = self._config, self.control
        m.submodules.load_retirement = retirement = Retirement()
        head = instruction_layout(Opcode.LOAD, config)(queue.head[:INSTRUCTION_BITS])
        gives, takes = tokens["load_compute"], tokens["compute_load"]
        start, waits, ready = Signal(), Signal(), Signal(range(64))
        m.d.comb += [
            waits.eq(queue.valid & head.pop_next & ~takes.available),
            start.eq(queue.valid & ~waits & load.free & retirement.room & ~control.stop),
            load.instruction.eq(head),
            load.index.eq(queue.head[INSTRUCTION_BITS:]),
            load.start.eq(start),
            queue.take.eq(start),
            takes.pop.eq(start & head.pop_next),
            retirement.start.eq(start),
            retirement.pushes.next.eq(head.push_next),
            retirement.has_room.prev.eq(1),
            retirement.has_room.next.eq(gives.room),
            retirement.done.eq(ready != 0),
            gives.push.eq(retirement.push.next),
            self.trace_start[LOAD].eq(start),
            self.trace_finish[LOAD].eq(retirement.retire),
            control.events.load.push.eq(retirement.waiting),
        ]
        m.d.sync += ready.eq(ready + load.done - retirement.retire)
        for place, kind in zip(load.bases, load_kinds(config), strict=True):
            m.d.comb += place.eq(control.base[kind.memory_type.name.lower()])
        return waits

    def _compute(
        self, m: Module, compute: Compute, queue: CommandQueue, tokens: dict[str, TokenQueue]
    ) -> None:
        config, control = self._config, self.control
        m.d.comb += [
            compute.instruction.eq(queue.head[:INSTRUCTION_BITS]),
            compute.index.eq(queue.head[INSTRUCTION_BITS:]),
            compute.valid.eq(queue.valid),
            queue.take.eq(compute.take),
            compute.stop.eq(control.stop),
            compute.available.prev.eq(tokens["load_compute"].available),
            compute.available.next.eq(tokens["store_compute"].available),
            tokens["load_compute"].pop.eq(compute.pop.prev),
            tokens["store_compute"].pop.eq(compute.pop.next),
            compute.has_room.prev.eq(tokens["compute_load"].room),
            compute.has_room.next.eq(tokens["compute_store"].room),
            tokens["compute_load"].push.eq(compute.push.prev),
            tokens["compute_store"].push.eq(compute.push.next),
            self.trace_start[COMPUTE].eq(compute.start),
            self.trace_finish[COMPUTE].eq(compute.retire),
        ]
        for place, kind in zip(compute.bases, compute_kinds(config), strict=True):
            m.d.comb += place.eq(control.base[kind.memory_type.name.lower()])

    def _store(
        self, m: Module, store: StoreUnit, queue: CommandQueue, tokens: dict[str, TokenQueue]
    ) -> Signal:
        """Start and retire the store module's instructions; returns whether a token is awaited."""
        config, control = self._config, self.control
        m.submodules.store_retirement = retirement = Retirement()
        head = instruction_layout(Opcode.STORE, config)(queue.head[:INSTRUCTION_BITS])
        gives, takes = tokens["store_compute"], tokens["compute_store"]
        start, waits = Signal(), Signal()
        m.d.comb += [
            waits.eq(queue.valid & head.pop_prev & ~takes.available),
            start.eq(queue.valid & ~waits & store.free & retirement.room & ~control.stop),
            store.instruction.eq(head),
            store.index.eq(queue.head[INSTRUCTION_BITS:]),
            store.start.eq(start),
            store.base.eq(control.base.out),
            queue.take.eq(start),
            takes.pop.eq(start & head.pop_prev),
            retirement.start.eq(start),
            retirement.pushes.prev.eq(head.push_prev),
            retirement.has_room.prev.eq(gives.room),
            retirement.has_room.next.eq(1),
            retirement.done.eq(store.done),
            store.take_done.eq(retirement.retire),
            gives.push.eq(retirement.push.prev),
            self.trace_start[STORE].eq(start),
            self.trace_finish[STORE].eq(retirement.retire),
            control.events.store.push.eq(retirement.waiting),
        ]
        return waits

    def _scratchpads(self, m: Module, load: LoadUnit, compute: Compute, store: StoreUnit) -> None:
        """Connect INP, WGT and OUT."""
        config = self._config
        sizes = (
            ("inp", config.inp_elem_bytes * 8, config.inp_depth),
            ("wgt", config.wgt_elem_bytes * 8, config.wgt_depth),
        )
        for bank, (name, width, depth) in enumerate(sizes):
            m.submodules[name] = pad = scratchpad(width, depth)
            write, read = pad.write_port(), pad.read_port()
            m.d.comb += [
                write.addr.eq(load.address),
                write.data.eq(load.data),
                write.en.eq(load.write[bank]),
                read.addr.eq(getattr(compute, f"{name}_address")),
                read.en.eq(compute.operand_read),
                getattr(compute, name).eq(read.data),
            ]
        m.submodules.out = out = scratchpad(config.out_elem_bytes * 8, config.acc_depth)
        write, read = out.write_port(), out.read_port()
        m.d.comb += [
            write.addr.eq(compute.out_address),
            write.data.eq(compute.out_data),
            write.en.eq(compute.out_write),
            read.addr.eq(store.address),
            read.en.eq(store.read),
            store.data.eq(read.data),
        ]

    def _errors(
        self, m: Module, fetch: Fetch, load: LoadUnit, compute: Compute, store: StoreUnit
    ) -> None:
        """Report the first error; of several in one cycle, the first in this list."""
        error = self.control.error
        ran_out = Signal()
        m.d.comb += ran_out.eq(fetch.ended & self.control.idle)
        causes = (
            (fetch.bus_error, ErrorModule.FETCH, ErrorCause.AXI_READ, fetch.index),
            (load.bus_error, ErrorModule.LOAD, ErrorCause.AXI_READ, load.fault),
            (load.overflow, ErrorModule.LOAD, ErrorCause.INDEX_PAST_BUFFER, load.fault),
            (compute.bus_error, ErrorModule.COMPUTE, ErrorCause.AXI_READ, compute.fault),
            (
                compute.rq_overflow,
                ErrorModule.COMPUTE,
                ErrorCause.RQ_PARAMETERS_PAST_ACC,
                compute.fault,
            ),
            (compute.overflow, ErrorModule.COMPUTE, ErrorCause.INDEX_PAST_BUFFER, compute.fault),
            (store.bus_error, ErrorModule.STORE, ErrorCause.AXI_WRITE, store.fault),
            (store.overflow, ErrorModule.STORE, ErrorCause.INDEX_PAST_BUFFER, store.fault),
            (
                fetch.illegal != ErrorCause.NONE,
                ErrorModule.FETCH,
                fetch.illegal,
                fetch.index,
            ),
            (ran_out, ErrorModule.FETCH, ErrorCause.NO_FINISH, fetch.index),
        )
        for holds, module, cause, index in reversed(causes):
            with m.If(holds):
                m.d.comb += [
                    error.valid.eq(1),
                    error.module.eq(module),
                    error.cause.eq(cause),
                    error.index.eq(index),
                ]
