"""Why a program stands still: who waits on which queue, and which push is missing."""

from __future__ import annotations

import numpy as np

from vdla.isa import TokenQueue, decode_one, line_of
from vdla.program import Program

from .state import NEVER, State
from .table import MODULES, QUEUES, Table

__all__ = ["deadlock_text", "limit_text"]


def deadlock_text(program: Program, table: Table, state: State, cycle: int) -> str:
    """Return one line for the deadlock and one for each module that waits."""
    return "\n  ".join(
        [f"Deadlock: nothing can progress after cycle {cycle}.", *_waits(program, table, state)]
    )


def limit_text(program: Program, table: Table, state: State, limit: int) -> str:
    """Return one line for the limit and one for each module that has work left."""
    return "\n  ".join(
        [f"A program must finish within {limit} cycles; this one has not.",
         *_waits(program, table, state)]
    )  # fmt: skip


def _line(program: Program, index: int) -> str:
    low, high = program.instructions[index].tolist()
    text = " ".join(line_of(decode_one(low | high << 64, program.config)).split())
    return f"instruction {index} ({text})"


def _waits(program: Program, table: Table, state: State) -> list[str]:
    columns, lines = table.columns, []
    for m, module in enumerate(MODULES):
        record = state.module[m]
        mine = state.order[record["offset"] : record["offset"] + record["count"]]
        started, retired = int(record["started"]), int(record["retired"])
        if retired == len(mine):
            continue
        stuck = _full_queue(program, table, state, int(mine[retired]))
        if retired < started and stuck:
            lines.append(f"{module.value} cannot retire {stuck}")
        elif started == len(mine):
            lines.append(f"{module.value} works on {_line(program, int(mine[retired]))}.")
        elif started == record["dispatched"]:
            lines.append(
                f"{module.value} waits for {_line(program, int(mine[started]))} to be fetched; "
                f"fetch stands at instruction {int(state.one[0]['fetch_next'])}."
            )
        else:
            index = int(mine[started])
            queue = _empty_queue(columns[index], state)
            what = _line(program, index)
            if queue is None:
                lines.append(f"{module.value} is about to start {what}.")
            else:
                lines.append(
                    f"{module.value} waits at {what} for a token of {QUEUES[queue].value}: "
                    + _missing_push(program, table, state, queue)
                )
    return lines


def _empty_queue(row: np.void, state: State) -> int | None:
    for flag in ("pop_prev", "pop_next"):
        queue = int(row[flag])
        if queue >= 0 and state.queue["pushes"][queue] == state.queue["pops"][queue]:
            return queue
    return None


def _full_queue(program: Program, table: Table, state: State, index: int) -> str | None:
    depth = program.config.token_queue_depth
    for flag in ("push_prev", "push_next"):
        queue = int(table.columns[index][flag])
        if queue < 0 or state.log["ready"][index] == NEVER:
            continue
        if state.queue["pushes"][queue] - state.queue["pops"][queue] >= depth:
            name = QUEUES[queue]
            return (
                f"{_line(program, index)}: {name.value} holds its {depth} tokens and "
                f"{name.consumer.value} pops none; a pop is missing."
            )
    return None


def _missing_push(program: Program, table: Table, state: State, queue: int) -> str:
    columns = table.columns
    pushes = (columns["push_prev"] == queue) | (columns["push_next"] == queue)
    waiting = np.flatnonzero(pushes & (state.log["finish"] == NEVER))
    name: TokenQueue = QUEUES[queue]
    done = int(state.queue["pushes"][queue])
    if len(waiting) == 0:
        return (
            f"its {done} pushes are all popped and no instruction of {name.producer.value} is "
            f"left that pushes to it; a push is missing before this pop."
        )
    return f"the next push is that of {_line(program, int(waiting[0]))}, which has not finished."
