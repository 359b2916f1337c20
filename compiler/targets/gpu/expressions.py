"""Expressions of one element in C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isinf, isnan

import numpy as np

from vdla.compiler.ir.linear import is_data, sum_of
from vdla.compiler.ir.stmt import Access
from vdla.compiler.te.expr import Binary, Call, Cast, Const, Expr, Pick, Real, Select, Var
from vdla.errors import LoweringError

from .conditions import never_negative
from .dialect import HALF, Dialect, constant_text
from .names import Names
from .ranks import RANK, ranked
from .values import Values, check_exact

__all__ = ["Expressions"]

_FUNCTIONS = {
    "abs": "fabs",
    **{
        name: name for name in ("ceil", "erf", "exp", "floor", "log", "pow", "rint", "sqrt", "tanh")
    },
}


class Expressions:
    """Writes expressions.

    Parameters
    ----------
    dialect : Dialect
    names : Names
    loops : sequence of (Var, Expr)
        The ranges of variables where the expressions stand.
    helpers : set of (str, str)
        Takes the functions of `helper_texts` that were used.
    tables : dict of tuple to str
        Takes what is picked from, and its name.
    """

    def __init__(
        self,
        dialect: Dialect,
        names: Names,
        loops: Sequence[tuple[Var, Expr]],
        helpers: set[tuple[str, str]],
        tables: dict[tuple[int, ...], str],
    ) -> None:
        self._dialect, self._names = dialect, names
        self._tables = tables
        self.loops = tuple(loops)
        self._known: Mapping[Expr, str] = {}
        self.values = Values(dialect, helpers, self.text)

    def knowing(self, known: Mapping[Expr, str]) -> Expressions:
        """Take texts of what is computed already: elements that were loaded, and values."""
        self._known = known
        return self

    def text(self, expr: Expr, rank: int = 0) -> str:
        """Return an expression in C, in parentheses where it binds less than ``rank``."""
        if expr in self._known:
            return self._known[expr]
        if isinstance(expr, Const):
            text = constant_text(expr.value, expr.dtype, self._dialect)
            return f"({text})" if expr.value < 0 and rank > 0 and text[0] == "-" else text
        if isinstance(expr, Real):
            return self._real(expr)
        if isinstance(expr, Var):
            return self._names.of(expr, expr.name)
        if isinstance(expr, Pick):
            if expr.values not in self._tables:
                self._tables[expr.values] = self._names.of(expr.values, "picked")
            return f"{self._tables[expr.values]}[{self.text(expr.index)}]"
        if isinstance(expr, Binary):
            return self._binary(expr, rank)
        if isinstance(expr, Cast):
            return self.values.cast(expr, rank)
        if isinstance(expr, Select):
            parts = (
                self.text(expr.condition, 1),
                self.text(expr.then, 1),
                self.text(expr.other),
            )
            return ranked("{} ? {} : {}".format(*parts), 0, rank)
        if isinstance(expr, Call):
            return self._function(expr, rank)
        raise LoweringError(f"A kernel computes with expressions of one element, not {expr!r}.")

    def place(self, offset: Expr) -> str:
        """Return an index, which lies inside its array and so never wraps around."""
        if isinstance(offset, Binary) and offset.op in ("+", "-", "*"):
            return self._sum(offset, 0)
        return self.text(offset)

    def where(self, access: Access) -> str:
        """Return an element as it lies in memory, to write to or to copy."""
        return f"{self._names.of(access.buffer)}[{self.place(access.offset)}]"

    def element(self, access: Access) -> str:
        """Return the value of an element."""
        if access.buffer.dtype != HALF:
            return self.where(access)
        loaded = self._dialect.half_loaded
        self.values.use(loaded)
        name, index = self._names.of(access.buffer), self.place(access.offset)
        return loaded.format(name=name, index=index)

    def stored(self, to: Access) -> tuple[str, str]:
        """Return what stands before and behind a value that is assigned to an element."""
        if to.buffer.dtype != HALF:
            return f"{self.where(to)} = ", ";"
        stored = self._dialect.half_stored
        self.values.use(stored)
        name, index = self._names.of(to.buffer), self.place(to.offset)
        opening, closing = stored.split("{value}")
        return opening.format(name=name, index=index), closing.format(name=name, index=index)

    def _function(self, expr: Call, rank: int) -> str:
        if expr.name in self._dialect.lacks:
            raise LoweringError(
                f"A kernel calls what its language has, and {self._dialect.name} has no "
                f"{expr.name}: leave the operator on the processor."
            )
        if expr.name == "wrap":
            return self.values.cut(expr.args[0], expr.dtype, rank)
        args = [self.text(arg) for arg in expr.args]
        if expr.name == "power":
            return self.values.power(expr, *args)
        if expr.name in _FUNCTIONS:
            check_exact(expr)
            single = self._dialect.single if expr.dtype != "float64" else ""
            return f"{_FUNCTIONS[expr.name]}{single}({', '.join(args)})"
        raise LoweringError(
            f"A kernel calls {', '.join(_FUNCTIONS)}, power and wrap, not {expr.name}: leave the "
            "operator on the processor."
        )

    def _real(self, expr: Real) -> str:
        single = expr.dtype != "float64"
        with np.errstate(over="ignore"):
            value = float(np.dtype(expr.dtype).type(expr.value))
        if isinf(value) or isnan(value):
            name = self._dialect.not_a_number if isnan(value) else self._dialect.infinity
            return f"-{name}" if value == -inf else name
        text = repr(value)
        text = text if "." in text or "e" in text else f"{text}.0"
        return f"{text}f" if single else text

    def _binary(self, expr: Binary, rank: int) -> str:
        if is_data(expr) or expr.a.dtype not in ("int32", "bool"):
            return self.values.binary(expr, rank)
        if expr.op in ("+", "-", "*"):
            return self._sum(expr, rank)
        if expr.op in ("//", "%") and not never_negative(expr.a, self.loops):
            name = "floor_div" if expr.op == "//" else "floor_mod"
            return self.values.call(name, "int32", self.text(expr.a), self.text(expr.b))
        if expr.op not in ("//", "%"):
            return self.values.binary(expr, rank)
        own, op = RANK[expr.op], {"//": "/"}.get(expr.op, expr.op)
        return ranked(f"{self.text(expr.a, own)} {op} {self.text(expr.b, own + 1)}", own, rank)

    def _sum(self, expr: Expr, rank: int) -> str:
        """Return a sum of multiples, what is subtracted last: ``33 - 16 * k``."""
        atoms, constant = sum_of(expr)
        parts = [(factor, self._multiple(abs(factor), atom)) for atom, factor in atoms.items()]
        if constant or not parts:
            parts.append((constant, str(abs(constant))))
        parts.sort(key=lambda part: part[0] < 0)
        first = parts[0][1] if parts[0][0] >= 0 else f"-{parts[0][1]}"
        text = first + "".join(
            f" {'-' if factor < 0 else '+'} {part}" for factor, part in parts[1:]
        )
        own = RANK["*"] if len(parts) == 1 else RANK["+"]
        return f"({text})" if own < rank or (rank and text[0] == "-") else text

    def _multiple(self, factor: int, atom: Expr) -> str:
        if factor == 1:
            return self.text(atom, RANK["*"])
        return f"{factor} * {self.text(atom, RANK['*'] + 1)}"
