"""Kernels in CUDA C compile for every architecture, and their sums stay in registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import inf, nan, prod

import pytest

from tests.compiler.gpu.cases import CASES as OPERATORS
from tests.compiler.gpu.cases import HALVES, Case
from tests.compiler.gpu.reduction_cases import CASES as REDUCTIONS
from tests.compiler.gpu.test_virtual_threads import CASES as PIECES
from tests.compiler.gpu.tiled import tiled
from tests.compiler.targets.gpu.schedules import CASES as BY_HAND
from tests.sass.loops import innermost, opcodes, widths
from tests.sass.nvidia import Compiler
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.gpu.banks import requests_of
from vdla.compiler.gpu.convolution_tiles import default_convolution_tile
from vdla.compiler.gpu.product import default_product_tile
from vdla.compiler.targets.gpu import CUDA, Kernel, build_kernel, source_of
from vdla.compiler.targets.gpu.limits import shared_bytes
from vdla.compiler.te import Expr, call, compute, create_schedule, maximum, placeholder
from vdla.compiler.te.tensor import IterVar

SCHEDULES = {**BY_HAND, **REDUCTIONS}
LISTED = (75, 80, 86, 89, 90, 100)
"""Turing, both Amperes, Ada, Hopper and Blackwell."""
ARCHITECTURES = (70, *LISTED)
"""With Volta, which the disassembler does not know any more."""
THREAD_REGISTERS, BLOCK_REGISTERS = 255, 65_536
"""CUDA C++ Programming Guide, table of technical specifications by compute capability."""
BLOCK_SHARED = 48 << 10
"""Bytes that a block has without asking for more."""


@cache
def _operator(name: str) -> tuple[Case, Kernel]:
    case = OPERATORS[name]()
    return case, operator_kernel(case.graph, case.graph.nodes[0]).kernel


@pytest.mark.parametrize("name", [*SCHEDULES, *OPERATORS])
def test_a_kernel_stays_in_its_registers(name: str, nvidia: Compiler) -> None:
    if name in SCHEDULES:
        kernel = build_kernel("k", *SCHEDULES[name][0])
    else:
        _, kernel = _operator(name)
    check_usage(kernel, nvidia)


@pytest.mark.parametrize("name", HALVES)
def test_a_kernel_of_halves_does_too(name: str, nvidia: Compiler) -> None:
    case = HALVES[name]()
    kernel = operator_kernel(case.graph, case.graph.nodes[0]).kernel
    check_usage(kernel, nvidia)


def check_usage(
    kernel: Kernel, nvidia: Compiler, architectures: Sequence[int] = ARCHITECTURES
) -> None:
    """Check that a kernel keeps all in registers, on some architectures, and fits a block."""
    source = source_of(kernel, CUDA)
    warps = -(-prod(kernel.block) // 32)
    shared = shared_bytes(kernel)
    for architecture in architectures:
        usage = nvidia.compile(source, architecture).usage
        assert (usage.stack, usage.spilled) == (0, 0), architecture
        assert usage.registers <= THREAD_REGISTERS
        allotted = -(-usage.registers // 8) * 8  # to a warp, 256 at a time
        assert warps * 32 * allotted <= BLOCK_REGISTERS, architecture
        assert shared <= usage.shared <= shared + 31 * len(kernel.shared), architecture  # aligned
        assert usage.shared <= BLOCK_SHARED


@pytest.mark.parametrize("architecture", LISTED)
@pytest.mark.parametrize(
    "name",
    ["dense 64x32x96", "matmul 64x64x64", "dense 65x33x129", "matmul 65x33x129", "matmul large"],
)
def test_a_step_of_a_product_is_the_tiles_products(
    name: str, architecture: int, nvidia: Compiler
) -> None:
    # A thread's sums are rows x columns, and it adds one product to each in every term.
    case, kernel = _operator(name)
    rows, columns = case.exact.shape
    tile = default_product_tile(rows, columns, case.inputs[0].shape[-1])
    step = _loop_of_products(kernel, architecture, nvidia)
    assert step["FFMA"] == tile.rows * tile.columns * tile.depth
    # What it reads of shared memory, four elements at a time.
    read = (tile.rows + tile.columns) * tile.depth
    assert widths(step, "LDS") == {128: read // 4}


@pytest.mark.parametrize("architecture", LISTED)
@pytest.mark.parametrize("name", ["dense 64x32x96", "matmul 64x64x64", "conv 3x3 divided"])
def test_memory_is_read_and_written_128_bits_at_a_time(
    name: str, architecture: int, nvidia: Compiler
) -> None:
    case, kernel = _operator(name)
    listing = opcodes(nvidia.instructions(nvidia.compile(source_of(kernel, CUDA), architecture)))
    for opcode in ("LDG", "STS", "STG"):
        assert set(widths(listing, opcode)) == {128}
    assert widths(listing, "STG")[128] * 4 * prod(kernel.block) * prod(kernel.grid) == (
        case.exact.size
    )


@pytest.mark.parametrize("architecture", LISTED)
@pytest.mark.parametrize("name", ["conv 3x3 divided", "conv 20 channels"])
def test_a_tap_of_a_convolution_is_the_tiles_products(
    name: str, architecture: int, nvidia: Compiler
) -> None:
    # The compiler unrolls the taps of a row, or does not.
    case, kernel = _operator(name)
    (node,) = case.graph.nodes
    weight = case.graph.input_tensors(node)[1]
    tile = default_convolution_tile(case.exact.shape, weight.shape, node.attrs)
    step = _loop_of_products(kernel, architecture, nvidia)
    taps = step["FFMA"] / (tile.channels * tile.columns * tile.depth)
    assert taps in (1, 3)
    assert set(widths(step, "LDS")) == {128}


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        *(("dense 64x32x96", architecture) for architecture in LISTED),
        *(("matmul large", architecture) for architecture in LISTED),
        ("conv large", 90),  # others unroll the taps of a row, and share elements between them
        ("conv large", 100),
    ],
)
def test_shared_memory_is_read_as_often_and_as_wide_as_is_counted(
    name: str, architecture: int, nvidia: Compiler
) -> None:
    _, kernel = _operator(name)
    step = _loop_of_products(kernel, architecture, nvidia)
    counted = Counter(8 * one.size for one in requests_of(kernel.body) if not one.writes)
    assert widths(step, "LDS") == counted


@pytest.mark.parametrize("name", PIECES)
def test_threads_with_pieces_stay_in_their_registers(name: str, nvidia: Compiler) -> None:
    kernel, _ = tiled(*PIECES[name])
    check_usage(kernel, nvidia)
    listing = opcodes(nvidia.instructions(nvidia.compile(source_of(kernel, CUDA), 80)))
    if name == "dense 65x33x129":  # whose tiles are of whole vectors
        assert set(widths(listing, "LDS")) == {128}


def _loop_of_products(kernel: Kernel, architecture: int, nvidia: Compiler) -> dict[str, int]:
    """Return how often each opcode is in the one loop that multiplies, which does so alone."""
    listing = nvidia.instructions(nvidia.compile(source_of(kernel, CUDA), architecture))
    (step,) = (loop for loop in map(opcodes, innermost(listing)) if loop["FFMA"])
    assert opcodes(listing)["FFMA"] == step["FFMA"]
    return step


@pytest.mark.parametrize("architecture", [70, 100])
def test_functions_and_special_floats_compile(architecture: int, nvidia: Compiler) -> None:
    x = placeholder((99,), "float32", "x")
    names = ("abs", "ceil", "erf", "exp", "floor", "log", "rint", "sqrt", "tanh")

    def value(i: IterVar) -> Expr:
        total: Expr = maximum(maximum(x[i], -inf), nan)
        for name in names:
            total = total + call(name, x[i])
        return total

    y = compute((99,), value, "y")
    s = create_schedule(y)
    s[y].bind(s[y].axis[0], "threadIdx.x")
    source = source_of(build_kernel("f", s, [x, y]), CUDA)
    assert nvidia.compile(source, architecture).usage.spilled == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_does_not_stay_in_registers_is_seen(architecture: int, nvidia: Compiler) -> None:
    kept = """
        extern "C" __global__ void kept(const int *at, float *out) {
            float values[64] = {};
            for (int k = 0; k < 999; ++k) values[at[k]] += out[k];
            out[0] = values[at[999]];
        }
    """
    assert nvidia.compile(kept, architecture).usage.stack == 256
    spilling = """
        extern "C" __global__ __launch_bounds__(1024) void spilling(const float *a, float *out) {
            float sums[128] = {};
            for (int k = 0; k < 999; ++k) {
                #pragma unroll
                for (int m = 0; m < 128; ++m) sums[m] += a[k] * a[1000 * m + k];
            }
            #pragma unroll
            for (int m = 0; m < 128; ++m) out[m] = sums[m];
        }
    """
    usage = nvidia.compile(spilling, architecture).usage
    assert usage.spilled > 0
    assert usage.registers <= BLOCK_REGISTERS // 1024
