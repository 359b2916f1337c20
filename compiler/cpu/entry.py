"""The function of a run: it calls kernels in order, with pointers worked out from four tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.targets.cpu.types import I8, I32, I64, POINTER

from .calls import Call
from .memory import Memory

__all__ = ["emit_entry"]


def emit_entry(
    module: ll.Module,
    name: str,
    calls: Sequence[Call],
    inputs: Sequence[str],
    outputs: Sequence[str],
    memory: Memory,
) -> None:
    """Add ``void name(void **args)`` to a module.

    Parameters
    ----------
    module : llvmlite.ir.Module
    name : str
    calls : sequence of Call
        In order.
    inputs, outputs : sequence of str
        Tensors of the graph whose pointers come first in ``args``; then come the constants' and
        the arena's.
    memory : Memory
    """
    function = ll.Function(module, ll.FunctionType(ll.VoidType(), [POINTER]), name)
    builder = ll.IRBuilder(function.append_basic_block())
    given = [
        builder.load(
            builder.gep(function.args[0], [ll.Constant(I32, k)], source_etype=POINTER), typ=POINTER
        )
        for k in range(len(inputs) + len(outputs) + 2)
    ]
    *tensors, constants, arena = given
    where = dict(zip((*inputs, *outputs), tensors, strict=True))

    def at(base: Any, offset: int) -> Any:
        return builder.gep(base, [ll.Constant(I64, offset)], source_etype=I8)

    def tensor(one: str) -> Any:
        return where[one] if one in where else at(arena, memory.tensors[one])

    for call, workspace in zip(calls, memory.workspaces, strict=True):
        pointers = [tensor(one) for one in call.inputs]
        pointers += [at(constants, offset) for offset in call.constants]
        pointers += [tensor(call.output), at(arena, workspace)]
        builder.call(call.function, pointers)
    builder.ret_void()
