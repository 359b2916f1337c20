"""Indices of random loops against two nested loops, with and without waits."""

from __future__ import annotations

from random import Random
from typing import Any

import cocotb

from tests.hw.cocotb.inside.tb import TB
from vdla.config import TINY
from vdla.gateware.sequencer import vector_layout
from vdla.isa import Alu, AluOp, Finish, Gemm, encode_one, encode_uops


def _indices(instruction: Gemm | Alu, uops: list[tuple[int, int, int]]) -> list[tuple[int, ...]]:
    found = []
    for outer in range(instruction.iter_out):
        for inner in range(instruction.iter_in):
            for dst, src, wgt in uops[instruction.uop_begin : instruction.uop_end]:
                is_gemm = isinstance(instruction, Gemm)
                wgt_at = wgt
                if is_gemm:
                    wgt_at += outer * instruction.wgt_factor_out + inner * instruction.wgt_factor_in
                found.append(
                    (
                        dst
                        + outer * instruction.dst_factor_out
                        + inner * instruction.dst_factor_in,
                        src
                        + outer * instruction.src_factor_out
                        + inner * instruction.src_factor_in,
                        wgt_at,
                    )
                )
    return found


async def _run(dut: Any, waits: float) -> None:
    tb, rng = TB(dut, "sequencer"), Random(6)
    await tb.start(valid=0, vector_take=0)
    count = 40
    uops = [
        (
            rng.randrange(TINY.acc_depth),
            rng.randrange(TINY.inp_depth),
            rng.randrange(TINY.wgt_depth),
        )
        for _ in range(count)
    ]
    words = [int(word) for word in encode_uops(*zip(*uops, strict=True), TINY)]
    program: list[Any] = []
    for _ in range(40):
        begin = rng.randrange(count)
        loops = {
            "uop_begin": begin,
            "uop_end": min(count, begin + rng.randint(0, 4)),
            "iter_out": rng.randint(0, 4),
            "iter_in": rng.randint(1, 4),
            "dst_factor_out": rng.randrange(64),
            "dst_factor_in": rng.randrange(64),
            "src_factor_out": rng.randrange(64),
            "src_factor_in": rng.randrange(64),
        }
        if rng.random() < 0.5:
            loops |= {"wgt_factor_out": rng.randrange(16), "wgt_factor_in": rng.randrange(16)}
            program.append(Gemm(**loops, reset=rng.random() < 0.2))
        else:
            program.append(Alu(**loops, alu_opcode=AluOp.ADD, use_imm=True, imm=rng.randint(-9, 9)))
    program.append(Finish())
    want = []
    for position, instruction in enumerate(program):
        found = [] if isinstance(instruction, Finish) else _indices(instruction, uops)
        rows = found or [None]
        for k, row in enumerate(rows):
            want.append((position, row, k == 0, k == len(rows) - 1))
    layout = vector_layout(TINY)
    at, read, address = 0, 0, 0
    got: list[Any] = []
    for _ in range(20000):
        if len(got) == len(want):
            break
        if at < len(program):
            tb.set(instruction=encode_one(program[at], TINY), index=at)
        tb.set(valid=at < len(program))
        ready = rng.random() >= waits
        tb.set(vector_take=bool(tb.get("vector_valid")) and ready)
        await tb.high()
        if tb.get("vector_valid") and ready:
            vector = layout.from_bits(tb.get("vector"))
            position = vector["operation"]["index"]
            row = (vector["dst"], vector["src"], vector["wgt"])
            empty = vector["operation"]["empty"]
            got.append(
                (position, None if empty else row, bool(vector["first"]), bool(vector["last"]))
            )
        at += tb.get("take")
        read, address = tb.get("uop_read"), tb.get("uop_address")
        await tb.low()
        if read:
            tb.set(uop=words[address] if address < count else 0)
    assert got == want


@cocotb.test()
async def a_vector_a_cycle(dut: Any) -> None:
    await _run(dut, 0.0)


@cocotb.test()
async def with_waits(dut: Any) -> None:
    await _run(dut, 0.5)
