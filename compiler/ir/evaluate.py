"""Expressions as Python functions, for walking loops with concrete values."""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler.te.expr import Const, Expr, Var, map_expr

from .printer import expr_text

__all__ = ["Env", "Evaluator"]

Env = list[int]
"""Value of every loop variable, by slot."""


class Evaluator:
    """Compiles index expressions into functions of an environment.

    Each variable gets a slot; a compiled function reads the slots it needs, so that a walk over
    thousands of tiles evaluates indices at the speed of Python's own arithmetic.
    """

    def __init__(self) -> None:
        self._slots: dict[Var, int] = {}
        self._functions: dict[Expr, Callable[[Env], int]] = {}
        self.env: Env = []

    def slot(self, var: Var) -> int:
        """Return a variable's slot in the environment."""
        if var not in self._slots:
            self._slots[var] = len(self._slots)
            self.env.append(0)
        return self._slots[var]

    def compile(self, expr: Expr) -> Callable[[Env], int]:
        """Return a function that evaluates an integer expression."""
        if expr not in self._functions:
            if isinstance(expr, Const):
                value = expr.value
                self._functions[expr] = lambda env: value
            else:
                text = self._text(expr)
                self._functions[expr] = eval(f"lambda e: {text}", {"min": min, "max": max})
        return self._functions[expr]

    def _text(self, expr: Expr) -> str:
        named = map_expr(expr, lambda e: Var(f"e[{self.slot(e)}]") if isinstance(e, Var) else None)
        return expr_text(named)
