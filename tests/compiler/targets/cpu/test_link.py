"""Linking: what comes out is the same each time, self-contained, and for the right machine."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tests.compiler.targets.cpu.handmade import EXTENTS, MEETINGS, Module, library
from vdla.compiler.targets.cpu import LEVELS, Target, link
from vdla.compiler.targets.cpu.elf import read_symbols
from vdla.errors import DeviceError, LoweringError

SUBJECT = importlib.import_module("vdla.compiler.targets.cpu.link")  # not its function
EXPORTS = {
    "vdla_library",
    "vdla_pool",
    "vdla_pool_bytes",
    "vdla_pool_start",
    "vdla_run",
    "vdla_spin",
    "vdla_stop",
    "vdla_worker",
}


def compiled(text: str, level: str) -> bytes:
    target = Target.named(level)
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    return bytes(target.machine().emit_object(module))


CALLS_SIN = """\
declare float @sinf(float)
declare ptr @memcpy(ptr, ptr, i64)
define float @twice(float %x) nounwind {
  %y = call float @sinf(float %x)
  %z = call float @sinf(float %y)
  ret float %z
}
"""


@pytest.mark.parametrize("level", ["x86-64", "x86-64-vnni", "aarch64-neon", "armv7-neon"])
def test_a_library_exports_its_functions_and_asks_for_little(level: str) -> None:
    found = read_symbols(library(level), dynamic=True)
    kernels = {f"loop_{n}" for n in EXTENTS} | {f"meeting_{n}" for n in MEETINGS}
    kernels |= {"nested_60", "network_64_1000", "network_3_100"}
    assert set(found.defined) == EXPORTS | kernels
    assert set(found.undefined) == {"syscall"}


@pytest.mark.parametrize("level", ["x86-64", "aarch64-neon", "armv7-neon"])
def test_the_same_object_is_the_same_library(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Module()
    made.loop(10)
    target = Target.named(level)
    code = made.object(target)
    first = link(code, target)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert link(code, target) == first
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert str(tmp_path).encode() not in first


@pytest.mark.parametrize("level", ["x86-64-avx2", "aarch64-neon", "armv7-neon"])
def test_code_that_needs_another_library_is_refused(level: str) -> None:
    with pytest.raises(LoweringError) as error:
        link(compiled(CALLS_SIN, level), Target.named(level))
    assert str(error.value) == (
        "Generated code must need nothing but erf, erff, exp, expf, log, logf, memcpy, memmove, "
        "memset, pow, powf, syscall, tanh, tanhf, not sinf: define it in the module that is "
        "compiled."
    )


def test_an_object_of_another_architecture_is_refused() -> None:
    with pytest.raises(LoweringError) as error:
        link(compiled(CALLS_SIN, "armv7-neon"), Target.named("aarch64-dot"))
    assert str(error.value) == (
        "An object must be for the architecture it is linked for, aarch64, not armv7: compile it "
        "for aarch64-dot."
    )


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"must be a little-endian ELF file, not b'int ma'…"):
        link(b"int main(void) {}", Target.named("x86-64"))


@pytest.mark.parametrize(
    ("level", "remedy"),
    [
        ("x86-64", "install one with: apt-get install binutils, or pip install 'vdla[cross]'"),
        ("armv7-neon", "install one with: pip install 'vdla[cross]'"),
    ],
)
def test_without_a_linker_the_error_says_what_to_install(
    level: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SUBJECT, "architecture", lambda: "x86-64")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(SUBJECT, "find_spec", lambda name: None)
    target = Target.named(level)
    with pytest.raises(DeviceError) as error:
        link(compiled("define void @nothing() nounwind { ret void }", level), target)
    assert str(error.value) == (
        f"Linking code for {target.architecture} needs a linker for it, and none is installed; "
        f"{remedy}"
    )


@pytest.mark.parametrize("level", LEVELS)
def test_the_extras_linker_links_every_level(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    target = Target.named(level)
    code = compiled("define void @nothing() nounwind { ret void }", level)
    assert read_symbols(link(code, target), dynamic=True).defined == ("nothing",)
