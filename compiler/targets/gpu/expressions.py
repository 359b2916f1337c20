"""Expressions of one element in C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isinf, isnan

import numpy as np

from vdla.compiler.ir.linear import sum_of
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.te.expr import Binary, Call, Cast, Const, Expr, Pick, Real, Select, Var
from vdla.errors import LoweringError

from .conditions import never_negative
from .dialect import Dialect
from .names import Names

__all__ = ["HELPERS", "Expressions"]

HELPERS: Mapping[str, str] = {
    "floor_div": (
        "{helper}int floor_div(int a, int b) {{ return a / b - (a % b != 0 && (a ^ b) < 0); }}"
    ),
    "floor_mod": "{helper}int floor_mod(int a, int b) {{ return a - floor_div(a, b) * b; }}",
    "least": "{helper}float least(float a, float b) {{ return a < b || a != a ? a : b; }}",
    "greatest": "{helper}float greatest(float a, float b) {{ return a > b || a != a ? a : b; }}",
}
"""Functions that kernels call, by name: C's quotients round to 0, and its extremes drop a NaN."""

_RANK = {
    "and": 1,
    **dict.fromkeys(("<", "<=", "=="), 2),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "//", "%"), 5),
}
_UNARY = 6
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
    helpers : set of str
        Takes the functions of `HELPERS` that were used.
    tables : dict of tuple to str
        Takes what is picked from, and its name.
    """

    def __init__(
        self,
        dialect: Dialect,
        names: Names,
        loops: Sequence[tuple[Var, Expr]],
        helpers: set[str],
        tables: dict[tuple[int, ...], str],
    ) -> None:
        self._dialect, self._names, self._helpers = dialect, names, helpers
        self._tables = tables
        self._loops = tuple(loops)

    def text(self, expr: Expr, rank: int = 0, loads: Sequence[str] = ()) -> str:
        """Return an expression in C, in parentheses where it binds less than ``rank``.

        ``loads`` are the texts of the elements that calls of ``load`` stand for.
        """
        if isinstance(expr, Const):
            text = str(expr.value)
            return f"({text})" if expr.value < 0 and rank > 0 else text
        if isinstance(expr, Real):
            return self._real(expr)
        if isinstance(expr, Var):
            return self._names.of(expr, expr.name)
        if isinstance(expr, Pick):
            if expr.values not in self._tables:
                self._tables[expr.values] = self._names.of(expr.values, "picked")
            return f"{self._tables[expr.values]}[{self.text(expr.index, 0, loads)}]"
        if isinstance(expr, Binary):
            return self._binary(expr, rank, loads)
        if isinstance(expr, Cast):
            return self._cast(expr, rank, loads)
        if isinstance(expr, Select):
            parts = (
                self.text(expr.condition, 1, loads),
                self.text(expr.then, 1, loads),
                self.text(expr.other, 0, loads),
            )
            text = "{} ? {} : {}".format(*parts)
            return f"({text})" if rank > 0 else text
        if isinstance(expr, Call) and expr.name == "load":
            return loads[dict(expr.attrs)["position"]]
        if isinstance(expr, Call) and expr.name in self._dialect.lacks:
            raise LoweringError(
                f"A kernel calls what its language has, and {self._dialect.name} has no "
                f"{expr.name}: leave the operator on the processor."
            )
        if isinstance(expr, Call) and expr.name in _FUNCTIONS:
            args = ", ".join(self.text(arg, 0, loads) for arg in expr.args)
            return f"{_FUNCTIONS[expr.name]}{self._dialect.single}({args})"
        raise LoweringError(
            f"A kernel computes with +, -, *, /, comparisons, selects and functions of floats so "
            f"far, not with {expr_text(expr)}: leave the operator on the processor."
        )

    def _cast(self, expr: Cast, rank: int, loads: Sequence[str]) -> str:
        given, dtype = expr.value.dtype, expr.dtype
        if dtype == "bool" and given == "float32":
            text = f"{self.text(expr.value, _RANK['=='] + 1, loads)} != 0"
            return f"({text})" if rank > _RANK["=="] else text
        if dtype == "float32" and given in ("bool", "int32"):
            return f"(float){self.text(expr.value, _UNARY, loads)}"
        raise LoweringError(
            f"A kernel makes float32 of bool and of indices, and bool of float32, so far, not "
            f"{dtype} of {given}: leave the operator on the processor."
        )

    def extreme(self, kind: str, a: str, b: str, dtype: str) -> str:
        """Return the smaller or greater of two values; of floats, NaN where one is."""
        if dtype != "float32":
            return f"{kind}({a}, {b})"
        return self._call("least" if kind == "min" else "greatest", a, b)

    def _call(self, helper: str, *args: str) -> str:
        self._helpers.add(helper)
        if helper == "floor_mod":
            self._helpers.add("floor_div")
        return f"{helper}({', '.join(args)})"

    def _real(self, expr: Real) -> str:
        value = float(np.float32(expr.value))
        if isinf(value) or isnan(value):
            name = self._dialect.not_a_number if isnan(value) else self._dialect.infinity
            return f"-{name}" if value == -inf else name
        text = repr(value)
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"

    def _binary(self, expr: Binary, rank: int, loads: Sequence[str]) -> str:
        if expr.dtype == "int32" and expr.op in ("+", "-", "*"):
            return self._sum(expr, rank)
        if expr.op in ("min", "max"):
            a, b = (self.text(part, 0, loads) for part in (expr.a, expr.b))
            return self.extreme(expr.op, a, b, expr.dtype)
        if expr.op not in _RANK:
            raise LoweringError(
                f"A kernel has no {expr.op} yet, in {expr_text(expr)}: leave the operator on the "
                "processor."
            )
        if expr.op in ("//", "%") and not never_negative(expr.a, self._loops):
            name = "floor_div" if expr.op == "//" else "floor_mod"
            return self._call(name, *(self.text(part, 0, loads) for part in (expr.a, expr.b)))
        own, op = _RANK[expr.op], {"//": "/", "and": "&&"}.get(expr.op, expr.op)
        text = f"{self.text(expr.a, own, loads)} {op} {self.text(expr.b, own + 1, loads)}"
        return f"({text})" if own < rank else text

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
        own = _RANK["*"] if len(parts) == 1 else _RANK["+"]
        return f"({text})" if own < rank or (rank and text[0] == "-") else text

    def _multiple(self, factor: int, atom: Expr) -> str:
        if factor == 1:
            return self.text(atom, _RANK["*"])
        return f"{factor} * {self.text(atom, _RANK['*'] + 1)}"
