"""Levels: which machine has which, what forces one, and what each may use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from vdla.compiler.targets.cpu import LEVELS, Target, host_target, supports
from vdla.compiler.targets.cpu import target as subject
from vdla.errors import DeviceError

ROOT = Path(__file__).resolve().parents[4]

ZEN3 = {"sse2", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe", "popcnt"}
SKYLAKE_SERVER = ZEN3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
CASCADE_LAKE = SKYLAKE_SERVER | {"avx512_vnni"}
ALDER_LAKE = ZEN3 | {"avx_vnni"}
SAPPHIRE_RAPIDS = CASCADE_LAKE | {"avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"}


class Machine:
    """A machine to pretend to be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, architecture: str, features: set[str]) -> None:
        self._patch.setattr(subject, "architecture", lambda: architecture)
        self._patch.setattr(subject, "features", lambda: frozenset(features))
        subject._host_target.cache_clear()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.delenv("VDLA_CPU", raising=False)
    yield Machine(monkeypatch)
    subject._host_target.cache_clear()


@pytest.mark.parametrize(
    ("architecture", "features", "level"),
    [
        ("x86-64", set(), "x86-64"),
        ("x86-64", ZEN3 - {"fma"}, "x86-64"),
        ("x86-64", ZEN3, "x86-64-avx2"),
        ("x86-64", ALDER_LAKE, "x86-64-avxvnni"),
        ("x86-64", SKYLAKE_SERVER, "x86-64-avx512"),
        ("x86-64", CASCADE_LAKE, "x86-64-vnni"),
        ("x86-64", SAPPHIRE_RAPIDS, "x86-64-amx"),
        ("x86-64", SAPPHIRE_RAPIDS - {"amx_int8"}, "x86-64-vnni"),
        ("aarch64", {"asimd"}, "aarch64-neon"),
        ("aarch64", {"asimd", "asimddp"}, "aarch64-dot"),
        ("armv7", {"neon", "vfpv3"}, "armv7-neon"),
    ],
)
def test_the_host_is_the_highest_level_it_has(
    machine: Machine, architecture: str, features: set[str], level: str
) -> None:
    machine(architecture, features)
    assert host_target().level == level
    assert host_target() is host_target()


def test_a_level_can_be_forced(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("x86-64", CASCADE_LAKE)
    for level in ("x86-64-vnni", "x86-64-avx512", "x86-64-avx2", "x86-64"):
        monkeypatch.setenv("VDLA_CPU", level)
        assert host_target().level == level
    monkeypatch.setenv("VDLA_CPU", "")
    assert host_target().level == "x86-64-vnni"


@pytest.mark.parametrize(
    ("forced", "message"),
    [
        (
            "avx2",
            "VDLA_CPU must be one of x86-64-amx, x86-64-vnni, x86-64-avx512, x86-64-avxvnni, "
            "x86-64-avx2, x86-64, aarch64-dot, aarch64-neon, armv7-neon, not 'avx2': set it to one "
            "of these, or unset it.",
        ),
        (
            "x86-64-vnni",
            "VDLA_CPU must name a level that this machine has (x86-64-avx2, x86-64), not "
            "x86-64-vnni, which needs avx512f, avx512bw, avx512cd, avx512dq, avx512vl, "
            "avx512_vnni: set it to one of these, or unset it.",
        ),
        (
            "armv7-neon",
            "VDLA_CPU must name a level that this machine has (x86-64-avx2, x86-64), not "
            "armv7-neon, which needs a processor of architecture armv7: set it to one of these, "
            "or unset it.",
        ),
    ],
)
def test_what_cannot_be_forced(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, forced: str, message: str
) -> None:
    machine("x86-64", ZEN3)
    monkeypatch.setenv("VDLA_CPU", forced)
    with pytest.raises(DeviceError) as error:
        host_target()
    assert str(error.value) == message


def test_a_machine_without_a_level(machine: Machine) -> None:
    machine("riscv64", set())
    with pytest.raises(DeviceError) as error:
        host_target()
    assert str(error.value) == (
        "Code for the processor must be for Linux on x86-64, on AArch64, or on ARMv7 with NEON, "
        "and this machine is linux on riscv64: run the network on another device."
    )


def test_another_system_has_no_level(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("aarch64", {"asimd"})
    monkeypatch.setattr(subject.sys, "platform", "darwin")
    with pytest.raises(DeviceError, match=r"and this machine is darwin on aarch64: run the"):
        host_target()


def test_a_name_of_no_level() -> None:
    assert Target.named("armv7-neon").triple == "armv7-unknown-linux-gnueabihf"
    with pytest.raises(DeviceError, match=r"must be one of x86-64-amx, .*, not 'z80': name one"):
        Target.named("z80")


def test_a_level_knows_its_sizes() -> None:
    vnni, arm = Target.named("x86-64-vnni"), Target.named("armv7-neon")
    assert (vnni.lanes(32), vnni.lanes(8), vnni.pointer_bits) == (16, 64, 64)
    assert (arm.lanes(32), arm.vector_registers, arm.pointer_bits) == (4, 16, 32)
    assert vnni.has("avx512_vnni")
    assert not vnni.has("amx_tile")


VECTORS = """\
define void @add(ptr %a) {
  %x = load <16 x float>, ptr %a, align 4
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %a, align 4
  ret void
}
"""


@pytest.mark.parametrize(
    ("level", "used", "not_used"),
    [
        ("x86-64", "%xmm", "%ymm"),
        ("x86-64-avx2", "%ymm", "%zmm"),
        ("x86-64-avxvnni", "%ymm", "%zmm"),
        ("x86-64-avx512", "%zmm", "%ymm"),
        ("x86-64-vnni", "%zmm", "%ymm"),
        ("x86-64-amx", "%zmm", "%ymm"),
        ("aarch64-neon", ".4s", "z0"),
        ("aarch64-dot", ".4s", "z0"),
        ("armv7-neon", "vadd.f32\tq", "vfma"),
    ],
)
def test_vectors_are_as_wide_as_the_level_says(level: str, used: str, not_used: str) -> None:
    one = Target.named(level)
    module = llvm.parse_assembly(VECTORS)
    module.triple = one.triple
    text = one.machine().emit_assembly(module)
    assert used in text
    assert not_used not in text


def test_the_page_has_every_level() -> None:
    page = (ROOT / "docs/processors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*?)` \| (.*?) \| (\d+) of (\d+) bits \|$", page, re.MULTILINE)
    listed: dict[str, tuple[set[str], int, int]] = {}
    for level, features, registers, bits in reversed(rows):  # lower levels first
        names = set()
        for name in features.split(", "):
            if name.startswith("those of `"):
                names |= listed[name.removeprefix("those of ").strip("`")][0]
            elif not name.startswith("none"):
                names.add(name)
        listed[level] = (names, int(registers), int(bits))
    assert list(listed) == list(reversed(LEVELS))
    assert listed == {
        name: (set(one.requires), one.vector_registers, one.vector_bits)
        for name, one in LEVELS.items()
    }


def test_this_machine_supports_its_own_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VDLA_CPU", raising=False)
    assert supports(host_target())
    foreign = [one for one in LEVELS.values() if one.architecture != host_target().architecture]
    assert foreign
    assert not any(map(supports, foreign))
