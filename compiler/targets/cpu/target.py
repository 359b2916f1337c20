"""What machine code is made for: a level of an architecture, and how much of it fits at once.

Code of a level runs on every machine of that level, so a level lists each feature it uses, and
LLVM is given that list and no processor's name whose features would come with it.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from typing import Any

from vdla.errors import DeviceError
from vdla.processor import architecture, features

__all__ = ["LEVELS", "Target", "host_target", "supports"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A level of an architecture.

    Attributes
    ----------
    level : str
        Its name, such as ``"x86-64-avx2"``.
    architecture : str
        A name of ``vdla.processor.ELF_MACHINES``.
    triple : str
        LLVM's name for architecture, system and calling convention.
    cpu : str
        Whose instruction latencies LLVM schedules for. It brings no feature that the level does
        not have.
    llvm_features : str
        LLVM's features, each with its sign.
    requires : tuple of str
        The kernel's names of the features that code of this level uses (see
        ``vdla.processor.features``).
    vector_bits : int
        The widest vector register that arithmetic runs on at full rate.
    vector_registers : int
        How many of them there are.
    """

    level: str
    architecture: str
    triple: str
    cpu: str
    llvm_features: str
    requires: tuple[str, ...]
    vector_bits: int
    vector_registers: int

    @staticmethod
    def named(level: str) -> Target:
        """Return the target of a level.

        Raises
        ------
        DeviceError
            There is none of that name.
        """
        if level not in LEVELS:
            raise DeviceError(
                f"A CPU target must be one of {', '.join(LEVELS)}, not {level!r}: "
                "name one of these."
            )
        return LEVELS[level]

    @property
    def pointer_bits(self) -> int:
        """Bits of an address."""
        return 32 if self.architecture == "armv7" else 64

    def has(self, feature: str) -> bool:
        """Tell whether code may use a feature, by the kernel's name, such as ``"avx512_vnni"``."""
        return feature in self.requires

    def lanes(self, bits: int) -> int:
        """Return how many values of so many bits one vector register holds."""
        return self.vector_bits // bits

    def machine(self, *, opt: int = 3) -> Any:
        """Return LLVM's code generator for position-independent code of this level.

        Parameters
        ----------
        opt : int
            LLVM's level of optimization, 0 to 3.
        """
        import llvmlite.binding as llvm

        _initialize_llvm()
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.llvm_features, opt=opt, reloc="pic", codemodel="default"
        )


def supports(target: Target) -> bool:
    """Tell whether this machine runs code of a target."""
    if sys.platform != "linux":
        return False
    return target.architecture == architecture() and features().issuperset(target.requires)


def host_target() -> Target:
    """Return the highest level that this machine has, or the one that ``VDLA_CPU`` names.

    Raises
    ------
    DeviceError
        ``VDLA_CPU`` names no level, or one that this machine lacks; or no code can be made for
        this machine.
    """
    return _host_target(os.environ.get("VDLA_CPU") or None)


@functools.cache
def _host_target(forced: str | None) -> Target:
    mine = [one for one in LEVELS.values() if supports(one)]
    if forced is not None:
        if forced not in LEVELS:
            raise DeviceError(
                f"VDLA_CPU must be one of {', '.join(LEVELS)}, not {forced!r}: "
                "set it to one of these, or unset it."
            )
        if LEVELS[forced] not in mine:
            raise DeviceError(
                f"VDLA_CPU must name a level that this machine has "
                f"({', '.join(one.level for one in mine) or 'none'}), not {forced}, "
                f"which needs {_missing(LEVELS[forced])}: set it to one of these, or unset it."
            )
        return LEVELS[forced]
    if not mine:
        raise DeviceError(
            "Code for the processor must be for Linux on x86-64, on AArch64, or on ARMv7 with "
            f"NEON, and this machine is {sys.platform} on {architecture()}: run the network on "
            "another device."
        )
    return mine[0]


def _missing(target: Target) -> str:
    if target.architecture != architecture():
        return f"a processor of architecture {target.architecture}"
    return ", ".join(name for name in target.requires if name not in features())


@functools.cache
def _initialize_llvm() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _levels() -> dict[str, Target]:
    # The kernel's names and LLVM's. AVX2 comes with what every processor with it has (x86-64-v3),
    # AVX-512 with the parts that servers have had from the first (x86-64-v4).
    avx2 = {
        "avx2": "avx2",
        "fma": "fma",
        "f16c": "f16c",
        "bmi1": "bmi",
        "bmi2": "bmi2",
        "abm": "lzcnt",
        "movbe": "movbe",
        "popcnt": "popcnt",
    }
    avx512 = avx2 | {f"avx512{part}": f"avx512{part}" for part in ("f", "bw", "cd", "dq", "vl")}
    avxvnni = avx2 | {"avx_vnni": "avxvnni"}
    vnni = avx512 | {"avx512_vnni": "avx512vnni"}
    amx = vnni | {
        "avx512_bf16": "avx512bf16",
        "amx_tile": "amx-tile",
        "amx_int8": "amx-int8",
        "amx_bf16": "amx-bf16",
    }

    def x86(name: str, cpu: str, has: dict[str, str], bits: int, registers: int) -> Target:
        listed = [f"+{llvm}" for llvm in has.values()]
        if bits == 512:
            listed.append("-prefer-256-bit")  # else LLVM splits vectors of 512 bits in two
        return Target(
            level=name,
            architecture="x86-64",
            triple="x86_64-unknown-linux-gnu",
            cpu=cpu,
            llvm_features=",".join(listed),
            requires=tuple(has),
            vector_bits=bits,
            vector_registers=registers,
        )

    def aarch64(name: str, has: dict[str, str]) -> Target:
        return Target(
            level=name,
            architecture="aarch64",
            triple="aarch64-unknown-linux-gnu",
            cpu="cortex-a53",  # runs in order, so it gains most from being scheduled for
            llvm_features=",".join(
                [*(f"+{llvm}" for llvm in has.values()), "-crc", "-aes", "-sha2", "-perfmon"]
            ),
            requires=tuple(has),
            vector_bits=128,
            vector_registers=32,
        )

    ladder = [
        x86("x86-64-amx", "x86-64-v4", amx, 512, 32),
        x86("x86-64-vnni", "x86-64-v4", vnni, 512, 32),
        x86("x86-64-avx512", "x86-64-v4", avx512, 512, 32),
        x86("x86-64-avxvnni", "x86-64-v3", avxvnni, 256, 16),
        x86("x86-64-avx2", "x86-64-v3", avx2, 256, 16),
        x86("x86-64", "x86-64", {}, 128, 16),
        aarch64("aarch64-dot", {"asimd": "neon", "asimddp": "dotprod"}),
        aarch64("aarch64-neon", {"asimd": "neon"}),
        Target(
            level="armv7-neon",
            architecture="armv7",
            triple="armv7-unknown-linux-gnueabihf",
            cpu="cortex-a9",
            llvm_features="+neon",
            requires=("neon", "vfpv3"),
            vector_bits=128,
            vector_registers=16,
        ),
    ]
    return {one.level: one for one in ladder}


LEVELS = _levels()
"""Every target by its level, of each architecture the highest first."""
