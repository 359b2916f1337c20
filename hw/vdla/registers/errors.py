"""What stops the machine: causes and modules, as the ERROR register codes them."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ErrorCause", "ErrorModule"]


class ErrorModule(IntEnum):
    """Who found the error."""

    FETCH = 0
    LOAD = 1
    COMPUTE = 2
    STORE = 3
    CONTROL = 4


class ErrorCause(IntEnum):
    """Why the machine stopped; `doc` completes the sentence "it stopped at …"."""

    doc: str

    def __new__(cls, code: int, doc: str = "") -> ErrorCause:
        """Make a member that is its code and carries its text."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.doc = doc
        return member

    NONE = 0, "nothing"
    ILLEGAL_OPCODE = 1, "an opcode of 5 to 7"
    ILLEGAL_MEMORY_TYPE = 2, "a memory type of 6 or 7"
    ILLEGAL_ALU_OPCODE = 3, "an ALU opcode of 6 or 7, or one whose capability bit is not set"
    STORE_NOT_OUT = 4, "a STORE of something other than OUT"
    INDEX_PAST_BUFFER = 5, "an index past its buffer"
    RQ_PARAMETERS_PAST_ACC = 6, "parameters of an RQ past the end of ACC"
    AXI_READ = 7, "an error response to a read"
    AXI_WRITE = 8, "an error response to a write"
    CYCLE_LIMIT = 9, "the cycle limit"
    NO_FINISH = 10, "the end of the instructions, without a FINISH"
    LOAD_OUT = 11, "a LOAD of OUT"
    ILLEGAL_FLAG = 12, "a dependence flag without a queue"
