"""Expressions as Python functions, for walking loops with concrete values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler.te.expr import Const, Expr, Var
from vdla.compiler.te.traverse import map_expr, walk

from .printer import expr_text

__all__ = ["Env", "Evaluator", "exact_bounds"]

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


def exact_bounds(
    expr: Expr, loops: Sequence[tuple[Var, Expr]], limit: int = 1 << 16
) -> tuple[int, int] | None:
    """Return the least and greatest value of an expression by running its loops.

    Parameters
    ----------
    expr : Expr
    loops : sequence of (Var, Expr)
        Enclosing loops and their extents, outermost first.
    limit : int
        Most iterations tried.

    Returns
    -------
    tuple of int or None
        None where nothing runs, or more than ``limit`` iterations would.
    """
    needed = {part for part in walk(expr) if isinstance(part, Var)}
    kept: list[tuple[Var, Expr]] = []
    for var, extent in reversed(loops):
        if var in needed:
            kept.insert(0, (var, extent))
            needed.update(part for part in walk(extent) if isinstance(part, Var))
    evaluator = Evaluator()
    env = evaluator.env
    slots = [(evaluator.slot(var), evaluator.compile(extent)) for var, extent in kept]
    value = evaluator.compile(expr)
    seen: list[int] = []
    steps = 0

    def run(depth: int) -> bool:
        nonlocal steps
        if depth == len(slots):
            steps += 1
            found = value(env)
            seen[:] = [min(seen[0], found), max(seen[1], found)] if seen else [found, found]
            return steps <= limit
        slot, extent = slots[depth]
        for at in range(extent(env)):
            env[slot] = at
            if not run(depth + 1):
                return False
        return True

    return (seen[0], seen[1]) if run(0) and seen else None
