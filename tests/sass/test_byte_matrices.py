"""Products of 8-bit integers by warps become integer instructions of tensor cores alone."""

from __future__ import annotations

from functools import cache

import pytest

from tests.compiler.gpu.byte_cases import MATRICES as CASES
from tests.sass.loops import innermost, loops, opcodes, widths
from tests.sass.nvidia import Compiler
from tests.sass.test_kernels import LISTED, check_usage
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.gpu.matrix import default_matrix_tile
from vdla.compiler.gpu.rows import STEP_BYTES
from vdla.compiler.targets.gpu import CUDA, Kernel, source_of
from vdla.compiler.targets.gpu.matrices import SIDE

IMMA = {75: ("IMMA.8816", 8 * 8 * 16), 80: ("IMMA.16816", 16 * 8 * 16)}
"""By the first architecture that has it: an instruction and the products that a warp adds up by it.

NVIDIA's PTX ISA gives both shapes: m8n8k16 and m16n8k16.
"""
WHOLE = ("int8 dense 64x128x96", "uint8 dense 64x128x96")
"""Rows of both factors are whole vectors of 16 bytes, and steps as long as they get."""


@cache
def _kernel(name: str) -> Kernel:
    case = CASES[name]()
    return operator_kernel(case.graph, case.graph.nodes[0], matrices=True).kernel


@pytest.mark.parametrize("name", CASES)
def test_a_product_by_warps_stays_in_its_registers(name: str, nvidia: Compiler) -> None:
    # Compute capability 7.0 has no integers in its tensor cores.
    check_usage(_kernel(name), nvidia, LISTED)


@pytest.mark.parametrize("architecture", LISTED)
@pytest.mark.parametrize("name", ["int8 matmul 65x70x33", "int8 conv 3x3", *WHOLE])
def test_a_step_multiplies_by_tensor_cores_alone(
    name: str, architecture: int, nvidia: Compiler
) -> None:
    listing = nvidia.instructions(nvidia.compile(source_of(_kernel(name), CUDA), architecture))
    # Copies of elements are in loops of their own within a step.
    (step,) = (
        loop
        for loop in map(opcodes, (innermost if name in WHOLE else loops)(listing))
        if any(opcode.startswith("IMMA") for opcode in loop)
    )
    shape, products = IMMA[max(first for first in IMMA if first <= architecture)]
    opcode = f"{shape}.S8.S8"
    assert [one for one in step if one.startswith("IMMA.8816") or one.startswith("IMMA.16")] == [
        opcode
    ]
    assert opcodes(listing)[opcode] == step[opcode]
    tile = default_matrix_tile(64, 64)
    down, across = tile.tiles
    assert step[opcode] == down * across * STEP_BYTES * SIDE * SIDE // products
    assert not any(one.startswith("IDP") for one in step)
    # A tile is 256 bytes, which one instruction loads: two matrices of 8 rows of 16 bytes.
    loads = {one: count for one, count in step.items() if one.startswith("LDSM")}
    assert loads == {"LDSM.16.M88.2": (down + across) * STEP_BYTES // SIDE}
    assert not any(one.startswith("LDS.") or one == "LDS" for one in step)


@pytest.mark.parametrize("architecture", LISTED)
@pytest.mark.parametrize("name", WHOLE)
def test_rows_are_copied_16_bytes_at_a_time(name: str, architecture: int, nvidia: Compiler) -> None:
    # A block of 128 threads copies both tiles. For sm_100 the assembler takes some loads apart.
    listing = nvidia.instructions(nvidia.compile(source_of(_kernel(name), CUDA), architecture))
    (step,) = (loop for loop in map(opcodes, innermost(listing)) if any("IMMA" in o for o in loop))
    copied = sum(default_matrix_tile(64, 64).shape) * STEP_BYTES // 128
    for opcode in ("LDG", "STS"):
        found = widths(step, opcode)
        assert sum(bits // 8 * count for bits, count in found.items()) == copied
        assert architecture == 100 or {*found} == {128}


@pytest.mark.parametrize("architecture", LISTED)
def test_uint8_become_int8_by_one_instruction_a_register(
    architecture: int, nvidia: Compiler
) -> None:
    source = source_of(_kernel("uint8 dense 64x128x96"), CUDA)
    listing = nvidia.instructions(nvidia.compile(source, architecture))
    (step,) = (loop for loop in innermost(listing) if any("IMMA" in line for line in loop))
    # Of a tile each thread has two registers.
    tiles = default_matrix_tile(64, 64).tiles[0] * STEP_BYTES // SIDE
    assert sum("LOP3.LUT" in line and "0x80808080" in line for line in step) == 2 * tiles


def test_no_architecture_is_left_out() -> None:
    assert min(IMMA) == min(LISTED)
