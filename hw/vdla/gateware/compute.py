"""The compute module: its queue's head, loader, sequencer, issue stage and data path."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.config import Config
from vdla.isa import Opcode
from vdla.timing import TIMING

from .datapath import DataPath
from .issue import Issue
from .layouts import INDEX_BITS, INSTRUCTION_BITS, address_bits, instruction_layout
from .load import LoadUnit, compute_kinds
from .reading import BeatSource
from .retire import Retirement, token_flags
from .scratchpads import scratchpad
from .sequencer import Sequencer

__all__ = ["Compute"]


class Compute(wiring.Component):
    """Executes LOADs of UOP and ACC, GEMM, ALU and FINISH, in order.

    Loads and everything else take turns: a LOAD starts when all that issues has retired, and
    micro-ops are fetched when all loads have. Within either kind instructions overlap.

    Members
    -------
    instruction, index, valid, take
        The head of the command queue, and its index in the program.
    start, retire, finished
        An instruction starts; one retires; it is FINISH.
    pop, available, push, has_room
        The token queues.
    bases, source
        Of the loader.
    inp_address, wgt_address, operand_read, inp, wgt
        Read ports of INP and WGT.
    out_write, out_address, out_data
        OUT's write port.
    stop
        Nothing starts or is issued any more.
    overflow, rq_overflow, bus_error, fault
        In the instruction `fault` an index leaves its buffer; RQ's parameters leave ACC; a load
        got an error response.
    busy, waiting_bus, waiting_push, waiting_prev, waiting_next
        For the counters.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "index": In(INDEX_BITS),
                "valid": In(1),
                "take": Out(1),
                "start": Out(1),
                "retire": Out(1),
                "finished": Out(1),
                "pop": Out(token_flags),
                "available": In(token_flags),
                "push": Out(token_flags),
                "has_room": In(token_flags),
                "bases": In(address_bits(config)).array(len(compute_kinds(config))),
                "source": Out(BeatSource(config)),
                "inp_address": Out(range(config.inp_depth)),
                "wgt_address": Out(range(config.wgt_depth)),
                "operand_read": Out(1),
                "inp": In(config.inp_elem_bytes * 8),
                "wgt": In(config.wgt_elem_bytes * 8),
                "out_write": Out(1),
                "out_address": Out(config.dst_index_bits),
                "out_data": Out(config.out_elem_bytes * 8),
                "stop": In(1),
                "overflow": Out(1),
                "rq_overflow": Out(1),
                "bus_error": Out(1),
                "fault": Out(INDEX_BITS),
                "busy": Out(1),
                "waiting_bus": Out(1),
                "waiting_push": Out(1),
                "waiting_prev": Out(1),
                "waiting_next": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the parts and let loads and issue take turns."""
        m = Module()
        config = self._config
        m.submodules.loader = loader = LoadUnit(config, compute_kinds(config))
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.issue = issue = Issue(config)
        m.submodules.datapath = datapath = DataPath(config)
        m.submodules.retirement = retirement = Retirement()
        connect(m, flipped(self.source), loader.source)
        head = instruction_layout(Opcode.LOAD, config)(self.instruction)
        is_load = self.valid & (head.opcode == Opcode.LOAD)
        operation = issue.vector.operation

        # Turns: instructions of each kind that have left the queue and not retired.
        loads, issues = Signal(range(TIMING.inflight + 1)), Signal(range(2 * TIMING.inflight))
        load_start, load_tokens, issue_tokens = Signal(), Signal(), Signal()
        load_retires, issue_retires, entered = Signal(), Signal(), Signal()
        m.d.comb += [
            load_tokens.eq(
                (~head.pop_prev | self.available.prev) & (~head.pop_next | self.available.next)
            ),
            issue_tokens.eq(
                (~operation.pop_prev | self.available.prev)
                & (~operation.pop_next | self.available.next)
            ),
            load_start.eq(
                is_load & load_tokens & loader.free & retirement.room & (issues == 0) & ~self.stop
            ),
            sequencer.instruction.eq(self.instruction),
            sequencer.valid.eq(
                self.valid & ~is_load & (loads == 0) & (issues != 2 * TIMING.inflight - 1)
            ),
            entered.eq(sequencer.take),
            self.take.eq(load_start | sequencer.take),
            load_retires.eq(retirement.retire & (loads != 0)),
            issue_retires.eq(retirement.retire & (loads == 0)),
        ]
        m.d.sync += [
            loads.eq(loads + load_start - load_retires),
            issues.eq(issues + entered - issue_retires),
        ]
        m.d.comb += [
            loader.instruction.eq(self.instruction),
            loader.index.eq(self.index),
            sequencer.index.eq(self.index),
            loader.start.eq(load_start),
            *(mine.eq(given) for mine, given in zip(loader.bases, self.bases, strict=True)),
            issue.vector.eq(sequencer.vector),
            issue.valid.eq(sequencer.vector_valid),
            sequencer.vector_take.eq(issue.take),
            issue.may_start.eq(
                issue_tokens & retirement.room & (~operation.finish | retirement.empty)
            ),
            issue.stop.eq(self.stop),
            datapath.slot.eq(issue.slot),
            datapath.slot_valid.eq(issue.slot_valid),
            self.start.eq(load_start | issue.start),
            self.pop.prev.eq(Mux(load_start, head.pop_prev, issue.start & operation.pop_prev)),
            self.pop.next.eq(Mux(load_start, head.pop_next, issue.start & operation.pop_next)),
        ]
        self._retire(m, retirement, load_start, head, issue, datapath.done | loader.done)
        self._memories(m, loader, sequencer, datapath)
        waits = sequencer.vector_valid & issue.vector.first & ~issue.start
        m.d.comb += [
            self.overflow.eq(issue.overflow | loader.overflow),
            self.rq_overflow.eq(issue.rq_overflow),
            self.bus_error.eq(loader.bus_error),
            self.fault.eq(Mux(loader.busy, loader.fault, operation.index)),
            self.busy.eq(issue.slot_valid | (loader.busy & ~loader.waiting_bus)),
            self.waiting_bus.eq(loader.waiting_bus),
            self.waiting_push.eq(retirement.waiting),
            self.waiting_prev.eq(
                (waits & operation.pop_prev & ~self.available.prev)
                | (is_load & head.pop_prev & ~self.available.prev)
            ),
            self.waiting_next.eq(
                (waits & operation.pop_next & ~self.available.next)
                | (is_load & head.pop_next & ~self.available.next)
            ),
        ]
        return m

    def _retire(
        self,
        m: Module,
        retirement: Retirement,
        load_start: Signal,
        head: data.View,
        issue: Issue,
        done: object,
    ) -> None:
        """Retire in order; FINISH retires last and ends the program."""
        operation = issue.vector.operation
        ready = Signal(range(TIMING.inflight + 1))
        m.d.sync += ready.eq(ready + done - retirement.retire)
        ending = Signal()
        with m.If(issue.start & operation.finish):
            m.d.sync += ending.eq(1)
        with m.If(self.finished):
            m.d.sync += ending.eq(0)
        m.d.comb += [
            retirement.start.eq(self.start),
            retirement.pushes.prev.eq(Mux(load_start, head.push_prev, operation.push_prev)),
            retirement.pushes.next.eq(Mux(load_start, head.push_next, operation.push_next)),
            retirement.done.eq(ready != 0),
            retirement.has_room.eq(self.has_room),
            self.push.eq(retirement.push),
            self.retire.eq(retirement.retire),
            # FINISH starts only when everything before it has retired.
            self.finished.eq(retirement.retire & ending),
        ]

    def _memories(
        self, m: Module, loader: LoadUnit, sequencer: Sequencer, datapath: DataPath
    ) -> None:
        """Connect UOP and ACC: the loader and the data path never write in the same cycle."""
        config = self._config
        m.submodules.uop = uops = scratchpad(32, config.uop_depth)
        write, read = uops.write_port(), uops.read_port()
        m.d.comb += [
            write.addr.eq(loader.address),
            write.data.eq(loader.data),
            write.en.eq(loader.write[0]),
            read.addr.eq(sequencer.uop_address),
            read.en.eq(sequencer.uop_read),
            sequencer.uop.eq(read.data),
        ]
        m.submodules.acc = acc = scratchpad(config.acc_elem_bytes * 8, config.acc_depth)
        write, read = acc.write_port(), acc.read_port()
        m.d.comb += [
            write.addr.eq(Mux(loader.write[1], loader.address, datapath.address)),
            write.data.eq(Mux(loader.write[1], loader.data, datapath.data)),
            write.en.eq(loader.write[1] | datapath.write),
            read.addr.eq(datapath.acc_address),
            read.en.eq(datapath.acc_read),
            datapath.acc.eq(read.data),
            self.inp_address.eq(datapath.inp_address),
            self.wgt_address.eq(datapath.wgt_address),
            self.operand_read.eq(datapath.operand_read),
            datapath.inp.eq(self.inp),
            datapath.wgt.eq(self.wgt),
            self.out_write.eq(datapath.write),
            self.out_address.eq(datapath.address),
            self.out_data.eq(datapath.out_data),
        ]
