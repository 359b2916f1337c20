"""Vector instructions that schedules ask for by `Stage.tensorize`, and their LLVM code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.te import TensorIntrin, compute, placeholder, reduce_axis, sum_over
from vdla.errors import LoweringError

from .convert import lane_order, splat
from .target import Target
from .types import I32

__all__ = ["emit_intrinsic", "pair_product"]

I16 = ll.IntType(16)


@dataclass(frozen=True)
class _Instruction:
    """One that multiplies 16-bit integers and adds up neighbours.

    Attributes
    ----------
    feature : str
        Of the processor, by the kernel's name.
    name : str
        LLVM's.
    lanes : int
        Sums in a vector.
    accumulates : bool
        Whether it adds to a third operand.
    """

    feature: str
    name: str
    lanes: int
    accumulates: bool


_INSTRUCTIONS = {
    "vpdpwssd": _Instruction("avx512_vnni", "llvm.x86.avx512.vpdpwssd.512", 16, True),
    "vpmaddwd.512": _Instruction("avx512bw", "llvm.x86.avx512.pmaddw.d.512", 16, False),
    "vpmaddwd.256": _Instruction("avx2", "llvm.x86.avx2.pmadd.wd", 8, False),
}
"""The best first."""


@lru_cache(maxsize=64)
def pair_product(target: Target, lanes: int) -> TensorIntrin | None:
    """Return ``acc[l] += a[0] * b[l, 0] + a[1] * b[l, 1]``, int16 into int32, in one instruction.

    None where the target has none, or ``lanes`` sums do not fill vectors of it.
    """
    fitting = [
        name
        for name, one in _INSTRUCTIONS.items()
        if target.has(one.feature) and lanes % one.lanes == 0
    ]
    if not fitting:
        return None
    a, b = placeholder((2,), "int16", "a"), placeholder((lanes, 2), "int16", "b")
    k = reduce_axis(2, "k")
    sums = compute(
        (lanes,),
        lambda lane: sum_over(a[k].astype("int32") * b[lane, k].astype("int32"), k),
        "sums",
    )
    scopes = ("register", "global", "global")
    return TensorIntrin(fitting[0], sums, (a, b), scopes, clears=False)


def emit_intrinsic(
    builder: ll.IRBuilder, intrin: TensorIntrin, output: Any, operands: tuple[Any, ...]
) -> None:
    """Emit an intrinsic.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    intrin : TensorIntrin
    output : llvmlite.ir.Value
        Pointer to its result.
    operands : tuple of llvmlite.ir.Value
        Pointers to its operands.
    """
    if intrin.name not in _INSTRUCTIONS:
        raise LoweringError(f"A processor has no intrinsic {intrin.name}.")
    instruction, (lanes,) = _INSTRUCTIONS[intrin.name], intrin.declaration.shape
    a, b = operands
    # Both factors of all lanes at once: they lie side by side, as the instruction takes them.
    pair = builder.load(a, align=2, typ=I32)
    pairs = splat(builder, pair, instruction.lanes)
    factors = builder.load(b, align=2, typ=ll.VectorType(I16, 2 * lanes))
    total = builder.load(output, align=4, typ=ll.VectorType(I32, lanes))
    parts = [
        _multiplied(builder, instruction, pairs, factors, total, first)
        for first in range(0, lanes, instruction.lanes)
    ]
    builder.store(_joined(builder, parts), output, align=4)


def _multiplied(
    builder: ll.IRBuilder,
    instruction: _Instruction,
    pairs: Any,
    factors: Any,
    total: Any,
    first: int,
) -> Any:
    """Return one vector's sums, those from lane `first`."""
    count = instruction.lanes
    sums, words = ll.VectorType(I32, count), ll.VectorType(I16, 2 * count)
    own = _slice(builder, factors, 2 * first, 2 * count)
    before = _slice(builder, total, first, count)
    if instruction.accumulates:
        function = _declared(builder, instruction.name, sums, [sums, words, words])
        return builder.call(function, [before, builder.bitcast(pairs, words), own])
    function = _declared(builder, instruction.name, sums, [words, words])
    products = builder.call(function, [builder.bitcast(pairs, words), own])
    return builder.add(before, products)


def _declared(builder: ll.IRBuilder, name: str, result: Any, args: list[Any]) -> Any:
    module = builder.module
    known = module.globals.get(name)
    return known or ll.Function(module, ll.FunctionType(result, args), name)


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
