"""The processor that this program runs on: its architecture and what it can do.

Features have the names that Linux gives them. They are what the kernel has switched on, so a
feature that the processor has and the kernel or a virtual machine withholds is not among them.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
import struct
import sys
from pathlib import Path

__all__ = [
    "ELF_MACHINES",
    "ONE_THREAD",
    "architecture",
    "available_cores",
    "available_cpus",
    "cpu_budget",
    "features",
    "model_name",
    "permit_amx",
]

ELF_MACHINES = {"x86-64": 62, "aarch64": 183, "armv7": 40}
"""Architectures that code is made for, and their numbers in the header of an ELF file."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of a process that has one core, for libraries that read it as they are loaded."""

# Bits of getauxval(AT_HWCAP); see asm/hwcap.h of each architecture.
_HWCAP = 16
_HWCAPS = {
    "aarch64": {"asimd": 1, "asimdhp": 10, "asimddp": 20, "sve": 22},
    "armv7": {"neon": 12, "vfpv3": 13, "vfpv4": 16, "idiva": 17},
}
_CPUINFO = Path("/proc/cpuinfo")
_CPUS = Path("/sys/devices/system/cpu")
_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

# asm/prctl.h
_SYS_ARCH_PRCTL = 158
_ARCH_GET_XCOMP_SUPP = 0x1021
_ARCH_REQ_XCOMP_PERM = 0x1023
_XTILEDATA = 18


@functools.cache
def architecture() -> str:
    """Return the architecture of this process, a name of ``ELF_MACHINES`` where it is one.

    A 32-bit process on a 64-bit kernel is a 32-bit one.
    """
    machine = platform.machine().lower()
    wide = struct.calcsize("P") == 8
    if machine in ("x86_64", "amd64"):
        return "x86-64" if wide else "x86"
    if machine in ("aarch64", "arm64"):
        return "aarch64" if wide else "armv7"
    return "armv7" if machine.startswith(("armv7", "armv8")) else machine


@functools.cache
def features() -> frozenset[str]:
    """Return the features of the processor, by the kernel's names.

    On x86-64 they are the flags of ``/proc/cpuinfo``, on ARM those of the auxiliary vector that
    matter here. Nothing known, as on another system, is an empty set.
    """
    bits = _HWCAPS.get(architecture())
    if sys.platform != "linux":
        return frozenset()
    if bits is not None:
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
        word = getauxval(_HWCAP)
        return frozenset(name for name, bit in bits.items() if word >> bit & 1)
    try:
        lines = _CPUINFO.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    found = set(flags.split())
    if "amx_tile" in found and not _kernel_has_amx():
        found -= {name for name in found if name.startswith("amx")}
    return frozenset(found)


@functools.cache
def model_name() -> str:
    """Return what the kernel calls the processor, its family and model included.

    Virtual machines call different ones by one name, so the name alone says too little. Where
    nothing is known, as on another system, it is the architecture.
    """
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return architecture()
    said: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        said.setdefault(key.strip(), value.strip())
    parts = [said.get("model name", "")]
    names = ("cpu family", "model", "CPU implementer", "CPU part")
    parts += [f"{name} {said[name]}" for name in names if said.get(name)]
    return ", ".join(part for part in parts if part) or architecture()


def available_cpus() -> list[int]:
    """Return the CPUs that this process may run on: one of every core, then the cores' others.

    Two CPUs of a core share its arithmetic, so what computes without pause gains little from the
    second.
    """
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    cpus = sorted(os.sched_getaffinity(0))
    place: dict[str, int] = {}  # by core: how many of its CPUs came before
    order = []
    for cpu in cpus:
        core = _core_of(cpu)
        order.append((place.setdefault(core, 0), cpu))
        place[core] += 1
    return [cpu for _, cpu in sorted(order)]


def available_cores() -> int:
    """Return how many cores the process may run on: how many threads of arithmetic are useful.

    A limit on the time that a container may take counts as so many fewer.
    """
    cores = len({_core_of(cpu) for cpu in available_cpus()})
    return max(1, min(cores, cpu_budget()))


def cpu_budget() -> int:
    """Return how many threads can run at once: CPUs of this process, or what a container gives."""
    cpus = len(available_cpus())
    quotas = [quota for folder in _cgroups() if (quota := _quota_of(folder)) is not None]
    return max(1, min([cpus, *(math.ceil(quota) for quota in quotas)]))


def _core_of(cpu: int) -> str:
    path = _CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list"
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return str(cpu)


def _cgroups() -> list[Path]:
    """Return the folders of the control groups that limit this process, innermost first."""
    try:
        lines = _CGROUP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    name = next((line[3:] for line in lines if line.startswith("0::")), None)
    if name is None:
        return []
    inner = _CGROUPS / name.lstrip("/")
    return [inner, *(one for one in inner.parents if one.is_relative_to(_CGROUPS))]


def _quota_of(folder: Path) -> float | None:
    """Return how many CPUs' time a control group may take; None where there is no limit."""
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def permit_amx() -> bool:
    """Ask the kernel to let this process use AMX tiles; return whether it does.

    Tiles take 8 KiB more to save at each switch of threads, so Linux gives them on request.
    """
    return _arch_prctl(_ARCH_REQ_XCOMP_PERM, ctypes.c_ulong(_XTILEDATA))


def _kernel_has_amx() -> bool:
    mask = ctypes.c_uint64()
    return _arch_prctl(_ARCH_GET_XCOMP_SUPP, ctypes.byref(mask)) and bool(
        mask.value >> _XTILEDATA & 1
    )


def _arch_prctl(code: int, argument: object) -> bool:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    done = syscall(ctypes.c_long(_SYS_ARCH_PRCTL), ctypes.c_long(code), argument)
    return bool(done == 0)
