"""Kernels as source that a person can read."""

from __future__ import annotations

import textwrap

from vdla.compiler.ir.stmt import Access, Store
from vdla.compiler.lower.regions import SHARED
from vdla.compiler.te.expr import Const, Expr, Reduce, Select, Var

from .dialect import OPENCL, Dialect
from .expressions import HELPERS, Expressions
from .kernel import (
    BLOCK,
    THREAD,
    Barrier,
    Guard,
    Kernel,
    Loop,
    Parameter,
    Sequence,
    Statement,
    accesses,
)
from .limits import C_TYPES
from .names import Names

__all__ = ["source_of"]

_Loops = tuple[tuple[Var, Expr], ...]
_WIDTH = 80
"""Characters of an assignment that a line holds."""


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
        self._helpers: set[str] = set()
        self._tables: dict[tuple[int, ...], str] = {}
        self._lines: list[str] = []

    def text(self) -> str:
        """Return the whole source."""
        kernel, names = self._kernel, self._names
        function = names.of(kernel, f"{kernel.name}_kernel")
        given = [self._parameter(k, one) for k, one in enumerate(kernel.parameters)]
        parameters = ",\n    ".join([*given, *self._dialect.places])
        for buffer in (*kernel.shared, *kernel.registers):
            names.of(buffer, buffer.name)
        self._statement(kernel.body, kernel.places, 1)
        x, y, z = kernel.block
        opening = self._dialect.kernel.format(x=x, y=y, z=z, threads=x * y * z)
        head = [f"// {line}" for line in self._described()]
        helpers = [
            line.format(helper=self._dialect.helper)
            for name, line in HELPERS.items()
            if name in self._helpers
        ]
        return "\n".join(
            [
                *head,
                *self._dialect.head.splitlines(),
                *helpers,
                *self._integers(),
                f"{opening} {function}(\n    {parameters})",
                "{",
                *self._declarations(),
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
        kind = f"{self._dialect.memory}{const}{C_TYPES[buffer.dtype]}"
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
        for buffer in kernel.shared:
            kind = f"{dialect.shared}{C_TYPES[buffer.dtype]}"
            lines.append(f"    {kind} {names.of(buffer)}[{buffer.total}];")
        for buffer in kernel.registers:
            lines.append(f"    {C_TYPES[buffer.dtype]} {names.of(buffer)}[{buffer.total}];")
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
        elif isinstance(stmt, Loop):
            if stmt.unroll and isinstance(stmt.extent, Const):
                self._lines.append("#pragma unroll")
            extent = expressions.text(stmt.extent)
            name = self._names.loop(stmt.var)
            self._write(depth, f"for (int {name} = 0; {name} < {extent}; ++{name}) {{")
            self._statement(stmt.body, (*loops, (stmt.var, stmt.extent)), depth + 1)
            self._write(depth, "}")
        else:
            for line in self._store(stmt, expressions):
                self._write(depth, line)

    def _note(self, stmt: Statement, depth: int) -> None:
        """Say of a statement what it does, where its lines do not."""
        read, written = accesses(stmt, SHARED)
        if written and not read and not isinstance(stmt, Barrier):
            (buffer, *_) = sorted(written, key=lambda b: b.name)
            self._write(depth, f"// The block's threads fill {self._names.of(buffer)}.")
        elif stored := sorted(b.name for b in accesses(stmt, "global")[1] if not written):
            self._write(depth, f"// Each thread writes its part of {', '.join(stored)}.")

    def _store(self, stmt: Store, expressions: Expressions) -> list[str]:
        """Return an assignment; a long one has its target and what it chooses from apart."""

        def element(access: Access) -> str:
            return f"{self._names.of(access.buffer)}[{expressions.text(access.offset)}]"

        loads = [element(load) for load in stmt.loads]
        target, value = element(stmt.target), stmt.value
        if isinstance(value, Reduce):
            source = expressions.text(value.source, loads=loads)
            if value.kind == "sum":
                whole = f"{target} += {source};"
                return [whole] if len(whole) <= _WIDTH else [f"{target} +=", f"    {source};"]
            return [f"{target} = {expressions.extreme(value.kind, target, source, value.dtype)};"]
        whole = f"{target} = {expressions.text(value, loads=loads)};"
        if len(whole) <= _WIDTH:
            return [whole]
        if not isinstance(value, Select):
            return [f"{target} =", f"    {expressions.text(value, loads=loads)};"]
        condition, then, other = (
            expressions.text(part, 1, loads) for part in (value.condition, value.then, value.other)
        )
        return [f"{target} =", f"    {condition}", f"    ? {then}", f"    : {other};"]

    def _expressions(self, loops: _Loops) -> Expressions:
        return Expressions(self._dialect, self._names, loops, self._helpers, self._tables)
