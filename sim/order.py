"""Dependence tokens: an order in which a program's instructions can run, or why there is none.

Tokens do not depend on data, so one pass over the flags settles the order for every model.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from vdla.config import Config
from vdla.errors import ProgramError
from vdla.isa import Instruction, ModuleName, TokenQueue, line_of, module_of, pops, pushes

__all__ = ["Order", "Wait", "order_of"]


@dataclass(frozen=True)
class Wait:
    """A module that cannot go on.

    Parameters
    ----------
    module : ModuleName
    index : int
        The instruction it stands at.
    queue : TokenQueue or None
        The token queue it waits for; None where the instruction was never fetched.
    full : bool
        The queue has no room for the instruction's push, rather than no token for its pop.
    reason : str
        The diagnosis, as a sentence.
    """

    module: ModuleName
    index: int
    queue: TokenQueue | None
    full: bool
    reason: str


@dataclass(frozen=True)
class Order:
    """What the tokens of a program allow.

    Parameters
    ----------
    sequence : list of int
        Indices of the instructions that start, each module's in program order.
    sources : list of tuple of int
        For each instruction, those whose tokens it pops.
    waits : tuple of Wait
        The modules that are stuck; empty where every instruction runs.
    leftover : dict of TokenQueue to list of int
        For each queue not empty at the end, the instructions whose tokens remain.
    """

    sequence: list[int] = field(default_factory=list)
    sources: list[tuple[int, ...]] = field(default_factory=list)
    waits: tuple[Wait, ...] = ()
    leftover: dict[TokenQueue, list[int]] = field(default_factory=dict)

    def require_complete(self, total: int) -> None:
        """Raise where a module is stuck.

        Raises
        ------
        ProgramError
            Names each stuck module, its instruction, its queue and the push that is missing.
        """
        if self.waits:
            reasons = "\n".join(f"  {wait.reason}" for wait in self.waits)
            raise ProgramError(
                f"Deadlock after {len(self.sequence)} of {total} instructions:\n{reasons}"
            )

    def require_balanced(self, instructions: list[Instruction]) -> None:
        """Raise where tokens are left over.

        Raises
        ------
        ProgramError
            Names each queue and the instructions that pushed what remains.
        """
        if self.leftover:
            lines = "\n".join(
                f"  {describe_leftover(queue, indices, instructions)}"
                for queue, indices in self.leftover.items()
            )
            raise ProgramError(f"Every token must be popped before the program ends:\n{lines}")


def describe_leftover(
    queue: TokenQueue, indices: list[int], instructions: list[Instruction]
) -> str:
    """Return a sentence about the tokens that remain in a queue."""
    shown = ", ".join(f"{i} (`{line_of(instructions[i])}`)" for i in indices[:4])
    more = f" and {len(indices) - 4} more" if len(indices) > 4 else ""
    plural = "token remains" if len(indices) == 1 else "tokens remain"
    return f"{len(indices)} {plural} in {queue.value}, pushed by instruction {shown}{more}."


class _Machine:
    """Three in-order modules, their command queues and the token queues between them."""

    def __init__(self, instructions: list[Instruction], config: Config) -> None:
        self.instructions = instructions
        self.config = config
        self.modules = [module_of(i) for i in instructions]
        self.pops = [pops(i) for i in instructions]
        self.pushes = [pushes(i) for i in instructions]
        self.queued: dict[ModuleName, deque[int]] = {m: deque() for m in ModuleName}
        self.fetched = 0
        self.running = dict.fromkeys(ModuleName, -1)
        self.tokens: dict[TokenQueue, deque[int]] = {q: deque() for q in TokenQueue}
        self.popped = dict.fromkeys(TokenQueue, 0)
        self.sequence: list[int] = []
        self.sources: list[tuple[int, ...]] = [()] * len(instructions)

    def run(self) -> None:
        while self._fetch() or self._step():
            pass

    def _fetch(self) -> bool:
        before = self.fetched
        while self.fetched < len(self.instructions):
            queue = self.queued[self.modules[self.fetched]]
            if len(queue) >= self.config.command_queue_depth:
                break
            queue.append(self.fetched)
            self.fetched += 1
        return self.fetched > before

    def _step(self) -> bool:
        """Let the module that can, and whose instruction comes first in the program, go on."""
        heads = [(self._head(module), module) for module in ModuleName]
        heads.sort(key=lambda head: head[0])
        return any(self._advance(module, index) for index, module in heads if index >= 0)

    def _head(self, module: ModuleName) -> int:
        """Return the instruction a module executes or would start next, -1 for none."""
        if self.running[module] >= 0:
            return self.running[module]
        return self.queued[module][0] if self.queued[module] else -1

    def _advance(self, module: ModuleName, index: int) -> bool:
        """Start an instruction, or let one that has started push its tokens."""
        started = self.running[module] < 0
        if started:
            if not all(self.tokens[queue] for queue in self.pops[index]):
                return False
            self.sources[index] = tuple(self.tokens[q].popleft() for q in self.pops[index])
            for queue in self.pops[index]:
                self.popped[queue] += 1
            self.sequence.append(index)
            self.queued[module].popleft()
            self.running[module] = index
        if any(map(self._full, self.pushes[index])):
            return started
        for queue in self.pushes[index]:
            self.tokens[queue].append(index)
        self.running[module] = -1
        return True

    def _full(self, queue: TokenQueue) -> bool:
        return len(self.tokens[queue]) >= self.config.token_queue_depth

    def waits(self) -> tuple[Wait, ...]:
        waits = [self._wait(module) for module in ModuleName if self._head(module) >= 0]
        if self.fetched < len(self.instructions):
            index = self.fetched
            module = self.modules[index]
            reason = (
                f"fetch cannot reach {self._name(index)}: the command queue of {module.value} "
                f"holds {self.config.command_queue_depth} instructions already."
            )
            waits.append(Wait(module, index, None, True, reason))
        return tuple(waits)

    def _wait(self, module: ModuleName) -> Wait:
        index = self._head(module)
        where = f"{module.value} is stuck at {self._name(index)}"
        if self.running[module] >= 0:
            queue = next(queue for queue in self.pushes[index] if self._full(queue))
            reason = (
                f"{where}: its push finds {queue.value} full "
                f"({self.config.token_queue_depth} tokens)."
            )
            return Wait(module, index, queue, True, reason)
        queue = next(queue for queue in self.pops[index] if not self.tokens[queue])
        nth = self.popped[queue] + 1
        pushers = [i for i, queues in enumerate(self.pushes) if queue in queues]
        if len(pushers) < nth:
            missing = (
                f"the program pushes only {len(pushers)} there, so push {nth} by "
                f"{queue.producer.value} is missing"
            )
        else:
            missing = f"that push is due from {self._name(pushers[nth - 1])}, which does not run"
        reason = f"{where}: it waits for token {nth} of {queue.value}; {missing}."
        return Wait(module, index, queue, False, reason)

    def _name(self, index: int) -> str:
        return f"instruction {index} (`{line_of(self.instructions[index])}`)"


def order_of(instructions: list[Instruction], config: Config) -> Order:
    """Run a program's tokens.

    An instruction starts when the one before it in its module is done and every token it pops is
    there; that frees its entry of the command queue. It gives all its tokens at once when it is
    done and every queue has room. Among the modules that can go on, the one whose instruction
    comes first in the program does.

    Parameters
    ----------
    instructions : list of Instruction
        Up to and with FINISH.
    config : Config
        Gives the depths of the queues.

    Returns
    -------
    Order
    """
    machine = _Machine(instructions, config)
    machine.run()
    leftover = {queue: list(left) for queue, left in machine.tokens.items() if left}
    return Order(machine.sequence, machine.sources, machine.waits(), leftover)
