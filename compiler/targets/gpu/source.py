"""Kernels as source that a person can read."""

from __future__ import annotations

import textwrap

from vdla.compiler.ir.stmt import Access, Intrinsic, Store
from vdla.compiler.lower.regions import SHARED
from vdla.compiler.te.expr import Cast, Const, Expr, Real, Reduce, Select, Var
from vdla.compiler.te.traverse import walk as parts_within
from vdla.errors import LoweringError

from .dialect import ARRAY, HALF, OPENCL, Dialect
from .expressions import Expressions
from .helpers import helper_texts
from .intrinsics import intrinsic_text
from .kernel import (
    BLOCK,
    THREAD,
    Barrier,
    Guard,
    Kernel,
    Loop,
    Matrix,
    Parameter,
    Sequence,
    Statement,
    accesses,
    walk,
)
from .matrices import ALIGNED_BYTES, MATRIX_SCOPES, SIDE, SUMS, registers_of
from .names import Names
from .shared_values import load_call, load_of, merged_loads, used_again
from .sums import sum_fits, summed_from_zero
from .vector_source import ALIGNED, VECTOR_BYTES, vector_lines

__all__ = ["entry_name", "source_of"]

_Loops = tuple[tuple[Var, Expr], ...]
_IN_FLIGHT = 4
"""Loads of a thread that a compiler may have under way at a time: enough to hide their latency."""
_RESIDENT = 512
"""Threads of a multiprocessor whose warps multiply matrices, so that each may have 128 registers:
an assembler that is not told takes fewer than tiles need, for more threads."""
_WIDTH = 80
"""Characters of an assignment that a line holds."""


def entry_name(kernel: Kernel) -> str:
    """Return what a kernel's function is called in its source."""
    return _named(Names(), kernel)


def _named(names: Names, kernel: Kernel) -> str:
    return names.of(kernel, f"{kernel.name}_kernel")


def source_of(kernel: Kernel, dialect: Dialect = OPENCL) -> str:
    """Return a kernel as source: one function, with those it calls before it.

    Parameters
    ----------
    kernel : Kernel
    dialect : Dialect
    """
    return _Writer(kernel, dialect).text()


