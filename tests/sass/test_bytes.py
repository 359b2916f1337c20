"""Dot products of four 8-bit integers are one instruction each, and their sums in registers."""

from __future__ import annotations

from functools import cache
from math import prod

import pytest

from tests.compiler.gpu.byte_cases import CASES
from tests.sass.loops import innermost, opcodes
from tests.sass.nvidia import Compiler, Machine
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.gpu.product import default_product_tile
from vdla.compiler.targets.gpu import CUDA, Kernel, source_of
from vdla.compiler.targets.gpu.intrinsics import WORD

ARCHITECTURES = (75, 80, 86, 89, 90, 100)
BLOCK_REGISTERS = 65_536
OPCODES = {
    "int8 matmul 64x128x64": (32, "IDP.4A.S8.S8"),
    "int8 dense 64x128x96": (32, "IDP.4A.S8.S8"),
    "uint8 dense 33x75x34": (28, "IDP.4A.U8.S8"),
    "uint8 matmul batch": (5, "IDP.4A.U8.U8"),
}
"""With the words of a sum: channels that have weights of 9 bits come twice."""


@cache
def _kernel(name: str) -> Kernel:
    case = CASES[name]()
    return operator_kernel(case.graph, case.graph.nodes[0]).kernel


def _compiled(name: str, architecture: int, nvidia: Compiler) -> Machine:
    return nvidia.compile(source_of(_kernel(name), CUDA), architecture)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_stays_in_its_registers(name: str, nvidia: Compiler) -> None:
    warps = -(-prod(_kernel(name).block) // 32)
    for architecture in (70, *ARCHITECTURES):
        usage = _compiled(name, architecture, nvidia).usage
        assert (usage.stack, usage.spilled) == (0, 0), architecture
        assert warps * 32 * -(-usage.registers // 8) * 8 <= BLOCK_REGISTERS, architecture


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", OPCODES)
def test_a_products_words_are_instructions(name: str, architecture: int, nvidia: Compiler) -> None:
    # A thread's sums are rows x columns, and it adds a word's products to each at once.
    words, opcode = OPCODES[name]
    tile = default_product_tile(*CASES[name]().exact.shape[-2:], words)
    listing = nvidia.instructions(_compiled(name, architecture, nvidia))
    found = {code: n for code, n in opcodes(listing).items() if code.startswith(("IDP", "IMAD.U8"))}
    assert found == {opcode: tile.rows * tile.columns * tile.depth}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["int8 matmul 64x128x64", "int8 dense 64x128x96"])
def test_a_step_reads_words_four_at_a_time(name: str, architecture: int, nvidia: Compiler) -> None:
    case = CASES[name]()
    tile = default_product_tile(*case.exact.shape, case.inputs[0].shape[-1] // WORD)
    listing = nvidia.instructions(_compiled(name, architecture, nvidia))
    (step,) = (loop for loop in map(opcodes, innermost(listing)) if loop["IDP.4A.S8.S8"])
    assert step["IDP.4A.S8.S8"] == tile.rows * tile.columns * tile.depth
    loads = {code: n for code, n in step.items() if code.startswith("LDS")}
    assert sum(loads.values()) == (tile.rows + tile.columns) * tile.depth // 4
    assert all("128" in code for code in loads)
