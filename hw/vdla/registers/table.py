"""The table of registers: the one place where an offset or a bit gets its meaning.

The gateware's register bank, the driver and ``docs/registers.md`` read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from vdla.isa import MemoryType

__all__ = [
    "BASES",
    "CAPABILITIES",
    "COUNTERS",
    "IDENTITY",
    "INTERFACE",
    "Access",
    "Bits",
    "Counter",
    "Register",
]

IDENTITY = int.from_bytes(b"VDLA", "little")
"""What ID reads: the letters in the order of their bytes."""

INTERFACE = (1, 0)
"""Major and minor version of registers and instructions; a driver takes its own major only."""

COUNTER_BITS = 48
"""A counter overflows after 32 days at 100 MHz; 64 bits would take a third more carry logic."""

_WORD_BITS = 32


class Access(Enum):
    """What software may do with a field."""

    READ = "read"
    WRITE = "read, write"
    SETUP = "read, write; while running a write is refused"
    SET = "write 1 to act; reads 0"
    CLEAR = "read, write 1 to clear"


@dataclass(frozen=True)
class Bits:
    """A field: bits ``lsb .. lsb + width - 1`` of a register.

    Parameters
    ----------
    name : str
    lsb, width : int
    access : Access
    doc : str
        Meaning, for the manual.
    reset : int
        Value after reset, of a field that software writes.
    """

    name: str
    lsb: int
    width: int
    access: Access
    doc: str
    reset: int = 0

    @property
    def mask(self) -> int:
        """The field's bits in its register."""
        return ((1 << self.width) - 1) << self.lsb

    def of(self, value: int) -> int:
        """Return the field's value in a register's value."""
        return (value & self.mask) >> self.lsb


def _value(width: int, access: Access, doc: str) -> Bits:
    """A register that is a single field."""
    return Bits("value", 0, width, access, doc)


def _address(doc: str) -> Bits:
    return _value(64, Access.SETUP, doc)


def _count(doc: str) -> Bits:
    return _value(COUNTER_BITS, Access.READ, doc)


_BUSY = _count("cycles in which it wrote an element or sent a beat; compute: an issue slot")
_MEMORY = _count("cycles in which something started waited for the bus, data or a response")
_PUSH = _count("cycles in which a finished instruction waited for room in a token queue")
_INSTRUCTIONS = _count("instructions finished")


def _pop(queue: str) -> Bits:
    return _count(f"cycles in which the next instruction waited for a token of {queue}")


