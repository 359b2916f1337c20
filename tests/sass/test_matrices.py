"""Products by warps become instructions of tensor cores, as many as the tile has products."""

from __future__ import annotations

from functools import cache

import pytest

from tests.compiler.gpu.cases import MATRICES as CASES
from tests.sass.loops import innermost, loops, opcodes
from tests.sass.nvidia import Compiler
from tests.sass.test_kernels import ARCHITECTURES, LISTED, check_usage
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.gpu.matrix import default_matrix_tile
from vdla.compiler.gpu.rows import STEP_BYTES
from vdla.compiler.targets.gpu import CUDA, Kernel, source_of
from vdla.compiler.targets.gpu.matrices import SIDE

DEPTH = STEP_BYTES // 2
HMMA = {75: ("HMMA.1688.F32", 16 * 8 * 8), 80: ("HMMA.16816.F32", 16 * 8 * 16)}
"""By the first architecture that has it: an instruction and the products that a warp adds up by it.

NVIDIA's PTX ISA gives both shapes: m16n8k8 and m16n8k16.
"""


VECTORS = ("dense 64x96x128", "conv 3x3 divided")
"""Rows of both factors are whole vectors of 8 halves."""


@cache
def _kernel(name: str) -> Kernel:
    case = CASES[name]()
    return operator_kernel(case.graph, case.graph.nodes[0], matrices=True).kernel


@pytest.mark.parametrize("name", CASES)
def test_a_product_by_warps_stays_in_its_registers(name: str, nvidia: Compiler) -> None:
    check_usage(_kernel(name), nvidia)


@pytest.mark.parametrize("architecture", LISTED)
@pytest.mark.parametrize("name", ["matmul 129x100x70", *VECTORS])
def test_a_step_multiplies_by_tensor_cores_alone(
    name: str, architecture: int, nvidia: Compiler
) -> None:
    machine = nvidia.compile(source_of(_kernel(name), CUDA), architecture)
    listing = nvidia.instructions(machine)
    # Copies of elements are in loops of their own within a step.
    (step,) = (
        loop
        for loop in map(opcodes, (innermost if name in VECTORS else loops)(listing))
        if any(opcode.startswith("HMMA") for opcode in loop)
    )
    opcode, products = HMMA[max(first for first in HMMA if first <= architecture)]
    assert [one for one in step if one.startswith("HMMA")] == [opcode]
    assert opcodes(listing)[opcode] == step[opcode]
    tile = default_matrix_tile(64, 64)
    down, across = tile.tiles
    assert step[opcode] == down * across * DEPTH * SIDE * SIDE // products
    assert not step["FFMA"]
    assert not step["HFMA2"]
    # Tiles are loaded by an instruction of their own: 16 x 16 halves of a warp are 512 bytes, and
    # one takes 4 x 128 of them, or on Turing 2 x 128.
    loads = sum(count for one, count in step.items() if one.startswith("LDSM"))
    assert loads == (down + across) * (DEPTH // SIDE) * (2 if architecture < 80 else 1)
    # A block of 128 threads copies both tiles, by 8 halves of a row where rows are whole vectors.
    copied = sum(tile.shape) * DEPTH // 128
    for opcode in ("LDG.E", "STS"):
        found = {
            width: count
            for one, count in step.items()
            if one.startswith(opcode)
            for width in one.split(".")
            if width in ("64", "128", "U16")
        }
        if name in VECTORS:
            assert found == {"128": copied // 8}
        else:
            assert {*found} == {"U16"}


def test_no_architecture_is_left_out() -> None:
    assert min(HMMA) == min(LISTED)
    assert set(ARCHITECTURES) - set(LISTED) == {70}  # compiled above, and not listed
