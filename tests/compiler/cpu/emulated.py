"""Instructions that this processor may lack, as functions written from Intel's and ARM's manuals.

Code of a higher level is emitted as always; then each such instruction becomes a call of a
function with its name's meaning, and LLVM compiles the whole for the processor that is there.
Wider vectors than it has are LLVM's to split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from vdla.compiler.cpu import pipeline
from vdla.compiler.targets.cpu import kernel
from vdla.compiler.targets.cpu.target import Target, host_target
from vdla.runtime import native

__all__ = ["emulated", "emulated_target"]


def emulated_target(level: str) -> Target:
    """Return a level for which code is chosen, that LLVM compiles for this processor."""
    here = host_target()
    return replace(
        Target.named(level),
        architecture=here.architecture,
        triple=here.triple,
        cpu=here.cpu,
        llvm_features=here.llvm_features,
    )


@contextmanager
def emulated(target: Target) -> Iterator[None]:
    """Compile with functions instead of instructions, and load what needs them."""
    features = native.features() | set(target.requires)
    with (
        patch.object(pipeline, "optimize", lambda m, t: kernel.optimize(_Rewritten(m), t)),
        patch.object(native, "features", lambda: features),
        patch.object(native, "permit_amx", lambda: True),
    ):
        yield


class _Rewritten:
    """A module whose text has the functions."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.triple = self.data_layout = ""

    def __str__(self) -> str:
        self._module.triple, self._module.data_layout = self.triple, self.data_layout
        text = str(self._module)
        for name, function in _FUNCTIONS.items():
            declaration = rf'^declare .*@"{re.escape(name)}"\(.*$'
            if re.search(declaration, text, re.MULTILINE):
                text = re.sub(declaration, "", text, flags=re.MULTILINE)
                text = text.replace(f'@"{name}"', f'@"emulated.{name}"')
                text += function.replace("NAME", f'@"emulated.{name}"')
        return text


def _dot(lanes: int, group: int, kind: str, widen: tuple[str, str], add: bool) -> str:
    """Return ``sums[l] = before[l] + sum(widen(a[l, k]) * widen(b[l, k]) for k in group)``.

    Products of 8 bits are exact in 32, and those of two pairs of 16 bits wrap there as the
    manual's do.
    """
    bits, count = 32 // group, lanes * group
    vector, narrow = f"<{lanes} x i32>", f"<{count} x i{bits}>"
    before = f"{vector} %before, " if add else ""
    lines = [f"define internal {vector} NAME({before}{kind} %a, {kind} %b) noinline {{"]
    lines += [f"  %{x}.n = bitcast {kind} %{x} to {narrow}" for x in "ab"]
    result = "poison"
    for lane in range(lanes):
        total = "0"
        if add:
            lines.append(f"  %t{lane} = extractelement {vector} %before, i32 {lane}")
            total = f"%t{lane}"
        for at in range(lane * group, (lane + 1) * group):
            for x, how in zip("ab", widen, strict=True):
                lines.append(f"  %{x}{at} = extractelement {narrow} %{x}.n, i32 {at}")
                lines.append(f"  %{x}w{at} = {how} i{bits} %{x}{at} to i32")
            lines.append(f"  %p{at} = mul i32 %aw{at}, %bw{at}")
            lines.append(f"  %s{at} = add i32 {total}, %p{at}")
            total = f"%s{at}"
        lines.append(f"  %r{lane} = insertelement {vector} {result}, i32 {total}, i32 {lane}")
        result = f"%r{lane}"
    return "\n".join(["", *lines, f"  ret {vector} {result}", "}", ""])


_FUNCTIONS = {
    "llvm.x86.avx512.vpdpbusd.512": _dot(16, 4, "<16 x i32>", ("zext", "sext"), True),
    "llvm.x86.avx512.vpdpbusd.256": _dot(8, 4, "<8 x i32>", ("zext", "sext"), True),
    "llvm.x86.avx512.vpdpwssd.512": _dot(16, 2, "<32 x i16>", ("sext", "sext"), True),
    "llvm.x86.avx512.pmaddw.d.512": _dot(16, 2, "<32 x i16>", ("sext", "sext"), False),
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _dot(4, 4, "<16 x i8>", ("sext", "sext"), True),
}
