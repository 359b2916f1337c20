"""Loop IR statements in LLVM IR: loops, buffers and stores of one function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any

import llvmlite.ir as ll

from vdla.compiler.ir.linear import affine, is_data, uses
from vdla.compiler.ir.stmt import (
    Access,
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Intrinsic,
    Stmt,
    Store,
    children,
)
from vdla.compiler.te.expr import Call, Const, Expr, Reduce, Select, Var
from vdla.compiler.te.traverse import walk
from vdla.errors import LoweringError

from .convert import lane_order, splat
from .element import ElementEmitter, combine
from .functions import declared
from .index import IndexEmitter, Known, Lanes
from .intrinsics import emit_intrinsic
from .matrices import MATRIX, SIDE, TILE, cleared, emit_clear
from .types import ALIGN_BYTES, I1, I32, I64, POINTER, aligned, element_type, itemsize

__all__ = ["StatementEmitter"]

STACK_BYTES = 4 << 20
"""Most that the buffers of one function may take on a thread's stack, which has 8 MiB."""

_PARALLEL = "vdla_parallel"


class StatementEmitter:
    """Emits the statements of one LLVM function.

    Parameters
    ----------
    function : llvmlite.ir.Function
        Its entry block takes the buffers of the stack.
    buffers : dict of Buffer to llvmlite.ir.Value
        Where each buffer begins.
    bindings : dict of Var to int or llvmlite.ir.Value
        Loop variables from outside.
    workspace : Workspace or None
        Takes the large buffers that one thread allocates; None inside a parallel loop, whose
        threads each have their own on the stack.
    """

    def __init__(
        self,
        function: Any,
        buffers: Mapping[Buffer, Any],
        bindings: Mapping[Var, Any],
        workspace: Workspace | None,
    ) -> None:
        self._function, self._workspace = function, workspace
        self._entry = function.append_basic_block("entry")
        self._builder = ll.IRBuilder(function.append_basic_block("body"))
        self._buffers = dict(buffers)
        self._bindings: dict[Var, Any] = dict(bindings)
        self._known = Known()
        self._lane: Var | None = None
        self._stack_bytes = 0
        self._registers: dict[tuple[Buffer, int], Any] = {}

    @property
    def builder(self) -> ll.IRBuilder:
        """Stands where the next instruction goes."""
        return self._builder

    def finish(self) -> None:
        """Return from the function."""
        self._builder.ret_void()
        ll.IRBuilder(self._entry).branch(self._function.basic_blocks[1])

    def emit(self, stmt: Stmt) -> None:
        """Emit a statement."""
        if isinstance(stmt, Block):
            for child in stmt.stmts:
                self.emit(child)
        elif isinstance(stmt, For):
            self._for(stmt)
        elif isinstance(stmt, If):
            self._if(stmt)
        elif isinstance(stmt, Alloc):
            self._alloc(stmt)
        elif isinstance(stmt, Store):
            self._store(stmt)
        elif isinstance(stmt, Intrinsic):
            *operands, output = (self._tile(*one[:2]) for one in (*stmt.tiles[1:], stmt.tiles[0]))
            emit_intrinsic(self._builder, stmt, output, tuple(operands))
        else:
            raise LoweringError(
                f"A processor has no {type(stmt).__name__.lower()} between scratchpads: leave out "
                "the pragma that asks for it."
            )

    def _index(self, expr: Expr) -> Any:
        return IndexEmitter(self._builder, self._bindings, known=self._known).emit(expr)

    @contextmanager
    def _bound(self, var: Var, value: Any) -> Iterator[None]:
        self._bindings[var] = value
        yield
        del self._bindings[var]

    # Loops

    def _for(self, stmt: For) -> None:
        clear = cleared(stmt)
        if clear is not None:
            with self._bound(stmt.var, 0), self._bound(clear[0], 0):
                emit_clear(self._builder, self._tile(clear[1].target, (SIDE, SIDE)))
            return
        extent = self._index(stmt.extent)
        constant = isinstance(extent, int)
        if stmt.kind == "vectorize" and constant and self._lane is None:
            self._vectorized(stmt, extent)
        elif stmt.kind in ("unroll", "vectorize") and constant:
            for value in range(extent):
                with self._bound(stmt.var, value):
                    self.emit(stmt.body)
        elif stmt.kind == "parallel" and self._workspace is not None and self._lane is None:
            self._parallel(stmt, extent)
        else:
            start = ll.Constant(I64, 0)
            self.loop(stmt.var, start, _as_i64(extent), stmt.body, certain=constant and extent > 0)

    def loop(self, var: Var, begin: Any, end: Any, body: Stmt, *, certain: bool = False) -> None:
        """Emit a loop over ``begin .. end - 1``; a certain one runs at least once."""
        builder, function = self._builder, self._function
        before = builder.block
        inside, after = (function.append_basic_block(name) for name in (var.name, "after"))
        if certain:
            builder.branch(inside)
        else:
            builder.cbranch(builder.icmp_signed("<", begin, end), inside, after)
        builder.position_at_end(inside)
        counter = builder.phi(I64, var.name)
        counter.add_incoming(begin, before)
        with self._bound(var, counter):
            self.emit(body)
        following = builder.add(counter, ll.Constant(I64, 1), flags=("nsw", "nuw"))
        counter.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, end), inside, after)
        builder.position_at_end(after)

    def _if(self, stmt: If) -> None:
        condition = self._index(stmt.condition)
        if isinstance(condition, int):
            self.emit(stmt.then if condition else stmt.other)
            return
        with self._builder.if_else(condition) as (then, other):
            with then:
                self.emit(stmt.then)
            with other:
                self.emit(stmt.other)

    def _vectorized(self, stmt: For, lanes: int) -> None:
        if lanes < 2 or not _uniform(stmt.body, stmt.var):
            for value in range(lanes):
                with self._bound(stmt.var, value):
                    self.emit(stmt.body)
            return
        self._lane = stmt.var
        with self._bound(stmt.var, Lanes(lanes)):
            self.emit(stmt.body)
        self._lane = None

    def _parallel(self, stmt: For, extent: Any) -> None:
        """Make a function of a loop's body and hand it to the pool."""
        module, builder = self._function.module, self._builder
        name = module.get_unique_name(f"{self._function.name}.{stmt.var.name}")
        kind = ll.FunctionType(ll.VoidType(), [POINTER, I64, I64])
        body = ll.Function(module, kind, name)
        body.linkage = "internal"
        live = [v for v, bound in self._bindings.items() if not isinstance(bound, int)]
        values = [*self._buffers.values(), *(self._bindings[var] for var in live)]
        held = ll.LiteralStructType([value.type for value in values])
        context = self._on_stack(held, "context")
        for k, value in enumerate(values):
            builder.store(value, _field(builder, context, held, k))
        inner = StatementEmitter(body, {}, {}, None)
        inside = ll.IRBuilder(inner._entry)
        taken = [
            inside.load(_field(inside, body.args[0], held, k), typ=value.type)
            for k, value in enumerate(values)
        ]
        count = len(self._buffers)
        inner._buffers = dict(zip(self._buffers, taken[:count], strict=True))
        fixed = {v: bound for v, bound in self._bindings.items() if isinstance(bound, int)}
        inner._bindings = {**fixed, **dict(zip(live, taken[count:], strict=True))}
        inner.loop(stmt.var, body.args[1], body.args[2], stmt.body)
        inner.finish()
        run = declared(module, _PARALLEL, ll.VoidType(), [POINTER, POINTER, I64])
        builder.call(run, [body, context, _as_i64(extent)])

    # Buffers

    def _alloc(self, stmt: Alloc) -> None:
        buffer = stmt.buffer
        if buffer.scope == MATRIX:
            self.emit(stmt.body)
            return
        size = buffer.total * itemsize(buffer.dtype)
        if self._workspace is not None and size > self._workspace.least_bytes:
            place = self._workspace.take(size)
            at = ll.Constant(I64, place)
            entry = ll.IRBuilder(self._entry)
            pointer = entry.gep(self._workspace.pointer, [at], source_etype=ll.IntType(8))
            self._buffers[buffer] = pointer
            self.emit(stmt.body)
            self._workspace.give_back(size)
        else:
            self._stack_bytes += size
            if self._stack_bytes > STACK_BYTES:
                raise LoweringError(
                    f"Buffers inside a parallel loop must take at most {STACK_BYTES >> 20} MiB, "
                    f"but {buffer.name} takes {size:,} bytes: compute it at an inner loop, or "
                    "outside."
                )
            kind = ll.ArrayType(element_type(buffer.dtype), buffer.total)
            self._buffers[buffer] = self._on_stack(kind, buffer.name)
            self.emit(stmt.body)
        del self._buffers[buffer]

    def _on_stack(self, kind: Any, name: str) -> Any:
        pointer = ll.IRBuilder(self._entry).alloca(kind, name=name)
        pointer.type, pointer.align = POINTER, ALIGN_BYTES
        return pointer

    def _pointer(self, access: Access, offset: Any) -> Any:
        kind = element_type(access.buffer.dtype)
        base = self._buffers[access.buffer]
        return self._builder.gep(base, [_as_i64(offset)], source_etype=kind)

    def _tile(self, access: Access, shape: tuple[int, ...]) -> Any:
        """Return a pointer to an intrinsic's tile: of one in a register, to what stands for it."""
        offset = self._index(access.offset)
        if access.buffer.scope != MATRIX:
            return self._pointer(access, offset)
        place = access.buffer, offset // prod(shape)
        if place not in self._registers:
            self._registers[place] = self._on_stack(TILE, access.buffer.name)
        return self._registers[place]

    # Stores

    def _store(self, stmt: Store) -> None:
        if self._lane is not None and self._scattered(stmt):
            lane, self._lane = self._lane, None
            lanes = self._bindings[lane]
            for k in range(lanes):
                with self._bound(lane, k):
                    self._store(stmt)
            self._bindings[lane], self._lane = lanes, lane
            return
        target, dtype = stmt.target, stmt.target.buffer.dtype
        elements = self._elements(stmt.loads)
        source = stmt.value.source if isinstance(stmt.value, Reduce) else stmt.value
        value = elements.emit(source)
        lanes = None if self._lane is None else int(self._bindings[self._lane])
        across = self._lane is not None and _step(target.offset, self._lane) == 1
        if across:
            value = splat(self._builder, value, lanes)
        pointer = self._pointer(target, self._index(self._at_lane_0(target.offset)))
        if isinstance(stmt.value, Reduce):
            kind = stmt.value.kind
            if not across and isinstance(value.type, ll.VectorType):
                value = self._across_lanes(kind, value, dtype)
            total = self._read(pointer, dtype, lanes if across else None)
            value = combine(self._builder, kind, total, value, dtype)
        if dtype == "bool":
            value = self._builder.zext(value, _shaped(element_type(dtype), value))
        self._builder.store(value, pointer, align=itemsize(dtype))

    def _scattered(self, stmt: Store) -> bool:
        """Tell whether a vectorized store must be done a lane at a time.

        Its target or a load does not step by whole elements, a lane decides what is read, or all
        lanes write one element.
        """
        lane = self._lane
        assert lane is not None
        if _step(stmt.target.offset, lane) != 1 and not (
            isinstance(stmt.value, Reduce) and _step(stmt.target.offset, lane) == 0
        ):
            return True
        return _chooses_loads(stmt.value, lane)

    def _at_lane_0(self, offset: Expr) -> Expr:
        if self._lane is None or not uses(offset, (self._lane,)):
            return offset
        parts = _along(offset, self._lane)
        assert parts is not None
        return parts[1]

    def _elements(self, loads: Sequence[Access]) -> ElementEmitter:
        return ElementEmitter(
            self._builder, self._bindings, lambda k: self._load(loads, k), self._lane
        )

    def _load(self, loads: Sequence[Access], position: int) -> Any:
        """Return what an access reads: a scalar, or as many as there are lanes."""
        access, lane = loads[position], self._lane
        dtype, offset = access.buffer.dtype, access.offset
        data = is_data(offset)
        if lane is None or not (data or uses(offset, (lane,))):
            emitter = IndexEmitter(
                self._builder,
                self._bindings,
                lambda call: self._elements(loads).emit(call),
                self._known,
            )
            return self._read(self._pointer(access, emitter.emit(offset)), dtype, None)
        lanes = int(self._bindings[lane])
        if not data and _step(offset, lane) == 1:
            first = self._index(self._at_lane_0(offset))
            return self._read(self._pointer(access, first), dtype, lanes)
        held, self._lane = self._bindings[lane], None
        values = []
        for k in range(lanes):
            self._bindings[lane] = k
            values.append(self._load(loads, position))
        self._bindings[lane], self._lane = held, lane
        result: Any = ll.Constant(ll.VectorType(values[0].type, lanes), ll.Undefined)
        for k, value in enumerate(values):
            result = self._builder.insert_element(result, value, ll.Constant(I32, k))
        return result

    def _read(self, pointer: Any, dtype: str, lanes: int | None) -> Any:
        kind = element_type(dtype)
        kind = kind if lanes is None else ll.VectorType(kind, lanes)
        value = self._builder.load(pointer, align=itemsize(dtype), typ=kind)
        if dtype == "bool":
            value = self._builder.trunc(value, _shaped(I1, value))
        return value

    def _across_lanes(self, kind: str, value: Any, dtype: str) -> Any:
        """Return a vector's lanes reduced to one value, halves by halves."""
        builder = self._builder
        while value.type.count > 1 and value.type.count % 2 == 0:
            half = value.type.count // 2
            low, high = (
                builder.shuffle_vector(value, value, lane_order(tuple(range(s, s + half))))
                for s in (0, half)
            )
            value = combine(builder, kind, low, high, dtype)
        parts = [
            builder.extract_element(value, ll.Constant(I32, k)) for k in range(value.type.count)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = combine(builder, kind, total, part, dtype)
        return total


class Workspace:
    """Memory that a kernel's caller lends it: a stack of the buffers alive at a time.

    Parameters
    ----------
    pointer : llvmlite.ir.Value
        Where it begins, aligned to 64 bytes.
    """

    least_bytes = 1 << 14
    """Smaller buffers lie on the thread's stack."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        self.bytes = 0
        self._taken = 0

    def take(self, size: int) -> int:
        """Return where a buffer of so many bytes begins."""
        place = self._taken
        self._taken += aligned(size)
        self.bytes = max(self.bytes, self._taken)
        return place

    def give_back(self, size: int) -> None:
        """End the life of the last buffer taken, of so many bytes."""
        self._taken -= aligned(size)


def _as_i64(value: Any) -> Any:
    return ll.Constant(I64, value) if isinstance(value, int) else value


def _field(builder: ll.IRBuilder, context: Any, held: Any, k: int) -> Any:
    return builder.gep(context, [ll.Constant(I32, 0), ll.Constant(I32, k)], source_etype=held)


def _shaped(kind: Any, value: Any) -> Any:
    if isinstance(value.type, ll.VectorType):
        return ll.VectorType(kind, value.type.count)
    return kind


def _uniform(stmt: Stmt, lane: Var) -> bool:
    """Tell whether all lanes run the same statements, with no buffer of their own."""
    if isinstance(stmt, For) and uses(stmt.extent, (lane,)):
        return False
    if isinstance(stmt, If) and uses(stmt.condition, (lane,)):
        return False
    if not isinstance(stmt, (For, If, Block, Store)):
        return False
    return all(_uniform(child, lane) for child in children(stmt))


# Unrolled code asks the same of one statement over and over.
@lru_cache(maxsize=1 << 12)
def _chooses_loads(value: Expr, lane: Var) -> bool:
    """Tell whether the lane decides what is read."""
    return any(
        isinstance(part, Select)
        and uses(part.condition, (lane,))
        and any(
            isinstance(inner, Call) and inner.name == "load"
            for branch in (part.then, part.other)
            for inner in walk(branch)
        )
        for part in walk(value)
    )


@lru_cache(maxsize=1 << 12)
def _along(offset: Expr, lane: Var) -> tuple[Expr, Expr] | None:
    """Return an offset's step from lane to lane and where it begins; None unless it is affine."""
    parts = affine(offset, (lane,))
    return None if parts is None else (parts[0].get(lane, Const(0)), parts[1])


def _step(offset: Expr, lane: Var) -> int | None:
    """Return the elements between neighbouring lanes; None where they do not follow evenly."""
    if not uses(offset, (lane,)):
        return 0
    parts = _along(offset, lane)
    return parts[0].value if parts is not None and isinstance(parts[0], Const) else None
