"""Loop IR executed as it stands, on plain Python numbers: what lowering must keep the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from operator import mul

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.te.expr import Const, Expr, Read, Reduce
from vdla.compiler.te.tensor import Tensor
from vdla.errors import LoweringError

from .evaluate import Evaluator
from .linear import is_data
from .stmt import Access, Alloc, Block, Buffer, Copy, For, If, Intrinsic, Move, Stmt, Store
from .values import COMBINE, ElementCompiler, Value, saturate, wrap

__all__ = ["interpret"]

_Run = Callable[[], None]


def interpret(
    body: Stmt,
    arguments: Mapping[Tensor, Buffer],
    inputs: Mapping[Tensor, NDArray[np.generic]],
) -> dict[Tensor, NDArray[np.generic]]:
    """Execute a program, scalar by scalar.

    Meant for tests and small shapes. A scalar that was never written, or an index outside its
    buffer, is an error, so that agreement with a reference is no accident.

    Parameters
    ----------
    body : Stmt
        The program, after any stage of lowering.
    arguments : mapping of Tensor to Buffer
        Tensors in memory, as lowering returns them.
    inputs : mapping of Tensor to ndarray
        Values of those that the program reads.

    Returns
    -------
    dict of Tensor to ndarray
        Values of the arguments that are not among the inputs.

    Raises
    ------
    LoweringError
        The program reads what nothing wrote, or reaches outside a buffer.
    """
    machine = _Machine()
    for tensor, buffer in arguments.items():
        cells: list[float | None] = [None] * buffer.size
        if tensor in inputs:
            cells = np.asarray(inputs[tensor]).ravel().tolist()
        machine.cells[buffer] = cells
    machine.prepare(body)()
    results: dict[Tensor, NDArray[np.generic]] = {}
    for tensor, buffer in arguments.items():
        if tensor not in inputs:
            values = machine.cells[buffer]
            if None in values:
                raise LoweringError(
                    f"Every element of {tensor.name} must be computed; element "
                    f"{values.index(None)} is not."
                )
            results[tensor] = np.array(values, tensor.dtype).reshape(tensor.shape)
    return results


class _Machine:
    """Turns statements into functions; buffers are lists whose unwritten cells hold None."""

    def __init__(self) -> None:
        self.cells: dict[Buffer, list[float | None]] = {}
        self._evaluator = Evaluator()
        self._env = self._evaluator.env

    def prepare(self, stmt: Stmt) -> _Run:
        """Return a function that executes a statement."""
        if isinstance(stmt, Block):
            runs = [self.prepare(child) for child in stmt.stmts]

            def run_all() -> None:
                for run in runs:
                    run()

            return run_all
        if isinstance(stmt, For):
            slot = self._evaluator.slot(stmt.var)
            body = self.prepare(stmt.body)
            return self._loop(slot, self._evaluator.compile(stmt.extent), body)
        if isinstance(stmt, If):
            return self._if(stmt)
        if isinstance(stmt, Alloc):
            return self._alloc(stmt)
        if isinstance(stmt, Store):
            return self._store(stmt)
        if isinstance(stmt, Copy):
            return self._copy(stmt)
        if isinstance(stmt, Move):
            return self._move(stmt)
        return self._intrinsic(stmt)

    def _loop(self, slot: int, extent: Value, body: _Run) -> _Run:
        env = self._env

        def run() -> None:
            for value in range(extent(env)):
                env[slot] = value
                body()

        return run

    def _if(self, stmt: If) -> _Run:
        condition, env = self._evaluator.compile(stmt.condition), self._env
        then, other = self.prepare(stmt.then), self.prepare(stmt.other)

        def run() -> None:
            (then if condition(env) else other)()

        return run

    def _alloc(self, stmt: Alloc) -> _Run:
        buffer, size = stmt.buffer, stmt.buffer.total
        self.cells[buffer] = [None] * size
        body = self.prepare(stmt.body)

        def run() -> None:
            self.cells[buffer][:] = [None] * size
            body()

        return run

    def _read(self, buffer: Buffer, at: int) -> float:
        cells = self.cells[buffer]
        if not 0 <= at < len(cells):
            raise LoweringError(
                f"A read of {buffer.name} must lie in 0..{len(cells) - 1}, not at {at}."
            )
        value = cells[at]
        if value is None:
            raise LoweringError(f"{buffer.name}[{at}] must be written before it is read.")
        return value

    def _write(self, buffer: Buffer, at: int, value: float) -> None:
        cells = self.cells[buffer]
        if not 0 <= at < len(cells):
            raise LoweringError(
                f"A write of {buffer.name} must lie in 0..{len(cells) - 1}, not at {at}."
            )
        cells[at] = value

    def _offset(self, access: Access) -> Value:
        return self._evaluator.compile(access.offset)

    def _store(self, stmt: Store) -> _Run:
        loads: list[tuple[Buffer, Value]] = []

        def load(position: int) -> Value:
            buffer, offset = loads[position]
            return lambda env: self._read(buffer, offset(env))

        elements = ElementCompiler(self._evaluator, None, load)
        for access in stmt.loads:
            given = elements.value(access.offset) if is_data(access.offset) else None
            loads.append((access.buffer, given or self._offset(access)))
        value, combine = stmt.value, None
        if isinstance(stmt.value, Reduce):
            value, combine = stmt.value.source, COMBINE[stmt.value.kind]
        compute = elements.value(value)
        buffer, offset, env = stmt.target.buffer, self._offset(stmt.target), self._env

        def run() -> None:
            at, result = offset(env), compute(env)
            if combine is not None:
                result = combine(self._read(buffer, at), result)
            self._write(buffer, at, wrap(result, buffer.dtype))

        return run

    def _copy(self, stmt: Copy) -> _Run:
        conditions = [(self._evaluator.compile(c.value), c.holds) for c in stmt.conditions]
        source, target = self._offset(stmt.source), self._offset(stmt.target)
        read, write, env = stmt.source.buffer, stmt.target.buffer, self._env

        def element() -> None:
            inside = all(holds(value(env)) for value, holds in conditions)
            value = self._read(read, source(env)) if inside else stmt.pad_value
            self._write(write, target(env), saturate(value, write.dtype))

        body: _Run = element
        for var, extent in reversed(stmt.loops):
            slot = self._evaluator.slot(var)
            body = self._loop(slot, self._evaluator.compile(extent), body)
        return body

    def _move(self, stmt: Move) -> _Run:
        source, target = self._offset(stmt.operand), self._offset(stmt.output)
        read, write, env = stmt.operand.buffer, stmt.output.buffer, self._env

        def run() -> None:
            values = [self._read(read, source(env) + k) for k in range(stmt.size)]
            for k, value in enumerate(values):
                self._write(write, target(env) + k, value)

        return run

    def _intrinsic(self, stmt: Intrinsic) -> _Run:
        """Evaluate the declaration over its tiles."""
        declared = stmt.intrin.declaration
        body = declared.body
        assert body is not None
        source = body.source if isinstance(body, Reduce) else body
        steps = body.axes if isinstance(body, Reduce) else ()
        (_, _, own), *tiles = stmt.tiles
        places = {
            tensor: (access.buffer, self._offset(access), strides)
            for tensor, (access, _, strides) in zip(stmt.intrin.operands, tiles, strict=True)
        }
        evaluator = self._evaluator

        def read(expr: Read) -> Value:
            buffer, base, strides = places[expr.tensor]
            within = evaluator.compile(_offset_of(expr.indices, strides))
            return lambda env: self._read(buffer, base(env) + within(env))

        compute = ElementCompiler(evaluator, stmt, read=read).value(source)
        axes = [evaluator.slot(axis.var) for axis in (*declared.axes, *steps)]
        tile = [
            (sum(map(mul, point, own)), point)
            for point in product(*(range(extent) for extent in declared.shape))
        ]
        inner = list(product(*(range(_constant(axis.extent)) for axis in steps)))
        output, offset, env = stmt.output.buffer, self._offset(stmt.output), self._env
        first = [evaluator.slot(var) for var in stmt.first]
        combine = COMBINE[body.kind] if isinstance(body, Reduce) else None

        def values_at(point: Sequence[int]) -> Iterable[float]:
            for step in inner:
                for slot, value in zip(axes, (*point, *step), strict=True):
                    env[slot] = value
                yield compute(env)

        def run() -> None:
            base = offset(env)
            if stmt.start is not None and all(env[slot] == 0 for slot in first):
                for k, _ in tile:
                    self._write(output, base + k, stmt.start)
            results = []
            for k, point in tile:
                if combine is None:
                    (result,) = values_at(point)
                else:
                    result = self._read(output, base + k)
                    for value in values_at(point):
                        result = combine(result, value)
                results.append(wrap(result, declared.dtype))
            for (k, _), result in zip(tile, results, strict=True):
                self._write(output, base + k, result)

        return run


def _offset_of(indices: Sequence[Expr], strides: Sequence[int]) -> Expr:
    offset: Expr = Const(0)
    for index, stride in zip(indices, strides, strict=True):
        offset = offset + index * stride
    return offset


def _constant(extent: Expr) -> int:
    assert isinstance(extent, Const)
    return extent.value
