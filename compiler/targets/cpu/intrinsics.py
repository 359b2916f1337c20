"""Vector instructions that schedules ask for by `Stage.tensorize`, and their LLVM code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.ir.stmt import Intrinsic
from vdla.compiler.te import TensorIntrin, compute, placeholder, reduce_axis, sum_over
from vdla.errors import LoweringError

from .convert import lane_order, splat
from .functions import declared
from .matrices import emit_matrix, is_matrix
from .target import Target
from .types import I32

__all__ = ["dot_product", "emit_intrinsic"]


@dataclass(frozen=True)
class _Instruction:
    """One that multiplies integers and adds up neighbours.

    Attributes
    ----------
    feature : str
        Of the processor, by the kernel's name.
    name : str
        LLVM's.
    lanes : int
        Sums in a vector.
    factors : tuple of (str, str)
        Dtypes of the factor that all sums share, and of the one that each has for itself.
    accumulates : bool
        Whether it adds to a third operand.
    words : bool
        Whether LLVM takes the factors as vectors of 32 bits.
    """

    feature: str
    name: str
    lanes: int
    factors: tuple[str, str]
    accumulates: bool = True
    words: bool = False

    @property
    def group(self) -> int:
        """Products that one sum adds up: as many as fit 32 bits."""
        return 32 // _bits(self.factors[1])


_SHORT, _MIXED, _SIGNED = ("int16", "int16"), ("uint8", "int8"), ("int8", "int8")
_INSTRUCTIONS = {
    "vpdpbusd.512": _Instruction(
        "avx512_vnni", "llvm.x86.avx512.vpdpbusd.512", 16, _MIXED, words=True
    ),
    "vpdpbusd.256": _Instruction("avx_vnni", "llvm.x86.avx512.vpdpbusd.256", 8, _MIXED, words=True),
    "sdot": _Instruction("asimddp", "llvm.aarch64.neon.sdot.v4i32.v16i8", 4, _SIGNED),
    "vpdpwssd": _Instruction("avx512_vnni", "llvm.x86.avx512.vpdpwssd.512", 16, _SHORT),
    "vpmaddwd.512": _Instruction(
        "avx512bw", "llvm.x86.avx512.pmaddw.d.512", 16, _SHORT, accumulates=False
    ),
    "vpmaddwd.256": _Instruction("avx2", "llvm.x86.avx2.pmadd.wd", 8, _SHORT, accumulates=False),
}
"""Of those for one size of group the best first."""


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("uint"))


@lru_cache(maxsize=64)
def dot_product(target: Target, lanes: int, group: int) -> TensorIntrin | None:
    """Return ``acc[l] += sum(a[k] * b[l, k] for k in group)`` into int32, in one instruction.

    None where the target has none, or ``lanes`` sums do not fill vectors of it.

    Parameters
    ----------
    target : Target
    lanes : int
    group : int
        2 for factors of 16 bits, 4 for those of 8.
    """
    fitting = [
        name
        for name, one in _INSTRUCTIONS.items()
        if one.group == group and target.has(one.feature) and lanes % one.lanes == 0
    ]
    if not fitting:
        return None
    shared, own = _INSTRUCTIONS[fitting[0]].factors
    a, b = placeholder((group,), shared, "a"), placeholder((lanes, group), own, "b")
    k = reduce_axis(group, "k")
    sums = compute(
        (lanes,),
        lambda lane: sum_over(a[k].astype("int32") * b[lane, k].astype("int32"), k),
        "sums",
    )
    scopes = ("register", "global", "global")
    return TensorIntrin(fitting[0], sums, (a, b), scopes, clears=False)


def emit_intrinsic(
    builder: ll.IRBuilder, stmt: Intrinsic, output: Any, operands: tuple[Any, ...]
) -> None:
    """Emit an intrinsic.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    stmt : Intrinsic
    output : llvmlite.ir.Value
        Pointer to its result.
    operands : tuple of llvmlite.ir.Value
        Pointers to its operands.
    """
    intrin = stmt.intrin
    if is_matrix(stmt):
        emit_matrix(builder, stmt, output, operands)
        return
    if intrin.name not in _INSTRUCTIONS:
        raise LoweringError(f"A processor has no intrinsic {intrin.name}.")
    instruction, (lanes,) = _INSTRUCTIONS[intrin.name], intrin.declaration.shape
    a, b = operands
    bits = _bits(instruction.factors[1])
    # Both factors of all lanes at once: they lie side by side, as the instruction takes them.
    factor = builder.load(a, align=bits // 8, typ=I32)
    shared = splat(builder, factor, instruction.lanes)
    kind = ll.VectorType(ll.IntType(bits), instruction.group * lanes)
    own = builder.load(b, align=bits // 8, typ=kind)
    total = builder.load(output, align=4, typ=ll.VectorType(I32, lanes))
    parts = [
        _multiplied(builder, instruction, shared, own, total, first)
        for first in range(0, lanes, instruction.lanes)
    ]
    builder.store(_joined(builder, parts), output, align=4)


def _multiplied(
    builder: ll.IRBuilder, instruction: _Instruction, shared: Any, own: Any, total: Any, first: int
) -> Any:
    """Return one vector's sums, those from lane `first`."""
    count, group = instruction.lanes, instruction.group
    sums = ll.VectorType(I32, count)
    narrow = ll.VectorType(own.type.element, group * count)
    taken = sums if instruction.words else narrow
    factors = _slice(builder, own, group * first, group * count)
    before = _slice(builder, total, first, count)
    operands = [
        one if one.type == taken else builder.bitcast(one, taken) for one in (shared, factors)
    ]
    if instruction.accumulates:
        function = declared(builder.module, instruction.name, sums, [sums, taken, taken])
        return builder.call(function, [before, *operands])
    function = declared(builder.module, instruction.name, sums, [taken, taken])
    return builder.add(before, builder.call(function, operands))


def _slice(builder: ll.IRBuilder, vector: Any, first: int, count: int) -> Any:
    if vector.type.count == count:
        return vector
    return builder.shuffle_vector(vector, vector, lane_order(tuple(range(first, first + count))))


def _joined(builder: ll.IRBuilder, parts: list[Any]) -> Any:
    """Return vectors of one length one after the other; they are a power of two."""
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        order = lane_order(tuple(range(count)))
        parts = [
            builder.shuffle_vector(low, high, order)
            for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]