class _Writer:
    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        self._kernel, self._dialect = kernel, dialect
        self._names = Names()
        self._helpers: set[tuple[str, str]] = set()
        self._intrinsics: set[str] = set()
        self._tables: dict[tuple[int, ...], str] = {}
        self._from_zero = summed_from_zero(kernel)
        self._lines: list[str] = []

    def text(self) -> str:
        """Return the whole source."""
        kernel, names = self._kernel, self._names
        function = _named(names, kernel)
        given = [self._parameter(k, one) for k, one in enumerate(kernel.parameters)]
        parameters = ",\n    ".join([*given, *self._dialect.places])
        for buffer in (*kernel.shared, *kernel.registers):
            names.of(buffer, buffer.name)
        self._statement(kernel.body, kernel.places, 1)
        x, y, z = kernel.block
        threads = str(x * y * z)
        if any(isinstance(part, Matrix) for part in walk(kernel.body)):
            threads += f", {max(1, _RESIDENT // (x * y * z))}"
        opening = self._dialect.kernel.format(x=x, y=y, z=z, threads=threads)
        head = [f"// {line}" for line in self._described()]
        declarations = self._declarations()
        return "\n".join(
            [
                *head,
                *self._dialect.head.splitlines(),
                *helper_texts(self._helpers, self._dialect),
                *(intrinsic_text(name, self._dialect) for name in sorted(self._intrinsics)),
                *self._integers(),
                f"{opening} {function}(\n    {parameters})",
                "{",
                *declarations,
                *self._lines,
                "}",
                "",
            ]
        )

    def _described(self) -> list[str]:
        kernel = self._kernel
        made = ", ".join(
            f"{self._names.of(p.buffer)} {list(p.shape)}" for p in kernel.parameters if p.written
        )
        grid, block = (" x ".join(map(str, sizes)) for sizes in (kernel.grid, kernel.block))
        return [f"{kernel.name} computes {made}: {grid} blocks of {block} threads"]

    def _parameter(self, number: int, parameter: Parameter) -> str:
        buffer = parameter.buffer
        const = "" if parameter.written else "const "
        name = self._names.of(buffer, buffer.name)
        kind = f"{self._dialect.memory}{const}{self._dialect.array_type(buffer.dtype)}"
        place = self._dialect.parameter.format(number=number)
        return f"{kind} *{self._dialect.restrict} {name}{place}  /* {list(parameter.shape)} */"

    def _declarations(self) -> list[str]:
        kernel, dialect, names = self._kernel, self._dialect, self._names
        lines = []
        for text, variables, sizes in (
            (dialect.block, BLOCK, kernel.grid),
            (dialect.thread, THREAD, kernel.block),
        ):
            for number, (var, size) in enumerate(zip(variables, sizes, strict=True)):
                if size > 1:
                    place = text.format(axis="xyz"[number], number=number)
                    lines.append(f"    const int {var.name} = {place};  // 0..{size - 1}")
        matrices = [part for part in walk(kernel.body) if isinstance(part, Matrix)]
        tiled = {a.buffer for part in matrices for a in (part.output, *part.operands)}
        for buffer in (*kernel.shared, *kernel.registers):
            if buffer.scope in MATRIX_SCOPES:
                kind = dialect.type_of(buffer.dtype) if buffer.scope == SUMS else "unsigned"
                tile = f"[{buffer.total // SIDE**2}][{registers_of(buffer.scope, buffer.dtype)}]"
                lines.append(f"    {kind} {names.of(buffer)}{tile};")
                continue
            shared = buffer.scope == SHARED
            declared = dialect.half_array if buffer.dtype == HALF else ARRAY
            least = ALIGNED_BYTES if buffer in tiled else VECTOR_BYTES
            text = declared.format(
                space=dialect.shared if shared else "",
                type=dialect.array_type(buffer.dtype),
                name=names.of(buffer),
                count=buffer.total,
                aligned=f" {ALIGNED.format(bytes=least)}" if shared else "",
            )
            lines += textwrap.indent(text, "    ").splitlines()
        return [*lines, ""] if lines else []

    def _integers(self) -> list[str]:
        """Return the tables that indices are picked from, some numbers a line."""
        lines = []
        for values, name in self._tables.items():
            lines.append(f"{self._dialect.table}int {name}[{len(values)}] = {{")
            lines += textwrap.wrap(
                ", ".join(map(str, values)),
                _WIDTH,
                initial_indent="    ",
                subsequent_indent="    ",
            )
            lines.append("};")
        return lines

    def _write(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)

    def _statement(self, stmt: Statement, loops: _Loops, depth: int) -> None:
        expressions = self._expressions(loops)
        if isinstance(stmt, Sequence):
            for child in stmt.stmts:
                self._note(child, depth)
                self._statement(child, loops, depth)
        elif isinstance(stmt, Barrier):
            self._write(depth, self._dialect.barrier)
        elif isinstance(stmt, Guard):
            both = " && ".join(expressions.text(condition, 1) for condition in stmt.conditions)
            self._write(depth, f"if ({both}) {{")
            self._statement(stmt.body, loops, depth + 1)
            self._write(depth, "}")
        elif isinstance(stmt, Loop) and stmt.vector:
            within = self._expressions((*loops, (stmt.var, stmt.extent)))
            for line in vector_lines(stmt, self._dialect, self._names, within):
                self._write(depth, line)
        elif isinstance(stmt, Loop):
            if stmt.unroll and isinstance(stmt.extent, Const):
                self._lines.append("#pragma unroll")
            elif _holds_loops(stmt):
                # Compilers that repeat all taps of a window run out of registers.
                self._lines.append("#pragma unroll 1")
            elif _fills_at_length(stmt):
                # All loads at once would take the registers that sums are in.
                self._lines.append(f"#pragma unroll {_IN_FLIGHT}")
            extent = expressions.text(stmt.extent)
            name = self._names.loop(stmt.var)
            self._write(depth, f"for (int {name} = 0; {name} < {extent}; ++{name}) {{")
            self._statement(stmt.body, (*loops, (stmt.var, stmt.extent)), depth + 1)
            self._write(depth, "}")
        else:
            for line in self._alone(stmt, expressions):
                self._write(depth, line)

    def _alone(self, stmt: Intrinsic | Matrix | Store, expressions: Expressions) -> list[str]:
        """Return the lines of a statement that holds no other."""
        if isinstance(stmt, Store):
            return self._store(stmt, expressions)
        if isinstance(stmt, Matrix):
            return self._matrix(stmt, expressions)
        return self._intrinsic(stmt, expressions)

    def _note(self, stmt: Statement, depth: int) -> None:
        """Say of a statement what it does, where its lines do not."""
        read, written = accesses(stmt, SHARED)
        if written and not read and not isinstance(stmt, Barrier):
            (buffer, *_) = sorted(written, key=lambda b: b.name)
            self._write(depth, f"// The block's threads fill {self._names.of(buffer)}.")
        elif stored := sorted(b.name for b in accesses(stmt, "global")[1] if not written):
            self._write(depth, f"// Each thread writes its part of {', '.join(stored)}.")

    def _matrix(self, stmt: Matrix, expressions: Expressions) -> list[str]:
        """Return the call of a function for the threads of a warp."""
        self._intrinsics.add(stmt.function)
        args = []
        for access in (stmt.output, *stmt.operands):
            shared = "&" if access.buffer.scope == SHARED else ""
            args.append(f"{shared}{expressions.where(access)}")
        if not stmt.operands:
            args.append("0.0f" if stmt.output.buffer.dtype == "float32" else "0")
        args += [str(stmt.step)] if stmt.step else []
        whole = f"{stmt.function}({', '.join(args)});"
        if len(whole) <= _WIDTH:
            return [whole]
        return [f"{stmt.function}(", f"    {', '.join(args)});"]

    def _store(self, stmt: Store, expressions: Expressions) -> list[str]:
        """Return an assignment; a long one has its target and what it chooses from apart.

        Parts of its value that are used more than once stand before it, in a block.
        """
        known: dict[Expr, str] = {}
        value = merged_loads(stmt.value, stmt.loads)
        if stmt.target.buffer.dtype == HALF:
            if isinstance(value, Cast) and value.value.dtype == "float32":
                value = value.value  # storing rounds
            moved = _moved(value) if self._dialect.half_moves else None
            if moved is not None:
                return self._copied(stmt, moved, expressions)
        for position, load in enumerate(stmt.loads):
            element = expressions.knowing(known).element(load)
            known[load_call(load.buffer.dtype, position)] = element
        expressions.knowing(known)
        lines = []
        for part in used_again(value):
            name = self._names.of(part, "value")
            lines.append(
                f"const {self._dialect.type_of(part.dtype)} {name} = {expressions.text(part)};"
            )
            known[part] = name
        assignment = self._assignment(stmt.target, value, expressions)
        if not lines:
            return assignment
        return ["{", *(f"    {line}" for line in (*lines, *assignment)), "}"]

    def _copied(self, stmt: Store, value: Expr, expressions: Expressions) -> list[str]:
        """Return the assignment of halves as they lie in memory."""
        known: dict[Expr, str] = {}
        for position, load in enumerate(stmt.loads):
            known[load_call(load.buffer.dtype, position)] = expressions.where(load)
        opening = f"{expressions.where(stmt.target)} = "
        return _assigned(opening, value, ";", expressions.knowing(known))

    def _intrinsic(self, stmt: Intrinsic, expressions: Expressions) -> list[str]:
        self._intrinsics.add(stmt.intrin.name)
        operands = (
            f"{self._names.of(one.buffer)} + {expressions.place(one.offset)}"
            for one in stmt.operands
        )
        target = expressions.where(stmt.output)
        return [f"{target} =", f"    {stmt.intrin.name}({', '.join((*operands, target))});"]

    def _assignment(self, to: Access, value: Expr, expressions: Expressions) -> list[str]:
        opening, closing = expressions.stored(to)
        if not isinstance(value, Reduce):
            return _assigned(opening, value, closing, expressions)
        source, dtype = expressions.text(value.source), value.dtype
        if value.kind != "sum":
            given = expressions.element(to)
            extreme = expressions.values.extreme(value.kind, given, source, dtype)
            return [f"{opening}{extreme}{closing}"]
        _check_sum(to)
        target, places = expressions.where(to), len(self._kernel.places)
        fits = to.buffer in self._from_zero and sum_fits(value, expressions.loops, places)
        if dtype in ("int32", "int64") and not fits:
            return [f"{target} = {expressions.values.call('plus', dtype, target, source)};"]
        whole = f"{target} += {source};"
        return [whole] if len(whole) <= _WIDTH else [f"{target} +=", f"    {source};"]

    def _expressions(self, loops: _Loops) -> Expressions:
        return Expressions(self._dialect, self._names, loops, self._helpers, self._tables)


