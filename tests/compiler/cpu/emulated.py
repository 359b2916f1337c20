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
        return text.replace("x86_amx", _TILE)


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


_TILE = "<256 x i32>"


def _each(count: str, body: str, taken: str, result: str) -> str:
    """Return a function that does something for t from 0 to a count, which is a product.

    `taken` are its arguments; what it begins and ends with stands in `result`, around a bar.
    """
    kind, before, after = (part.strip() for part in result.split("|"))
    product = "\n  ".join(
        [f"%n{k} = mul i32 %n{k - 1}, {one}" for k, one in enumerate(count.split(), 1)]
    )
    last = len(count.split())
    return f"""
define internal {kind} NAME({taken}) noinline {{
entry:
  {before}
  %n0 = add i32 0, 1
  {product}
  br label %again
again:
  %t = phi i32 [ 0, %entry ], [ %t.next, %again ]
  {body}
  %t.next = add i32 %t, 1
  %more = icmp ult i32 %t.next, %n{last}
  br i1 %more, label %again, label %done
done:
  {after}
}}
"""


def _product(left: str) -> str:
    """Return ``dst[m][n] += left[m][4 * k + e] * right[k][4 * n + e]``, a tile row being 64 bytes.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBSSD and TDPBUSD.
    """
    return _each(
        "%rows %ks %ns 4",
        f"""
  %e = urem i32 %t, 4
  %t1 = udiv i32 %t, 4
  %n = urem i32 %t1, %ns
  %t2 = udiv i32 %t1, %ns
  %k = urem i32 %t2, %ks
  %m = udiv i32 %t2, %ks
  %la = mul i32 %m, 64
  %lb = mul i32 %k, 4
  %lc = add i32 %la, %lb
  %l = add i32 %lc, %e
  %ra = mul i32 %k, 64
  %rb = mul i32 %n, 4
  %rc = add i32 %ra, %rb
  %r = add i32 %rc, %e
  %da = mul i32 %m, 16
  %d = add i32 %da, %n
  %lp = getelementptr i8, ptr %left, i32 %l
  %rp = getelementptr i8, ptr %right, i32 %r
  %dp = getelementptr i32, ptr %dst, i32 %d
  %lv = load i8, ptr %lp
  %rv = load i8, ptr %rp
  %dv = load i32, ptr %dp
  %lw = {left} i8 %lv to i32
  %rw = sext i8 %rv to i32
  %p = mul i32 %lw, %rw
  %s = add i32 %dv, %p
  store i32 %s, ptr %dp""",
        f"i16 %rows.s, i16 %ns.b, i16 %ks.b, {_TILE} %c, {_TILE} %a, {_TILE} %b",
        f"""{_TILE} |
  %rows = zext i16 %rows.s to i32
  %ns.w = zext i16 %ns.b to i32
  %ks.w = zext i16 %ks.b to i32
  %ns = udiv i32 %ns.w, 4
  %ks = udiv i32 %ks.w, 4
  %dst = alloca {_TILE}
  %left = alloca {_TILE}
  %right = alloca {_TILE}
  store {_TILE} %c, ptr %dst
  store {_TILE} %a, ptr %left
  store {_TILE} %b, ptr %right |
  %made = load {_TILE}, ptr %dst
  ret {_TILE} %made""",
    )


def _moved(source: str, target: str, taken: str, kind: str, before: str, after: str) -> str:
    """Return a copy of rows of bytes between a tile, of rows of 64 bytes, and memory."""
    return _each(
        "%rows %bytes",
        f"""
  %row = udiv i32 %t, %bytes
  %byte = urem i32 %t, %bytes
  %inside.row = mul i32 %row, 64
  %inside = add i32 %inside.row, %byte
  %row.w = zext i32 %row to i64
  %byte.w = zext i32 %byte to i64
  %outside.row = mul i64 %row.w, %step
  %outside = add i64 %outside.row, %byte.w
  %in = getelementptr i8, ptr %tile, i32 %inside
  %out = getelementptr i8, ptr %memory, i64 %outside
  %v = load i8, ptr {source}
  store i8 %v, ptr {target}""",
        f"i16 %rows.s, i16 %bytes.s, ptr %memory, i64 %step{taken}",
        f"""{kind} |
  %rows = zext i16 %rows.s to i32
  %bytes = zext i16 %bytes.s to i32
  %tile = alloca {_TILE}
  {before} | {after}""",
    )


_LOADED = _moved(
    "%out",
    "%in",
    "",
    _TILE,
    f"store {_TILE} zeroinitializer, ptr %tile",
    f"%made = load {_TILE}, ptr %tile\n  ret {_TILE} %made",
)
_STORED = _moved(
    "%in", "%out", f", {_TILE} %given", "void", f"store {_TILE} %given, ptr %tile", "ret void"
)
_SAME = f"\ndefine internal {_TILE} NAME({_TILE} %a) {{\n  ret {_TILE} %a\n}}\n"
_ZERO = f"\ndefine internal {_TILE} NAME(i16, i16) {{\n  ret {_TILE} zeroinitializer\n}}\n"

_FUNCTIONS = {
    "llvm.x86.avx512.vpdpbusd.512": _dot(16, 4, "<16 x i32>", ("zext", "sext"), True),
    "llvm.x86.avx512.vpdpbusd.256": _dot(8, 4, "<8 x i32>", ("zext", "sext"), True),
    "llvm.x86.avx512.vpdpwssd.512": _dot(16, 2, "<32 x i16>", ("sext", "sext"), True),
    "llvm.x86.avx512.pmaddw.d.512": _dot(16, 2, "<32 x i16>", ("sext", "sext"), False),
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _dot(4, 4, "<16 x i8>", ("sext", "sext"), True),
    "llvm.x86.tdpbssd.internal": _product("sext"),
    "llvm.x86.tdpbusd.internal": _product("zext"),
    "llvm.x86.tileloadd64.internal": _LOADED,
    "llvm.x86.tilestored64.internal": _STORED,
    "llvm.x86.tilezero.internal": _ZERO,
    "llvm.x86.cast.tile.to.vector.v256i32": _SAME,
    "llvm.x86.cast.vector.to.tile.v256i32": _SAME,
}
