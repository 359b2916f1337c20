"""RQ's parameters under random overwriting: every model against the scalar reading."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder import Builder, Case
from tests.configs import MATRIX
from tests.naive import run_naive
from vdla.config import Config
from vdla.isa import Alu, AluOp, Finish, Gemm, MemoryType, Store
from vdla.sim import cycle, functional
from vdla.sim.functional import alu

ENTRIES = 12


def overwriting(config: Config, seed: int) -> Case:
    """RQ in loops over a dozen entries, parameters among them; src stays for some micro-ops."""
    rng = np.random.default_rng([seed, config.hash])
    b = Builder(config)
    lanes = config.batch * config.block_out
    rows = rng.integers(-(1 << 31), 1 << 31, (ENTRIES, lanes)).astype(np.int32)
    rows >>= rng.integers(0, 31, (ENTRIES, 1))
    b.load(MemoryType.ACC, 0, b.place(MemoryType.ACC, rows), ENTRIES)
    count = int(rng.integers(1, 9))
    dst = rng.integers(0, ENTRIES - 4, count)
    src = np.repeat(rng.integers(0, ENTRIES - 6, count), rng.integers(1, 5, count))[:count]
    b.uops([*zip(dst.tolist(), src.tolist(), [0] * count, strict=True), (0, 0, 0)])
    for _ in range(3):
        dst_out, dst_in, src_out, src_in = rng.integers(0, 2, 4).tolist()
        b.add(
            Alu(
                alu_opcode=AluOp.RQ,
                uop_begin=0,
                uop_end=count,
                iter_out=int(rng.integers(1, 4)),
                iter_in=int(rng.integers(1, 3)),
                dst_factor_out=dst_out,
                dst_factor_in=dst_in,
                src_factor_out=src_out,
                src_factor_in=src_in,
                imm=int(rng.choice([0x0001, 0x7F80])),  # nothing clipped, or int8
            )
        )
    every = {"uop_begin": count, "uop_end": count + 1, "iter_in": ENTRIES, "dst_factor_in": 1}
    for amount in (0, 12, 12):  # OUT shows low bits, then high ones
        b.add(Alu(**every, alu_opcode=AluOp.SHR, use_imm=True, imm=amount, push_next=True))
        target = b.reserve(ENTRIES)
        b.add(Store(sram_base=0, dram_base=target, x_size=ENTRIES, pop_prev=True, push_prev=True))
        b.add(Gemm(uop_begin=0, uop_end=0, pop_next=True))
    b.add(Finish())
    return b.case(f"held{seed}-{config.name}")


@pytest.mark.parametrize("config", MATRIX, ids=lambda c: c.name)
def test_overwritten_parameters(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(25):
        case = overwriting(config, seed)
        expected = run_naive(case.program, case.dram)
        found = case.fresh()
        cycle.run(case.program, found)
        np.testing.assert_array_equal(found, expected, case.name)
        for scalars in (1 << 22, 1):  # at once, and an iteration of the inner loop at a time
            monkeypatch.setattr(alu, "_BATCH_SCALARS", scalars)
            found = case.fresh()
            functional.run(case.program, found)
            np.testing.assert_array_equal(found, expected, case.name)


def test_images_hold_their_own_parameters() -> None:
    case = overwriting(MATRIX[4], 7)
    images = np.stack([case.dram] * 3)
    images[1:, :256] = np.random.default_rng(1).integers(0, 256, (2, 256))
    expected = np.stack([run_naive(case.program, image) for image in images])
    for run in (functional.run, cycle.run):
        found = images.copy()
        run(case.program, found)
        np.testing.assert_array_equal(found, expected)
