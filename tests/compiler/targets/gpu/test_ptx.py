"""PTX through LLVM: what its instructions compute, run on the processor, and what PTX says.

LLVM's instructions of a thread are compiled for this processor, with a thread's place and the
barrier as functions of the fibres that stand for a block; LLVM's back end for PTX is trusted.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ll
import numpy as np
import pytest

from tests.compiler.gpu.byte_cases import CASES as BYTES
from tests.compiler.gpu.cases import CASES as OPERATORS
from tests.compiler.gpu.cases import HALVES, MATRICES
from tests.compiler.targets.gpu.on_processor import SHIM, unwritten
from tests.compiler.targets.gpu.schedules import CASES as SCHEDULES
from vdla.compiler.gpu import operator_kernel
from vdla.compiler.targets.cpu import host_target
from vdla.compiler.targets.gpu import Kernel, build_kernel, entry_name
from vdla.compiler.targets.gpu.ptx import llvm_of, ptx_of
from vdla.compiler.te import call, compute, create_schedule, placeholder
from vdla.errors import LoweringError

Array = np.ndarray
SPECIAL = {
    **{
        f"llvm.nvvm.read.ptx.sreg.{which}.{axis}": f"{called}_{axis}"
        for which, called in (("ctaid", "blockIdx"), ("tid", "threadIdx"))
        for axis in "xyz"
    },
    "llvm.nvvm.barrier0": "barrier_of_block",
    **{f"llvm.nvvm.idp4a.{a}.{b}": f"dot_{a}{b}" for a in "su" for b in "su"},
}
KINDS = {"s": "signed char", "u": "unsigned char"}
PLACES = "\n".join(
    f'extern "C" int {name}() {{ return {name.replace("_", ".")}; }}'
    for name in SPECIAL.values()
    if "Idx" in name
)

DOTS = "\n".join(
    f"""extern "C" int dot_{a}{b}(int left, int right, int sum) {{
        for (int k = 0; k < 4; ++k)
            sum += (({KINDS[a]} *)&left)[k] * (({KINDS[b]} *)&right)[k];
        return sum;
    }}"""
    for a in KINDS
    for b in KINDS
)


def _run(kernel: Kernel, arrays: list[Array], folder: Path) -> Array:
    """Return what the instructions of a kernel write, given the arrays that it reads."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    module: ll.Module = llvm_of(kernel)
    machine = host_target().machine()
    module.triple, module.data_layout = host_target().triple, str(machine.target_data)
    text = str(module).replace("ptx_kernel ", "")
    for name, ours in SPECIAL.items():
        text = text.replace(f'@"{name}"', f"@{ours}")
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    folder.mkdir(exist_ok=True)
    (folder / "kernel.o").write_bytes(machine.emit_object(parsed))
    name, count = entry_name(kernel), len(kernel.parameters)
    (folder / "kernel.inc").write_text(
        f"""{PLACES}
{DOTS}
extern "C" void barrier_of_block() {{ wait_for_all(); }}
extern "C" void {name}({", ".join(["void *"] * count)});
"""
    )
    given = ", ".join(f"arguments[{k}]" for k in range(count))
    library = folder / "kernel.so"
    command = [compiler, "-O1", "-fPIC", "-shared", "-w", f"-DKERNEL={name}"]
    command += [f"-DARGUMENTS={given}", f'-DSOURCE="{folder / "kernel.inc"}"', str(SHIM)]
    subprocess.run([*command, str(folder / "kernel.o"), "-lm", "-o", str(library)], check=True)
    read = iter(arrays)
    values = [
        unwritten(p) if p.written else np.ascontiguousarray(next(read)) for p in kernel.parameters
    ]
    (result,) = (v for p, v in zip(kernel.parameters, values, strict=True) if p.written)
    sizes = [(ctypes.c_int * 3)(*size) for size in (kernel.grid, kernel.block)]
    addresses = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
    assert ctypes.CDLL(str(library)).launch(*sizes, addresses) == 0, "threads part at a barrier"
    return result


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_by_its_instructions(name: str, tmp_path: Path) -> None:
    case = OPERATORS[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    case.check(_run(made.kernel, [*case.inputs, *made.constants.values()], tmp_path))


@pytest.mark.parametrize("name", HALVES)
def test_halves_by_their_instructions(name: str, tmp_path: Path) -> None:
    case = HALVES[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    case.check(_run(made.kernel, [*case.inputs, *made.constants.values()], tmp_path))
    text = ptx_of(made.kernel)
    assert {"cvt.f32.f16", "cvt.rn.f16.f32"} <= set(re.findall(r"cvt\.\S+", text))
    assert not re.search(r"\b(add|fma|mul)\.\S*f16", text)


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("int8 matmul 65x70x33", "dp4a.s32.s32"),
        ("uint8 matmul batch", "dp4a.u32.u32"),
        ("uint8 dense 33x75x34", "dp4a.u32.s32"),
        ("int8 conv 3x3", "dp4a.s32.s32"),
    ],
)
def test_dot_products_by_their_instructions(name: str, instruction: str, tmp_path: Path) -> None:
    case = BYTES[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    found = _run(made.kernel, [*case.inputs, *made.constants.values()], tmp_path)
    np.testing.assert_array_equal(found, case.exact)
    assert instruction in ptx_of(made.kernel)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_by_its_instructions(name: str, tmp_path: Path) -> None:
    made, numpy = SCHEDULES[name]
    kernel = build_kernel(name, *made)
    rng = np.random.default_rng(3)
    shapes = [p.shape for p in kernel.parameters if not p.written]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    np.testing.assert_allclose(_run(kernel, arrays, tmp_path), numpy(*arrays), 1e-6)


def _element(body: Any) -> Kernel:
    a = placeholder((70,), "float32", "a")
    out = compute((70,), lambda i: body(a[i]), "out")
    s = create_schedule(out)
    block, thread = s[out].split(s[out].axis[0], factor=32)
    s[out].bind(block, "blockIdx.x")
    s[out].bind(thread, "threadIdx.x")
    return build_kernel("element", s, [a, out])


@pytest.mark.parametrize("function", ["exp", "log", "tanh", "erf", "sqrt", "floor", "rint", "abs"])
def test_functions_need_no_library(function: str, tmp_path: Path) -> None:
    import math

    kernel = _element(lambda x: call(function, x))
    text = ptx_of(kernel)
    assert ".extern" not in text
    given = np.linspace(0.1, 4, 70).astype(np.float32)
    of = {"abs": abs, "rint": round}.get(function) or getattr(math, function)
    want = np.array([of(float(x)) for x in given])
    np.testing.assert_allclose(_run(kernel, [given], tmp_path), want, 1e-6)


def test_what_is_in_a_library_alone_is_refused() -> None:
    with pytest.raises(
        LoweringError,
        match=r"PTX must hold all that a kernel calls, and element calls powf of a library: "
        r"compile its CUDA C\.",
    ):
        ptx_of(_element(lambda x: call("pow", x, x)))


def test_what_a_warp_does_together_is_refused() -> None:
    case = MATRICES["dense 64x32x96"]()
    kernel = operator_kernel(case.graph, case.graph.nodes[0], matrices=True).kernel
    with pytest.raises(
        LoweringError,
        match=r"PTX must be of what a thread does by itself, and matrix_fill_float32 is for a "
        r"warp: compile its CUDA C\.",
    ):
        ptx_of(kernel)


def test_ptx_says_what_the_driver_must_know() -> None:
    kernel = build_kernel("rows", *SCHEDULES["rows_shared"][0])
    text = ptx_of(kernel)
    assert re.search(r"^\.version 6\.3\n\.target sm_70\n\.address_size 64$", text, re.M)
    assert f".visible .entry {entry_name(kernel)}(" in text
    x, y, z = kernel.block
    assert re.search(rf"^\.maxntid {x * y * z}$", text, re.M)
    assert "bar.sync" in text
    assert sum(int(n) for n in re.findall(r"\.shared .*\[(\d+)\];", text)) == 4 * sum(
        buffer.total for buffer in kernel.shared
    )
    assert ".local" not in text  # registers are registers
