"""Control: the registers behind AXI4-Lite, the life of a run, its counters and its errors."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.config import Config
from vdla.registers import (
    BASES,
    CAPABILITIES,
    COUNTERS,
    IDENTITY,
    INTERFACE,
    Access,
    ErrorCause,
    ErrorModule,
    Register,
)

from .axi_lite import DATA_BITS, AxiLite, AxiLitePort

__all__ = [
    "BASE_LAYOUT",
    "ERROR_LAYOUT",
    "EVENT_LAYOUT",
    "Control",
    "CoreControl",
]

BASE_LAYOUT = data.StructLayout({kind.name.lower(): 64 for kind in BASES})
"""The address of element 0 of each memory type."""

EVENT_LAYOUT = data.StructLayout(
    {
        module: data.StructLayout({c.event: 1 for c in COUNTERS if c.module == module})
        for module in dict.fromkeys(c.module for c in COUNTERS)
    }
)
"""What happens in a cycle, a bit each, such as ``events.load.busy``; the bits of STALL."""

ERROR_LAYOUT = data.StructLayout(
    {"valid": 1, "module": ErrorModule, "cause": ErrorCause, "index": 32}
)
"""An error: it counts in a cycle with `valid` high."""

_WORD_BYTES = DATA_BITS // 8


class CoreControl(wiring.Signature):
    """What control and the core tell each other, seen from control.

    Members
    -------
    start : Out(1)
        High for one cycle, cycle 0 of a run.
    stop : Out(1)
        From the cycle after an error on, and while the core is reset: start nothing more.
    soft_reset : Out(1)
        Forget everything but what the bus is still owed. It ends when `bus_idle` has been high
        for two cycles, so a core that needs its state to complete its bursts may leave off at
        `stop` and take ``soft_reset & bus_idle`` as its reset.
    instruction_base, instruction_count : Out(64), Out(32)
        Where the program is. They do not change during a run; nor does `base`.
    base : Out(BASE_LAYOUT)
    done : In(1)
        High in the cycle in which FINISH retires.
    idle : In(1)
        No unit has work, and `bus_idle`.
    bus_idle : In(1)
        No address, datum or response is outstanding, and with `stop` high none will be.
    error : In(ERROR_LAYOUT)
    events : In(EVENT_LAYOUT)
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": Out(1),
                "stop": Out(1),
                "soft_reset": Out(1),
                "instruction_base": Out(64),
                "instruction_count": Out(32),
                "base": Out(BASE_LAYOUT),
                "done": In(1),
                "idle": In(1),
                "bus_idle": In(1),
                "error": In(ERROR_LAYOUT),
                "events": In(EVENT_LAYOUT),
            }
        )