def _fills_at_length(loop: Loop) -> bool:
    """Tell whether a loop fills shared memory in many more steps than need be under way."""
    return (
        isinstance(loop.extent, Const)
        and loop.extent.value > 2 * _IN_FLIGHT
        and bool(accesses(loop, SHARED)[1])
    )


def _assigned(opening: str, value: Expr, closing: str, expressions: Expressions) -> list[str]:
    """Return the lines of an assignment."""
    whole = f"{opening}{expressions.text(value)}{closing}"
    if len(whole) <= _WIDTH:
        return [whole]
    parts = [expressions.text(value)]
    if isinstance(value, Select):
        condition, then, other = (
            expressions.text(part, 1) for part in (value.condition, value.then, value.other)
        )
        parts = [condition, f"? {then}", f": {other}"]
    *before, last = parts
    return [opening.rstrip(), *(f"    {part}" for part in before), f"    {last}{closing}"]


def _moved(value: Expr) -> Expr | None:
    """Return a value that is an element or 0, with the 0 as an integer; None of others."""
    if isinstance(value, Select):
        if any(load_of(part) is not None for part in parts_within(value.condition)):
            return None
        then, other = _moved(value.then), _moved(value.other)
        return None if then is None or other is None else Select(value.condition, then, other)
    if isinstance(value, Real) and str(value.value) == "0.0":  # -0.0 has a bit
        return Const(0)
    return value if load_of(value) is not None and value.dtype == HALF else None


def _check_sum(to: Access) -> None:
    """Check that a sum is added up in an array of its precision.

    Raises
    ------
    LoweringError
        It is an array of halves.
    """
    if to.buffer.dtype == HALF:
        raise LoweringError(
            f"A sum must be added up in float32, and {to.buffer.name} is float16: convert "
            "what is added up with astype, and the sum back."
        )


def _holds_loops(loop: Loop) -> bool:
    """Tell whether loops that are not to be unrolled stand in a loop."""
    inner = (part for part in walk(loop.body) if isinstance(part, Loop))
    return any(not (part.unroll or part.vector) for part in inner)
