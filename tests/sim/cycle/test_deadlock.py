"""Programs that do not end, and what is said about them."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.config import PYNQ_Z1, Config
from vdla.errors import EncodingError, ProgramError
from vdla.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store, encode
from vdla.program import Program
from vdla.sim import cycle

INP = MemoryType.INP


def chain(**changes: dict[str, bool]) -> list[Instruction]:
    """Load, multiply, store, finish; each may lose a flag."""
    flags: dict[str, dict[str, bool]] = {
        "load": {"push_next": True},
        "gemm": {"pop_prev": True, "push_next": True},
        "store": {"pop_prev": True, "push_prev": True},
        "finish": {"pop_next": True},
    }
    for name, change in changes.items():
        flags[name] = {**flags[name], **change}
    return [
        Load(memory_type=INP, sram_base=0, dram_base=0, x_size=4, **flags["load"]),
        Gemm(uop_begin=0, uop_end=1, **flags["gemm"]),
        Store(sram_base=0, dram_base=100, x_size=8, **flags["store"]),
        Finish(**flags["finish"]),
    ]


def time(
    instructions: list[Instruction], config: Config = PYNQ_Z1, limit: int | None = None
) -> cycle.CycleResult:
    return cycle.time(Program.from_instructions(instructions, config), cycle_limit=limit)


def test_a_missing_push_is_named() -> None:
    with pytest.raises(ProgramError) as error:
        time(chain(load={"push_next": False}))
    text = str(error.value)
    assert text.startswith("Deadlock: nothing can progress after cycle 81.")
    assert (
        "compute waits at instruction 1 (gemm uop=0:1 ; pop_prev push_next) for a token of "
        "load->compute: its 0 pushes are all popped and no instruction of load is left that "
        "pushes to it; a push is missing before this pop."
    ) in text
    assert (
        "store waits at instruction 2 (store sram=0 dram=0x64 x=8 ; pop_prev push_prev) for a "
        "token of compute->store: the next push is that of instruction 1 "
        "(gemm uop=0:1 ; pop_prev push_next), which has not finished."
    ) in text


@pytest.mark.parametrize(
    ("name", "flag", "queue"),
    [
        ("load", "push_next", "load->compute"),
        ("gemm", "push_next", "compute->store"),
        ("store", "push_prev", "store->compute"),
    ],
)
def test_every_missing_push_of_a_chain_deadlocks(name: str, flag: str, queue: str) -> None:
    with pytest.raises(ProgramError, match=f"for a token of {queue}"):
        time(chain(**{name: {flag: False}}))


@pytest.mark.parametrize(
    ("name", "flag", "queue"),
    [
        ("gemm", "pop_prev", "load->compute"),
        ("store", "pop_prev", "compute->store"),
        ("finish", "pop_next", "store->compute"),
    ],
)
def test_every_missing_pop_of_a_chain_leaves_a_token(name: str, flag: str, queue: str) -> None:
    assert time(chain(**{name: {flag: False}})).leftover_tokens == {queue: 1}


def test_a_balanced_chain_leaves_nothing() -> None:
    result = time(chain())
    assert result.leftover_tokens == {}
    assert len(result.unfinished) == 0


def test_what_finish_did_not_wait_for_is_listed() -> None:
    result = time(chain(finish={"pop_next": False}, store={"push_prev": False}))
    assert result.unfinished.tolist() == [2]


def test_two_modules_waiting_for_each_other() -> None:
    load = Load(memory_type=INP, sram_base=0, dram_base=0, x_size=4, pop_next=True, push_next=True)
    gemm = Gemm(uop_begin=0, uop_end=1, pop_prev=True, push_prev=True)
    with pytest.raises(ProgramError) as error:
        time([load, gemm, Finish()])
    text = str(error.value)
    assert "load waits at instruction 0" in text
    assert "the next push is that of instruction 1" in text
    assert "compute waits at instruction 1" in text


def test_a_queue_that_nobody_empties() -> None:
    config = PYNQ_Z1.replace(token_queue_depth=2)
    with pytest.raises(ProgramError) as error:
        time([Gemm(uop_begin=0, uop_end=1, push_next=True)] * 3 + [Finish()], config)
    assert (
        "compute cannot retire instruction 2 (gemm uop=0:1 ; push_next): compute->store holds "
        "its 2 tokens and store pops none; a pop is missing."
    ) in str(error.value)


def test_a_full_command_queue_before_the_instruction_that_would_help() -> None:
    config = PYNQ_Z1.replace(command_queue_depth=2)
    waiting = [Gemm(uop_begin=0, uop_end=1, pop_prev=True)] * 4
    load = Load(memory_type=INP, sram_base=0, dram_base=0, x_size=4, push_next=True)
    with pytest.raises(ProgramError) as error:
        time([*waiting, *[load] * 4, Finish()], config)
    text = str(error.value)
    assert "compute waits at instruction 0" in text
    assert "load waits for instruction 4" in text
    assert "to be fetched; fetch stands at instruction 2." in text


def test_the_cycle_limit_is_the_longest_run() -> None:
    cycles = time(chain()).cycles
    assert time(chain(), limit=cycles).cycles == cycles
    with pytest.raises(ProgramError, match=f"must finish within {cycles - 1} cycles") as error:
        time(chain(), limit=cycles - 1)
    assert "compute works on instruction 3 (finish ; pop_next)." in str(error.value)


def test_a_deadlock_is_found_before_a_limit() -> None:
    with pytest.raises(ProgramError, match="Deadlock"):
        time(chain(load={"push_next": False}), limit=10**9)


def test_a_program_needs_finish() -> None:
    with pytest.raises(ProgramError, match="must contain FINISH"):
        time(chain()[:-1])


def test_nothing_behind_finish_counts() -> None:
    assert time([*chain(), *chain()]).cycles == time(chain()).cycles


def test_an_illegal_instruction_is_named() -> None:
    words = encode(chain(), PYNQ_Z1)
    words[1, 0] = np.uint64(6)
    with pytest.raises(EncodingError, match=r"Instruction 1: An opcode must be"):
        cycle.time(Program(PYNQ_Z1, words))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            Load(memory_type=INP, sram_base=2040, dram_base=0, x_size=9),
            r"Instruction 0: a transfer must stay within the 2048 entries of INP, not reach 2049",
        ),
        (
            Gemm(uop_begin=0, uop_end=8193),
            r"Instruction 0: uop_end must be at most the 8192 entries of UOP, not 8193",
        ),
        (
            Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=0, x_size=1),
            r"Instruction 0: micro-ops must lie within the 0 bytes of memory",
        ),
    ],
)
def test_what_leaves_a_buffer_is_refused(bad: Instruction, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        time([bad, Alu(uop_begin=0, uop_end=0, alu_opcode=AluOp.ADD), Finish()])
