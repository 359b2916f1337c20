"""Kernels of Winograd's algorithms keep tiles, and what becomes of them, in registers."""

from __future__ import annotations

import pytest

from tests.compiler.gpu.cases import SAME, convolution
from tests.sass.nvidia import Compiler
from tests.sass.test_kernels import check_usage
from vdla.compiler.gpu import compile_network

CASES = {
    "64 to 64 channels": ((1, 28, 28, 64), 64, "float32"),
    "17 to 9 channels": ((2, 9, 10, 17), 9, "float32"),
    "half floats": ((1, 28, 28, 64), 64, "float16"),
}


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_they_stay_in_their_registers(name: str, tile: int, nvidia: Compiler) -> None:
    image, channels, dtype = CASES[name]
    case = convolution(image, channels, (3, 3), padding=SAME, dtype=dtype)
    made = compile_network(case.graph, winograd=tile, dtype=dtype)
    assert len(made.kernels) == 3
    for kernel in made.kernels:
        check_usage(kernel, nvidia)