class Register(IntEnum):
    """A register: its byte offset, and the fields in it.

    One with a field past bit 31 takes two words, the low one first.
    """

    fields: tuple[Bits, ...]

    def __new__(cls, offset: int, *fields: Bits) -> Register:
        """Make a member that is its offset and carries its fields."""
        member = int.__new__(cls, offset)
        member._value_ = offset
        member.fields = fields
        return member

    ID = 0x000, _value(32, Access.READ, 'the letters "VDLA", 0x414c4456')
    VERSION = (
        0x004,
        Bits("minor", 0, 16, Access.READ, "additions"),
        Bits("major", 16, 16, Access.READ, "changes that break a driver"),
    )
    CONFIG_HASH = 0x008, _value(64, Access.READ, "hash of the configuration")
    CAPABILITY = (
        0x010,
        Bits("pad_value", 0, 1, Access.READ, "LOAD fills padding with a value"),
        Bits("overwrite", 1, 1, Access.READ, "GEMM can overwrite"),
        Bits("rq", 2, 1, Access.READ, "ALU opcode 5, RQ"),
        Bits("acc_8bit", 3, 1, Access.READ, "memory type 5, ACC_8BIT"),
    )
    CONTROL = (
        0x020,
        Bits("start", 0, 1, Access.SET, "reset the core and run; ignored while running"),
        Bits("soft_reset", 1, 1, Access.SET, "abandon the run, reset the core"),
        Bits("interrupt_enable", 2, 1, Access.WRITE, "raise the interrupt on done and error"),
    )
    STATUS = (
        0x024,
        Bits("running", 0, 1, Access.READ, "from the start bit to done or error"),
        Bits("done", 1, 1, Access.CLEAR, "FINISH has retired"),
        Bits("error", 2, 1, Access.CLEAR, "the machine has stopped; ERROR says why"),
        Bits("interrupt", 3, 1, Access.READ, "the state of the interrupt line"),
        Bits("resetting", 4, 1, Access.READ, "the core is held until the bus is idle"),
        Bits("idle", 5, 1, Access.READ, "the core has no work left, on the bus either"),
    )
    ERROR = (
        0x028,
        Bits("cause", 0, 8, Access.READ, "an error cause"),
        Bits("module", 8, 8, Access.READ, "0 fetch, 1 load, 2 compute, 3 store, 4 control"),
    )
    ERROR_INDEX = 0x02C, _value(32, Access.READ, "index in the program of the instruction at fault")
    STALL = (
        0x030,
        _value(32, Access.READ, "what each module did in the last cycle counted: see below"),
    )
    INSTRUCTION_COUNT = 0x034, _value(32, Access.SETUP, "instructions in memory")
    INSTRUCTION_BASE = 0x038, _address("address of the first; a multiple of 4096")
    CYCLE_LIMIT = (
        0x040,
        _value(COUNTER_BITS, Access.SETUP, "longest run in cycles; 0: no limit"),
    )
    UOP_BASE = 0x048, _address("address of element 0 of UOP")
    WGT_BASE = 0x050, _address("address of element 0 of WGT")
    INP_BASE = 0x058, _address("address of element 0 of INP")
    ACC_BASE = 0x060, _address("address of element 0 of ACC")
    OUT_BASE = 0x068, _address("address of element 0 of OUT")
    ACC_8BIT_BASE = 0x070, _address("address of element 0 of ACC_8BIT")

    CYCLES = 0x100, _count("cycles from the start bit to the done bit; counts while running")
    LOAD_BUSY = 0x108, _BUSY
    LOAD_MEMORY = 0x110, _MEMORY
    LOAD_POP_NEXT = 0x118, _pop("compute->load")
    LOAD_PUSH = 0x120, _PUSH
    LOAD_INSTRUCTIONS = 0x128, _INSTRUCTIONS
    COMPUTE_BUSY = 0x130, _BUSY
    COMPUTE_MEMORY = 0x138, _MEMORY
    COMPUTE_POP_PREV = 0x140, _pop("load->compute")
    COMPUTE_POP_NEXT = 0x148, _pop("store->compute")
    COMPUTE_PUSH = 0x150, _PUSH
    COMPUTE_INSTRUCTIONS = 0x158, _INSTRUCTIONS
    STORE_BUSY = 0x160, _BUSY
    STORE_MEMORY = 0x168, _MEMORY
    STORE_POP_PREV = 0x170, _pop("compute->store")
    STORE_PUSH = 0x178, _PUSH
    STORE_INSTRUCTIONS = 0x180, _INSTRUCTIONS
    FETCH_MEMORY = 0x188, _count("cycles in which fetch waited for the bus or for instructions")
    FETCH_FULL = 0x190, _count("cycles in which fetch waited for room in a command queue")

    @property
    def words(self) -> int:
        """32-bit words that it takes."""
        return 1 + any(bits.lsb + bits.width > _WORD_BITS for bits in self.fields)

    def bits(self, name: str) -> Bits:
        """Return a field.

        Raises
        ------
        KeyError
            There is none of that name.
        """
        for bits in self.fields:
            if bits.name == name:
                return bits
        raise KeyError(f"{self.name} has no field {name}; it has {[b.name for b in self.fields]}.")


BASES: dict[MemoryType, Register] = {kind: Register[f"{kind.name}_BASE"] for kind in MemoryType}
"""The register that holds the address of element 0, by memory type."""

CAPABILITIES = tuple(bits.name for bits in Register.CAPABILITY.fields)
"""Extensions, all of which this version's gateware has."""


@dataclass(frozen=True)
class Counter:
    """An event that is counted.

    Attributes
    ----------
    register : Register
    module : str
        ``load``, ``compute``, ``store`` or ``fetch``.
    event : str
        Such as ``busy``, in the words of the cycle model's causes.
    """

    register: Register
    module: str
    event: str


COUNTERS = tuple(
    Counter(register, *register.name.lower().split("_", 1))
    for register in Register
    if register > Register.CYCLES
)
"""The counted events, in the order of their bits in STALL."""
