"""VDLA's operations, declared as tensor expressions.

These declarations are all that ties a schedule to the accelerator: `Stage.tensorize` takes one,
lowering matches it, and the emitter turns its name into instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from vdla.compiler.te import (
    Expr,
    TensorIntrin,
    Var,
    compute,
    maximum,
    minimum,
    placeholder,
    reduce_axis,
    requantize,
    sum_over,
)
from vdla.config import Config
from vdla.isa import AluOp

__all__ = ["Scope", "alu", "alu_imm", "gemm", "rq"]


class Scope:
    """Memory scopes of VDLA; results in ``ACC`` appear in OUT as well, saturated."""

    INP = "inp"
    WGT = "wgt"
    ACC = "acc"


_OPERATIONS: dict[AluOp, Callable[[Expr, Expr], Expr]] = {
    AluOp.MIN: minimum,
    AluOp.MAX: maximum,
    AluOp.ADD: lambda a, b: a + b,
    AluOp.SHR: lambda a, b: a >> b,
    AluOp.MUL: lambda a, b: a * b,
}


@lru_cache(maxsize=64)
def gemm(config: Config) -> TensorIntrin:
    """Return the GEMM core: ``acc[b, o] += sum(inp[b, i] * wgt[o, i] for i)`` in int32."""
    batch, block_in, block_out = config.batch, config.block_in, config.block_out
    inp = placeholder((batch, block_in), "int8", "inp")
    wgt = placeholder((block_out, block_in), "int8", "wgt")
    i = reduce_axis(block_in, "i")
    acc = compute(
        (batch, block_out),
        lambda b, o: sum_over(inp[b, i].astype("int32") * wgt[o, i].astype("int32"), i),
        "acc",
    )
    return TensorIntrin("gemm", acc, (inp, wgt), (Scope.ACC, Scope.INP, Scope.WGT))


@lru_cache(maxsize=64)
def alu(config: Config, operation: AluOp) -> TensorIntrin:
    """Return a vector operation of two ACC entries: ``acc[dst] = acc[dst] op acc[src]``."""
    shape = (config.batch, config.block_out)
    x, y = placeholder(shape, "int32", "x"), placeholder(shape, "int32", "y")
    function = _OPERATIONS[operation]
    result = compute(shape, lambda b, o: function(x[b, o], y[b, o]), "acc")
    name = f"alu.{operation.name.lower()}"
    return TensorIntrin(name, result, (x, y), (Scope.ACC,) * 3, in_place=0)


@lru_cache(maxsize=64)
def alu_imm(config: Config, operation: AluOp) -> TensorIntrin:
    """Return a vector operation with a constant: ``acc[dst] = acc[dst] op imm``."""
    shape = (config.batch, config.block_out)
    x, imm = placeholder(shape, "int32", "x"), Var("imm")
    function = _OPERATIONS[operation]
    result = compute(shape, lambda b, o: function(x[b, o], imm), "acc")
    name = f"alu.{operation.name.lower()}.imm"
    return TensorIntrin(name, result, (x,), (Scope.ACC,) * 2, scalars=(imm,), in_place=0)


@lru_cache(maxsize=64)
def rq(config: Config) -> TensorIntrin:
    """Return requantization: bias, multiplier and packed shift lie in successive ACC entries."""
    shape = (config.batch, config.block_out)
    x, bias, multiplier, packed = (
        placeholder(shape, "int32", name) for name in ("x", "bias", "multiplier", "packed")
    )
    result = compute(
        shape,
        lambda b, o: requantize(x[b, o], bias[b, o], multiplier[b, o], packed[b, o]),
        "acc",
    )
    operands = (x, bias, multiplier, packed)
    return TensorIntrin("rq", result, operands, (Scope.ACC,) * 5, in_place=0)
