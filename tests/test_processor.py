"""What is known of the processor: from where, and what it means where little is known."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vdla import processor
from vdla.processor import (
    ELF_MACHINES,
    architecture,
    available_cores,
    available_cpus,
    cpu_budget,
    features,
    model_name,
)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    architecture.cache_clear()
    features.cache_clear()
    model_name.cache_clear()
    yield
    architecture.cache_clear()
    features.cache_clear()
    model_name.cache_clear()


@pytest.mark.parametrize(
    ("machine", "pointer_bytes", "name"),
    [
        ("x86_64", 8, "x86-64"),
        ("AMD64", 8, "x86-64"),
        ("x86_64", 4, "x86"),
        ("aarch64", 8, "aarch64"),
        ("arm64", 8, "aarch64"),
        ("aarch64", 4, "armv7"),  # 32-bit Python on a 64-bit kernel
        ("armv7l", 4, "armv7"),
        ("armv8l", 4, "armv7"),
        ("riscv64", 8, "riscv64"),
    ],
)
def test_the_architecture_is_the_process_own(
    machine: str, pointer_bytes: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(struct, "calcsize", lambda form: pointer_bytes)
    assert architecture() == name


CPUINFO = "processor\t: 0\nmodel name\t: x\nflags\t\t: fpu sse2 avx2 fma{more}\nbogomips\t: 1\n"


def pretend_x86(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: str = "", xcomp: int | None = None
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(struct, "calcsize", lambda form: 8)
    file = tmp_path / "cpuinfo"
    file.write_text(CPUINFO.format(more=more), encoding="ascii")
    monkeypatch.setattr(processor, "_CPUINFO", file)

    def arch_prctl(code: int, argument: Any) -> bool:
        assert code == 0x1021
        if xcomp is not None:
            argument._obj.value = xcomp
        return xcomp is not None

    monkeypatch.setattr(processor, "_arch_prctl", arch_prctl)


def test_features_of_x86_are_the_kernels_flags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend_x86(monkeypatch, tmp_path)
    assert features() == {"fpu", "sse2", "avx2", "fma"}


@pytest.mark.parametrize(
    ("xcomp", "has"),
    [
        (1 << 17 | 1 << 18, True),
        (1 << 9, False),  # a kernel that gives other state alone
        (None, False),  # one from before it could be asked
    ],
)
def test_amx_counts_where_the_kernel_gives_tiles(
    xcomp: int | None, has: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend_x86(monkeypatch, tmp_path, more=" amx_tile amx_int8", xcomp=xcomp)
    assert ("amx_tile" in features(), "amx_int8" in features()) == (has, has)
    assert "avx2" in features()


def test_without_cpuinfo_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend_x86(monkeypatch, tmp_path)
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "none")
    assert features() == frozenset()
    assert model_name() == "x86-64"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        # Of two processors of one name, only the family and the model tell which.
        (
            "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\n"
            "processor\t: 1\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n",
            "AMD EPYC, cpu family 25, model 1",
        ),
        (
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n",
            "CPU implementer 0x41, CPU part 0xd03",
        ),
    ],
)
def test_a_processor_has_the_kernels_name(
    text: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(text, encoding="ascii")
    monkeypatch.setattr(processor, "_CPUINFO", file)
    assert model_name() == name


@pytest.mark.parametrize(
    ("machine", "pointer_bytes", "hwcap", "expected"),
    [
        # Of a Cortex-A9 of a Zynq-7000, and of a Cortex-A53 and A55.
        ("armv7l", 4, 0x0007B8D7 & ~(1 << 16 | 1 << 17), {"neon", "vfpv3"}),
        ("aarch64", 8, 0xFF, {"asimd"}),
        ("aarch64", 8, 0xFF | 1 << 10 | 1 << 20, {"asimd", "asimdhp", "asimddp"}),
    ],
)
def test_features_of_arm_are_the_auxiliary_vectors(
    machine: str,
    pointer_bytes: int,
    hwcap: int,
    expected: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(struct, "calcsize", lambda form: pointer_bytes)

    class Libc:
        @staticmethod
        def getauxval(kind: int) -> int:
            assert kind == 16  # AT_HWCAP
            return hwcap

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Libc)
    assert features() == expected


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four cores of two CPUs each, of which the process has six CPUs; no limit on its time."""
    for cpu in range(8):
        topology = tmp_path / f"cpus/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        siblings = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n"
        (topology / "thread_siblings_list").write_text(siblings, encoding="ascii")
    (tmp_path / "cgroup").write_text("0::/outer/inner\n", encoding="ascii")
    (tmp_path / "groups/outer/inner").mkdir(parents=True)
    (tmp_path / "groups/outer/inner/cpu.max").write_text("max 100000\n", encoding="ascii")
    monkeypatch.setattr(processor, "_CPUS", tmp_path / "cpus")
    monkeypatch.setattr(processor, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(processor, "_CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 4, 6})
    return tmp_path


def test_cores_come_before_their_second_cpus(machine: Path) -> None:
    assert available_cpus() == [0, 2, 4, 6, 1, 3]
    assert (available_cores(), cpu_budget()) == (4, 6)


@pytest.mark.parametrize(
    ("quota", "budget", "cores"),
    [("200000", 2, 2), ("250000", 3, 3), ("50000", 1, 1), ("500000", 5, 4), ("900000", 6, 4)],
)
@pytest.mark.parametrize("group", ["outer", "outer/inner"])
def test_a_containers_limit_counts(
    machine: Path, group: str, quota: str, budget: int, cores: int
) -> None:
    limit = machine / "groups" / group / "cpu.max"
    limit.write_text(f"{quota} 100000\n", encoding="ascii")
    assert (cpu_budget(), available_cores()) == (budget, cores)


def test_without_topology_every_cpu_is_a_core(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_CPUS", machine / "none")
    monkeypatch.setattr(processor, "_CGROUP", machine / "none")
    assert (available_cpus(), available_cores()) == ([0, 1, 2, 3, 4, 6], 6)


def test_this_machine_is_known() -> None:
    assert architecture() in ELF_MACHINES
    assert features() or architecture() == "x86-64"
    assert available_cpus()
