"""Copy statements to LOAD and STORE instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vdla.compiler.ir.evaluate import Env, Evaluator
from vdla.compiler.ir.linear import affine
from vdla.compiler.ir.stmt import Access, Copy
from vdla.compiler.te.expr import Const, Expr, Var
from vdla.config import Config
from vdla.errors import LoweringError
from vdla.isa import Load, MemoryType, ModuleName, Store

from .dma import Block2d, Dim, blocks
from .ops import Op, Range, element_scalars

if TYPE_CHECKING:
    from .emit import Target

__all__ = ["emit_copy"]

_SCALAR_BYTES = {"int8": 1, "int32": 4}
Evaluate = Callable[[Env], int]


def _memory_type(copy: Copy) -> MemoryType:
    scratch, memory = copy.target.buffer, copy.source.buffer
    if scratch.scope == "inp":
        return MemoryType.INP
    if scratch.scope == "wgt":
        return MemoryType.WGT
    return MemoryType.ACC_8BIT if memory.dtype == "int8" else MemoryType.ACC


def emit_copy(
    copy: Copy, config: Config, target: Target, evaluator: Evaluator
) -> Callable[[Env, int], Iterator[Op]]:
    """Return a function that yields a copy's instructions for the loops' present values.

    Raises
    ------
    LoweringError
        The copy is not between memory and a scratchpad, or not by whole entries.
    """
    storing = copy.target.buffer.scope == "global"
    scratch, memory = (copy.source, copy.target) if storing else (copy.target, copy.source)
    if memory.buffer.scope != "global" or scratch.buffer.scope == "global":
        raise LoweringError(
            f"A copy must move between memory and a scratchpad, not from "
            f"{copy.source.buffer.name} to {copy.target.buffer.name}."
        )
    if storing and (scratch.buffer.scope != "acc" or memory.buffer.dtype != "int8"):
        raise LoweringError(
            f"A store must write int8 results from scope acc, not {memory.buffer.dtype} from "
            f"{scratch.buffer.scope}, to {memory.buffer.name}."
        )
    if storing and copy.conditions:
        raise LoweringError(
            f"A store must write every element; that of {memory.buffer.name} has a condition: pad "
            "when loading."
        )
    kind = MemoryType.OUT if storing else _memory_type(copy)
    scalars = element_scalars(config, scratch.buffer.scope)
    scalar_bytes = _SCALAR_BYTES[memory.buffer.dtype]
    entry_bytes = scalars * scalar_bytes
    first = target.scratchpads[scratch.buffer]
    base_bytes = target.memory[memory.buffer]
    if base_bytes % entry_bytes:
        raise LoweringError(f"{memory.buffer.name} must be aligned to {entry_bytes} bytes.")
    variables = [var for var, _ in copy.loops]
    compile_ = evaluator.compile
    extents = [compile_(extent) for _, extent in copy.loops]
    memory_base, memory_steps = _affine(memory, variables, evaluator)
    scratch_base, scratch_steps = _affine(scratch, variables, evaluator)
    guards = []
    for condition in copy.conditions:
        value, steps = _affine_expr(condition.value, variables, evaluator, memory.buffer.name)
        guards.append((value, steps, condition))
    tracked = memory.buffer not in target.constants

    def emit(env: Env, layer: int) -> Iterator[Op]:
        sizes = [extent(env) for extent in extents]
        if 0 in sizes:
            return
        inner = _tile_dims(
            sizes, [s(env) for s in memory_steps], [s(env) for s in scratch_steps], scalars, copy
        )
        start = memory_base(env)
        if start % scalars:
            # With padding the first element may lie before the tensor, still at a whole entry.
            raise LoweringError(f"{memory.buffer.name} must be copied by entries of {scalars}.")
        origin = start // scalars
        dims = []
        outside = False
        limits: list[tuple[int, int]] = [(0, size) for size in sizes]
        for value, steps, condition in guards:
            at = value(env)
            moving = [k for k, step in enumerate(steps) if sizes[k] > 1 and step(env)]
            if not moving:
                outside |= not condition.holds(at)
                continue
            slope = steps[moving[0]](env)
            if len(moving) > 1 or moving[0] >= inner or slope < 0:
                raise LoweringError(
                    f"A padding condition of {memory.buffer.name}'s copy must grow along one of "
                    "its loops and hold for whole entries: split the stage in two."
                )
            low, high = limits[moving[0]]
            if condition.low is not None:
                low = max(low, -(-(condition.low - at) // slope))
            if condition.high is not None:
                high = min(high, -(-(condition.high - at) // slope))
            limits[moving[0]] = low, high
        for k in range(inner):
            step = memory_steps[k](env) // scalars
            low = min(limits[k][0], sizes[k])
            high = max(low, min(limits[k][1], sizes[k]))
            origin += low * step
            dims.append(Dim(high - low, step, low, sizes[k] - high))
        if outside:
            dims = [Dim(0, 1, dims[0].total if dims else 1, 0), *dims[1:]]
        sram = first + scratch_base(env) // scalars
        dram = base_bytes // entry_bytes + origin
        for block in blocks(dims):
            yield _op(block, sram, dram, kind, copy.pad_value, entry_bytes, layer, tracked)

    return emit


def _op(
    block: Block2d,
    sram: int,
    dram: int,
    kind: MemoryType,
    pad: int,
    entry_bytes: int,
    layer: int,
    tracked: bool,
) -> Op:
    reads_memory = block.y_size > 0
    fields = {
        "memory_type": kind,
        "sram_base": sram + block.sram,
        "dram_base": dram + block.dram if reads_memory else 0,
        "y_size": block.y_size,
        "x_size": block.x_size,
        "x_stride": block.x_stride,
    }
    memory = Range(
        "dram",
        (dram + block.dram) * entry_bytes,
        block.x_size * entry_bytes,
        block.y_size,
        block.x_stride * entry_bytes,
    )
    touched = (memory,) if tracked and reads_memory else ()
    if kind is MemoryType.OUT:
        entries = Range("out", sram + block.sram, block.y_size * block.x_size)
        return Op(ModuleName.STORE, Store, fields, layer, (entries,), touched)
    fields |= {
        "y_pad_0": block.y_pad_0,
        "y_pad_1": block.y_pad_1,
        "x_pad_0": block.x_pad_0,
        "x_pad_1": block.x_pad_1,
        "pad_value": pad,
    }
    rows = block.y_pad_0 + block.y_size + block.y_pad_1
    size = rows * (block.x_pad_0 + block.x_size + block.x_pad_1)
    if kind in (MemoryType.INP, MemoryType.WGT):
        written = Range(kind.name.lower(), sram + block.sram, size)
        return Op(ModuleName.LOAD, Load, fields, layer, touched, (written,))
    return Op(ModuleName.COMPUTE, Load, fields, layer, touched, ())


def _tile_dims(
    sizes: list[int], memory: list[int], scratch: list[int], scalars: int, copy: Copy
) -> int:
    """Return how many outer loops count entries; the ones inside make up one entry."""
    step, k = 1, len(sizes)
    while k and step < scalars:
        k -= 1
        if sizes[k] == 1:
            continue
        if memory[k] != step or scratch[k] != step:
            break
        step *= sizes[k]
    compact = scalars
    for j in range(k - 1, -1, -1):
        if sizes[j] > 1 and scratch[j] != compact:
            step = -1
        compact *= sizes[j]
    if step != scalars or any(
        memory[j] % scalars or memory[j] < 0 for j in range(k) if sizes[j] > 1
    ):
        raise LoweringError(
            f"A copy to or from {copy.target.buffer.name} must move whole entries of {scalars} "
            "scalars that are contiguous on both sides, step forward through memory and fill the "
            "scratchpad without gaps: keep the block's dimensions innermost."
        )
    return k


def _affine(
    access: Access, variables: list[Var], evaluator: Evaluator
) -> tuple[Evaluate, list[Evaluate]]:
    return _affine_expr(access.offset, variables, evaluator, access.buffer.name)


def _affine_expr(
    expr: Expr, variables: list[Var], evaluator: Evaluator, name: str
) -> tuple[Evaluate, list[Evaluate]]:
    found = affine(expr, variables)
    if found is None:
        raise LoweringError(
            f"A copy of {name} must step evenly through memory: do not fuse its loops."
        )
    steps, base = found
    compile_ = evaluator.compile
    return compile_(base), [compile_(steps.get(var, Const(0))) for var in variables]
