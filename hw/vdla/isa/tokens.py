"""The four dependence-token queues, and which flag of which module means which."""

from __future__ import annotations

from enum import Enum

from .instructions import Instruction, ModuleName, module_of

__all__ = ["FLAGS", "TOKEN_FLAGS", "TokenQueue", "pops", "pushes"]


FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""The dependence flags in the order of their bits."""


class TokenQueue(str, Enum):
    """A queue of tokens from one module to its neighbour."""

    LOAD_TO_COMPUTE = "load->compute"
    COMPUTE_TO_LOAD = "compute->load"
    COMPUTE_TO_STORE = "compute->store"
    STORE_TO_COMPUTE = "store->compute"

    @property
    def producer(self) -> ModuleName:
        """The module that pushes."""
        return ModuleName(self.value.partition("->")[0])

    @property
    def consumer(self) -> ModuleName:
        """The module that pops."""
        return ModuleName(self.value.partition("->")[2])


TOKEN_FLAGS: dict[ModuleName, dict[str, TokenQueue]] = {
    ModuleName.LOAD: {
        "pop_next": TokenQueue.COMPUTE_TO_LOAD,
        "push_next": TokenQueue.LOAD_TO_COMPUTE,
    },
    ModuleName.COMPUTE: {
        "pop_prev": TokenQueue.LOAD_TO_COMPUTE,
        "pop_next": TokenQueue.STORE_TO_COMPUTE,
        "push_prev": TokenQueue.COMPUTE_TO_LOAD,
        "push_next": TokenQueue.COMPUTE_TO_STORE,
    },
    ModuleName.STORE: {
        "pop_prev": TokenQueue.COMPUTE_TO_STORE,
        "push_prev": TokenQueue.STORE_TO_COMPUTE,
    },
}
"""The queue behind each flag; a flag that is missing here is illegal in that module."""


def _queues(instruction: Instruction, action: str) -> tuple[TokenQueue, ...]:
    flags = TOKEN_FLAGS[module_of(instruction)].items()
    return tuple(
        queue for flag, queue in flags if flag.startswith(action) and getattr(instruction, flag)
    )


def pops(instruction: Instruction) -> tuple[TokenQueue, ...]:
    """Return the queues an instruction takes a token from before it starts."""
    return _queues(instruction, "pop")


def pushes(instruction: Instruction) -> tuple[TokenQueue, ...]:
    """Return the queues an instruction gives a token to once it is done."""
    return _queues(instruction, "push")