class Control(wiring.Component):
    """The control port of an accelerator.

    Parameters
    ----------
    config : Config

    Members
    -------
    s_axi : In(AxiLite())
    core : Out(CoreControl())
    interrupt : Out(1)
        Done or error, where it is enabled; it stays high until both are cleared.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({"s_axi": In(AxiLite()), "core": Out(CoreControl()), "interrupt": Out(1)})
        self._fields = {
            (register, bits.name): Signal(
                bits.width, name=f"{register.name}_{bits.name}".lower(), init=bits.reset
            )
            for register in Register
            for bits in register.fields
        }
        self._clear = Signal()
        self._late = Signal()

    def _field(self, register: Register, name: str = "value") -> Signal:
        return self._fields[register, name]

    def elaborate(self, platform: object) -> Module:
        """Bank, run, counters, and the wires to the core."""
        m = Module()
        self._bank(m)
        self._identify(m)
        self._run(m)
        self._count(m)
        core, field = self.core, self._field
        m.d.comb += [
            core.instruction_base.eq(field(Register.INSTRUCTION_BASE)),
            core.instruction_count.eq(field(Register.INSTRUCTION_COUNT)),
            *(core.base[kind.name.lower()].eq(field(base)) for kind, base in BASES.items()),
        ]
        return m

    def _bank(self, m: Module) -> None:
        """Give every word its decoder; a read sees every field, a write changes what it may."""
        m.submodules.port = port = AxiLitePort()
        connect(m, flipped(self.s_axi), port.axi)
        words, running = port.words, self._field(Register.STATUS, "running")
        places = [(register, word) for register in Register for word in range(register.words)]
        with m.Switch(words.read_word):
            for register, word in places:
                with m.Case(register // _WORD_BYTES + word):
                    part = self._value(register).word_select(word, DATA_BITS)
                    m.d.comb += words.read_data.eq(part)
            with m.Default():
                m.d.comb += words.read_error.eq(1)
        with m.Switch(words.write_word):
            for register, word in places:
                set_up = any(bits.access is Access.SETUP for bits in register.fields)
                refused = running if set_up else Const(0)
                with m.Case(register // _WORD_BYTES + word):
                    m.d.comb += words.write_error.eq(refused)
                    with m.If(words.write & ~refused):
                        self._write(m, register, word, words.write_data, words.write_mask)
            with m.Default():
                m.d.comb += words.write_error.eq(1)

    def _value(self, register: Register) -> Value:
        """Return what a register reads."""
        parts: list[Value] = []
        for bits in register.fields:
            parts.append(Const(0, bits.lsb - len(Cat(parts))))
            signal = self._field(register, bits.name)
            parts.append(Const(0, bits.width) if bits.access is Access.SET else signal)
        return Cat(parts, Const(0, DATA_BITS * register.words - len(Cat(parts))))

    def _write(self, m: Module, register: Register, word: int, new: Value, mask: Value) -> None:
        first = DATA_BITS * word
        for bits in register.fields:
            low = max(bits.lsb, first)
            high = min(bits.lsb + bits.width, first + DATA_BITS)
            if low >= high or bits.access is Access.READ:
                continue
            part = self._field(register, bits.name)[low - bits.lsb : high - bits.lsb]
            value, chosen = new[low - first : high - first], mask[low - first : high - first]
            if bits.access is Access.SET:
                m.d.comb += part.eq(value & chosen)
            elif bits.access is Access.CLEAR:
                m.d.sync += part.eq(part & ~(value & chosen))
            else:
                m.d.sync += part.eq((part & ~chosen) | (value & chosen))

    def _identify(self, m: Module) -> None:
        field, (major, minor) = self._field, INTERFACE
        m.d.comb += [
            field(Register.ID).eq(IDENTITY),
            field(Register.VERSION, "major").eq(major),
            field(Register.VERSION, "minor").eq(minor),
            field(Register.CONFIG_HASH).eq(self._config.hash),
            *(field(Register.CAPABILITY, name).eq(1) for name in CAPABILITIES),
        ]

    def _run(self, m: Module) -> None:
        """Reset, run, and stop for done, an error, the cycle limit or a soft reset."""
        field, core = self._field, self.core
        running, resetting = (field(Register.STATUS, n) for n in ("running", "resetting"))
        done, error = (field(Register.STATUS, n) for n in ("done", "error"))
        interrupt = field(Register.STATUS, "interrupt")
        start, soft_reset = (field(Register.CONTROL, n) for n in ("start", "soft_reset"))
        want_start, want_reset, stopped, was_idle = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            interrupt.eq((done | error) & field(Register.CONTROL, "interrupt_enable")),
            self.interrupt.eq(interrupt),
            field(Register.STATUS, "idle").eq(core.idle),
            core.soft_reset.eq(resetting),
            core.stop.eq(stopped | resetting),
        ]
        m.d.sync += core.start.eq(0)
        with m.FSM():
            with m.State("IDLE"), m.If(want_start | want_reset):
                m.d.sync += [resetting.eq(1), done.eq(0), error.eq(0), stopped.eq(0)]
                self._record(m, ErrorCause.NONE, ErrorModule.FETCH, 0)
                m.next = "RESET"
            with m.State("RESET"):
                m.d.sync += [want_reset.eq(0), was_idle.eq(core.bus_idle)]
                with m.If(was_idle & core.bus_idle):
                    m.d.sync += [resetting.eq(0), was_idle.eq(0)]
                    m.next = "READY"
            with m.State("READY"):
                # A cycle in which a core that registers its reset comes out of it.
                m.d.comb += self._clear.eq(1)
                m.next = "IDLE"
                with m.If(want_start & ~want_reset):
                    m.d.sync += [core.start.eq(1), running.eq(1), want_start.eq(0)]
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(~want_reset):
                    m.d.sync += want_start.eq(0)
                with m.If(want_reset):
                    m.d.sync += [running.eq(0), resetting.eq(1)]
                    m.next = "RESET"
                with m.Elif(core.error.valid | self._late):
                    m.d.sync += [running.eq(0), stopped.eq(1), error.eq(1)]
                    self._record(m, ErrorCause.CYCLE_LIMIT, ErrorModule.CONTROL, 0)
                    with m.If(core.error.valid):
                        found = core.error
                        self._record(m, found.cause, found.module, found.index)
                    m.next = "IDLE"
                with m.Elif(core.done):
                    m.d.sync += [running.eq(0), done.eq(1)]
                    m.next = "IDLE"
        # A write of control wins over what the states do with an earlier one.
        with m.If(soft_reset):
            m.d.sync += [want_reset.eq(1), want_start.eq(start)]
        with m.Elif(start & ~running):
            m.d.sync += want_start.eq(1)

    def _record(self, m: Module, cause: ValueLike, module: ValueLike, index: ValueLike) -> None:
        m.d.sync += [
            self._field(Register.ERROR, "cause").eq(cause),
            self._field(Register.ERROR, "module").eq(module),
            self._field(Register.ERROR_INDEX).eq(index),
        ]

    def _count(self, m: Module) -> None:
        """Count the run's cycles at once, and its events a cycle later, from STALL."""
        cycles, limit = self._field(Register.CYCLES), self._field(Register.CYCLE_LIMIT)
        stall = self._field(Register.STALL)
        counting, counted, limited = Signal(), Signal(), Signal()
        m.d.comb += [
            self._late.eq(limited & (cycles == limit)),
            counting.eq(self._field(Register.STATUS, "running") & ~self._late),
        ]
        m.d.sync += [limited.eq(limit != 0), counted.eq(counting)]
        with m.If(counting):
            m.d.sync += [cycles.eq(cycles + 1), stall.eq(self.core.events)]
        for bit, counter in enumerate(COUNTERS):
            value = self._field(counter.register)
            with m.If(counted & stall[bit]):
                m.d.sync += value.eq(value + 1)
            with m.If(self._clear):
                m.d.sync += value.eq(0)
        with m.If(self._clear):
            m.d.sync += [cycles.eq(0), stall.eq(0)]
