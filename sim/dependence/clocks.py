"""What is known to be done when an instruction starts."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.isa import Instruction, ModuleName, module_of
from vdla.sim.order import Order

__all__ = ["MODULES", "clocks_of"]

MODULES = tuple(ModuleName)


def clocks_of(instructions: Sequence[Instruction], order: Order) -> list[tuple[int, ...]]:
    """Return each instruction's clock, in the order of `MODULES`.

    A clock holds, for each module, the last instruction that is done for certain when this one
    starts: its module is in order, and a popped token brings all its pusher knew, and the pusher
    itself. The k-th pop of a queue takes the k-th push, so one pass over any order that the
    tokens allow settles it; an instruction that never starts has an empty clock.
    """
    position = {module: at for at, module in enumerate(MODULES)}
    known = [[-1] * len(MODULES) for _ in MODULES]
    clocks: list[tuple[int, ...]] = [()] * len(instructions)
    for index in order.sequence:
        at = position[module_of(instructions[index])]
        clock = known[at]
        for source in order.sources[index]:
            other = position[module_of(instructions[source])]
            clock = [max(pair) for pair in zip(clock, clocks[source], strict=True)]
            clock[other] = max(clock[other], source)
        clocks[index] = tuple(clock)
        clock = list(clock)
        clock[at] = index
        known[at] = clock
    return clocks
