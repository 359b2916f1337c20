"""PTX that LLVM writes, as NVIDIA's assembler takes it: its sums stay in registers too."""

from __future__ import annotations

from functools import cache

import pytest

from tests.compiler.gpu.cases import CASES as OPERATORS
from tests.compiler.targets.gpu.schedules import CASES as SCHEDULES
from tests.sass.loops import innermost, opcodes
from tests.sass.nvidia import Compiler
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.gpu.product import default_product_tile
from vdla.compiler.targets.gpu import build_kernel
from vdla.compiler.targets.gpu.ptx import ptx_of

ARCHITECTURES = (75, 80, 86, 89, 90)
UNROLLED = "conv 1x1 images"
"""Nine taps that the assembler writes out, at 80 registers for 768 threads: it spills a few."""


@cache
def _ptx(name: str) -> str:
    if name in SCHEDULES:
        return ptx_of(build_kernel(name, *SCHEDULES[name][0]))
    case = OPERATORS[name]()
    return ptx_of(operator_kernel(case.graph, case.graph.nodes[0]).kernel)


@pytest.mark.parametrize("name", [*SCHEDULES, *OPERATORS])
def test_ptx_assembles_and_stays_in_its_registers(name: str, ptxas: Compiler) -> None:
    for architecture in ARCHITECTURES:
        usage = ptxas.assemble(_ptx(name), architecture).usage
        assert usage.spilled <= (48 if name == UNROLLED else 0), architecture


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["dense 64x32x96", "matmul 64x64x64"])
def test_a_step_of_a_product_is_the_tiles_products(
    name: str, architecture: int, ptxas: Compiler
) -> None:
    case = OPERATORS[name]()
    rows, columns = case.exact.shape
    tile = default_product_tile(rows, columns, case.inputs[0].shape[-1])
    listing = ptxas.instructions(ptxas.assemble(_ptx(name), architecture))
    (step,) = (loop for loop in map(opcodes, innermost(listing)) if loop["FFMA"])
    assert step["FFMA"] == tile.rows * tile.columns * tile.depth
    assert opcodes(listing)["FFMA"] == step["FFMA"]
    wide = sum(count for code, count in step.items() if code.startswith("LDS") and "128" in code)
    assert wide == (tile.rows + tile.columns) * tile.depth // 4


def test_ptx_that_does_not_assemble_is_seen(ptxas: Compiler) -> None:
    text = _ptx("dense 7x13x5").replace("bar.sync", "bar.sink")
    with pytest.raises(AssertionError, match=r"kernel\.ptx, line \d+; error"):
        ptxas.assemble(text, 75)
