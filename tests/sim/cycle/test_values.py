"""The cycle model's results: the functional model's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests import programs
from tests.builder import Case
from tests.configs import MATRIX, SMALL
from tests.pinned import PINNED
from tests.random_programs import random_case
from vdla.config import PYNQ_Z1, Config
from vdla.errors import ProgramError
from vdla.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store, encode_uops
from vdla.program import Program
from vdla.sim import cycle, functional
from vdla.sim.cycle import values as values_module
from vdla.sim.cycle.products import Loop, Product, expand, make_products

UOP, WGT, INP = MemoryType.UOP, MemoryType.WGT, MemoryType.INP


@pytest.mark.parametrize("config", MATRIX, ids=lambda c: c.name)
def test_random_programs(config: Config) -> None:
    for seed in range(8):
        case = random_case(config, seed)
        dram = case.fresh()
        cycle.run(case.program, dram)
        case.check(dram)


@pytest.mark.parametrize("name", PINNED)
def test_pinned_meaning(name: str) -> None:
    case = PINNED[name]
    dram = case.fresh()
    cycle.run(case.program, dram)
    case.check(dram)


@pytest.mark.slow
@pytest.mark.parametrize("config", MATRIX, ids=lambda c: c.name)
def test_many_random_programs(config: Config) -> None:
    for seed in range(100, 140):
        case = random_case(config, seed, length=120)
        dram = case.fresh()
        cycle.run(case.program, dram)
        case.check(dram)


@pytest.mark.parametrize("config", SMALL, ids=lambda c: c.name)
@pytest.mark.parametrize("vthreads", [1, 2])
def test_hand_written_programs(config: Config, vthreads: int) -> None:
    cases: list[Case] = [
        programs.load_store(config),
        programs.padded_load(config, (2, 1, 1, 2), -3),
        programs.gemm_blocks(config, vthreads),
        programs.dense(config),
    ]
    for case in cases:
        dram = case.fresh()
        cycle.run(case.program, dram)
        case.check(dram)


def test_images_run_through_one_timing() -> None:
    case = programs.gemm_blocks(PYNQ_Z1, 2)
    rng = np.random.default_rng(3)
    images = np.repeat(case.dram[np.newaxis], 3, axis=0)
    data = images[:, :4096]  # micro-ops stand behind it
    data[...] = rng.integers(0, 256, data.shape)
    expected = images.copy()
    for image in expected:
        functional.run(case.program, image)
    result = cycle.run(case.program, images)
    np.testing.assert_array_equal(images, expected)
    assert result.cycles == cycle.time(case.program, case.dram).cycles


def test_a_memory_that_is_not_contiguous() -> None:
    case = programs.load_store(PYNQ_Z1)
    wide = np.zeros((len(case.dram), 2), np.uint8)
    wide[:, 0] = case.dram
    cycle.run(case.program, wide[:, 0])
    case.check(np.ascontiguousarray(wide[:, 0]))


def test_a_base_moves_every_address() -> None:
    case = programs.gemm_blocks(PYNQ_Z1, 1)
    moved = np.concatenate([np.full(8192, 0x77, np.uint8), case.dram])
    result = cycle.run(case.program, moved, base=8192)
    case.check(moved[8192:])
    assert result.cycles == cycle.time(case.program, case.dram).cycles


def gemm_program(
    uops: np.ndarray, inp: np.ndarray, wgt: np.ndarray, config: Config, *work: Instruction
) -> tuple[Program, np.ndarray]:
    """Load everything, do the work in compute, store 64 entries at the end of memory."""
    parts, bases = bytearray(), []
    for array in (uops, inp, wgt):
        parts += bytes(-len(parts) % 4096)
        bases.append(len(parts))
        parts += array.tobytes()
    parts += bytes(-len(parts) % 4096)
    out = len(parts) // config.out_elem_bytes
    parts += bytes(64 * config.out_elem_bytes)
    inps = inp.nbytes // config.inp_elem_bytes
    wgts = wgt.nbytes // config.wgt_elem_bytes
    instructions = [
        Load(memory_type=UOP, sram_base=0, dram_base=bases[0] // 4, x_size=len(uops)),
        Load(
            memory_type=INP, sram_base=0, dram_base=bases[1] // config.inp_elem_bytes, x_size=inps
        ),
        Load(
            memory_type=WGT,
            sram_base=0,
            dram_base=bases[2] // config.wgt_elem_bytes,
            x_size=wgts,
            push_next=True,
        ),
        Alu(uop_begin=0, uop_end=0, alu_opcode=AluOp.ADD, pop_prev=True),
        *work,
        Alu(uop_begin=0, uop_end=0, alu_opcode=AluOp.ADD, push_next=True),
        Store(sram_base=0, dram_base=out, x_size=64, pop_prev=True, push_prev=True),
        Finish(pop_next=True),
    ]
    return Program.from_instructions(instructions, config), np.frombuffer(bytes(parts), np.uint8)


def both(program: Program, dram: np.ndarray) -> None:
    expected = dram.copy()
    functional.run(program, expected)
    found = dram.copy()
    cycle.run(program, found)
    np.testing.assert_array_equal(found, expected)


def test_sums_past_the_mantissa_of_float32_are_exact() -> None:
    # 300 blocks of 16 products of 2^14 pass 2^24 four times over; the last bit must survive.
    config = PYNQ_Z1
    inp = np.full((301, 16), -128, np.int8)
    inp[300] = 0
    inp[300, 0] = 1
    wgt = np.full((301, 16, 16), -128, np.int8)
    wgt[300] = 1
    uops = encode_uops([0], [0], [0], config)
    sums = Gemm(uop_begin=0, uop_end=1, iter_in=301, src_factor_in=1, wgt_factor_in=1)
    # 300 * 16 * 2^14 + 1 shifted so that only the last bits decide OUT.
    lift = Alu(uop_begin=0, uop_end=1, alu_opcode=AluOp.SHR, use_imm=True, imm=-24)
    drop = Alu(uop_begin=0, uop_end=1, alu_opcode=AluOp.SHR, use_imm=True, imm=24)
    clear = Gemm(uop_begin=0, uop_end=1, iter_in=64, dst_factor_in=1, reset=True)
    program, dram = gemm_program(uops, inp, wgt, config, clear, sums, lift, drop)
    both(program, dram)
    found = dram.copy()
    cycle.run(program, found)
    out = found[-64 * config.out_elem_bytes :].view(np.int8)
    assert out[0] == 1


def test_blocks_wider_than_float32_adds_exactly() -> None:
    config = Config(
        batch=2, block_in=2048, block_out=2, inp_bytes=64 << 10, wgt_bytes=64 << 10,
        acc_bytes=4 << 10, uop_bytes=1 << 10,
    )  # fmt: skip
    inp = np.full((4, 2, 2048), -128, np.int8)
    inp[:, :, 0] = 127
    wgt = np.full((4, 2, 2048), -128, np.int8)
    uops = encode_uops([0, 1], [0, 1], [0, 1], config)
    clear = Gemm(uop_begin=0, uop_end=1, iter_in=64, dst_factor_in=1, reset=True)
    shift = Alu(uop_begin=0, uop_end=2, alu_opcode=AluOp.SHR, use_imm=True, imm=7)
    both(*gemm_program(uops, inp, wgt, config, clear, Gemm(uop_begin=0, uop_end=2), shift))


def random_inputs(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    inp = rng.integers(-128, 128, (512, 16)).astype(np.int8)
    return inp, rng.integers(-128, 128, (256, 16, 16)).astype(np.int8), rng


@pytest.mark.parametrize("overwrite", [False, True])
def test_entries_written_again_and_again(overwrite: bool) -> None:
    inp, wgt, rng = random_inputs(1)
    uops = encode_uops(
        rng.integers(0, 8, 40), rng.integers(0, 9, 40), rng.integers(0, 9, 40), PYNQ_Z1
    )
    gemm = Gemm(
        uop_begin=0, uop_end=40, iter_out=3, iter_in=4, dst_factor_out=2, dst_factor_in=1,
        src_factor_out=7, src_factor_in=5, wgt_factor_out=3, wgt_factor_in=1, overwrite=overwrite,
    )  # fmt: skip
    clear = Gemm(uop_begin=0, uop_end=1, iter_in=64, dst_factor_in=1, reset=True)
    shift = Alu(uop_begin=0, uop_end=40, alu_opcode=AluOp.SHR, use_imm=True, imm=10)
    both(*gemm_program(uops, inp, wgt, PYNQ_Z1, clear, gemm, shift))


@pytest.mark.parametrize("limit", ["_REGROUPED", "_GATHERED", "_CACHED", "_ONE_THREAD"])
@pytest.mark.parametrize("size", [1, 10, 5000])
def test_limits_change_no_result(limit: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, limit, size)
    inp, wgt, _ = random_inputs(2)
    dst, src = np.repeat([0, 30], 18), np.tile(np.arange(18), 2)
    uops = encode_uops(dst, src, np.concatenate([np.arange(18), np.arange(18) + 40]), PYNQ_Z1)
    gemm = Gemm(
        uop_begin=0, uop_end=36, iter_out=4, iter_in=6, dst_factor_out=6, dst_factor_in=1,
        src_factor_out=20, src_factor_in=2,
    )  # fmt: skip
    clear = Gemm(uop_begin=0, uop_end=1, iter_in=64, dst_factor_in=1, reset=True)
    shift = Alu(
        uop_begin=0, uop_end=1, iter_in=60, dst_factor_in=1, alu_opcode=AluOp.SHR, use_imm=True,
        imm=9,
    )  # fmt: skip
    both(*gemm_program(uops, inp, wgt, PYNQ_Z1, clear, gemm, gemm, shift))


def micro_ops_of(products: list[Product]) -> list[tuple[int, int, int]]:
    found = []
    for product in products:
        for g in range(len(product.dst)):
            source = product.src[g if len(product.src) > 1 else 0]
            for p, target in enumerate(product.dst[g].tolist()):
                pairs = zip(source[p].tolist(), product.wgt[g].tolist(), strict=True)
                found += [(target, s, w) for s, w in pairs]
    return sorted(found)


@pytest.mark.parametrize("seed", range(30))
def test_regrouping_keeps_every_micro_op(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    spread = int(rng.integers(1, 6))
    kernel = tuple(rng.integers(0, spread, n) for _ in range(3))
    loops = tuple(
        Loop(int(rng.integers(1, 4)), *(int(x) for x in rng.integers(0, 3, 3))) for _ in range(2)
    )
    every = expand(*kernel, loops)
    found = micro_ops_of(make_products(*kernel, loops, overwrite=False))
    assert found == sorted(zip(*(column.tolist() for column in every), strict=True))
    last = {d: (d, s, w) for d, s, w in zip(*(c.tolist() for c in every), strict=True)}
    assert micro_ops_of(make_products(*kernel, loops, overwrite=True)) == sorted(last.values())
    pieces = [
        piece
        for product in make_products(*kernel, loops, overwrite=False)
        for piece in product.pieces(terms=2, entries=3)
    ]
    assert micro_ops_of(pieces) == found


def test_a_convolution_becomes_one_product() -> None:
    # 9 taps of 2 blocks, 4 x 5 positions: one product of 20 rows and 18 blocks to reduce.
    taps = np.array([y * 7 + x + c * 42 for c in range(2) for y in range(3) for x in range(3)])
    kernel = (np.zeros(18, np.int64), taps, np.arange(18))
    loops = (Loop(4, 5, 7, 0), Loop(5, 1, 1, 0))
    (product,) = make_products(*kernel, loops, overwrite=False)
    assert product.src.shape == (1, 20, 18)
    assert product.wgt.shape == (1, 18)


def far(**fields: object) -> Gemm:
    return Gemm(uop_begin=0, uop_end=1, iter_in=3000, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gemm", "message"),
    [
        (far(dst_factor_in=1), r"ACC indices must lie below 2048, not reach 2999"),
        (far(src_factor_in=1), r"INP indices must lie below 2048, not reach 2999"),
        (far(wgt_factor_in=1), r"WGT indices must lie below 1024, not reach 2999"),
        (far(dst_factor_in=1, reset=True), r"ACC indices must lie below 2048, not reach 2048"),
        (
            Alu(uop_begin=0, uop_end=1, iter_in=3000, src_factor_in=1, alu_opcode=AluOp.ADD),
            r"ACC indices must lie below 2048, not reach 2048",
        ),
    ],
)
def test_an_index_past_its_buffer_is_named(gemm: Instruction, message: str) -> None:
    inp, wgt, _ = random_inputs(3)
    program, dram = gemm_program(encode_uops([0], [0], [0], PYNQ_Z1), inp, wgt, PYNQ_Z1, gemm)
    with pytest.raises(ProgramError, match=f"Instruction 4: {message}"):
        cycle.run(program, dram.copy())


def test_a_transfer_outside_memory_is_named() -> None:
    store = Store(sram_base=0, dram_base=1 << 20, x_size=1)
    program = Program.from_instructions([store, Finish()], PYNQ_Z1)
    with pytest.raises(ProgramError, match=r"Instruction 0: a transfer must lie within the 64 byt"):
        cycle.run(program, np.zeros(64, np.uint8))


def test_images_must_agree_on_micro_ops() -> None:
    load = Load(memory_type=UOP, sram_base=0, dram_base=0, x_size=1)
    program = Program.from_instructions([load, Finish()], PYNQ_Z1)
    images = np.zeros((2, 64), np.uint8)
    images[1, 0] = 1
    with pytest.raises(ProgramError, match="Micro-ops must be the same for all images"):
        cycle.run(program, images)


def test_without_values_memory_stays_as_it_is() -> None:
    case = programs.load_store(PYNQ_Z1)
    dram = case.fresh()
    result = cycle.run(case.program, dram, values=False)
    np.testing.assert_array_equal(dram, case.dram)
    assert result.cycles > 0
