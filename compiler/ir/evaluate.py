"""Expressions as Python functions, for walking loops with concrete values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler.te.expr import Const, Expr, Var
from vdla.compiler.te.traverse import walk

from .printer import expr_text

__all__ = ["Env", "Evaluator", "exact_bounds", "exact_values"]

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
                text = expr_text(expr, called=lambda var: f"e[{self.slot(var)}]")
                self._functions[expr] = eval(f"lambda e: {text}", {"min": min, "max": max})
        return self._functions[expr]


def exact_values(
    expr: Expr, loops: Sequence[tuple[Var, Expr]], limit: int = 1 << 16, most: int | None = None
) -> set[int] | None:
    """Return every value of an expression by running its loops.

    Parameters
    ----------
    expr : Expr
    loops : sequence of (Var, Expr)
        Enclosing loops and their extents, outermost first.
    limit : int
        Most iterations tried.
    most : int, optional
        Most values looked for.

    Returns
    -------
    set of int or None
        None where more iterations would run than ``limit``, or more values come than ``most``.
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
    seen: set[int] = set()
    steps = 0

    def run(depth: int) -> bool:
        nonlocal steps
        if depth == len(slots):
            steps += 1
            seen.add(value(env))
            return steps <= limit and (most is None or len(seen) <= most)
        slot, extent = slots[depth]
        for at in range(extent(env)):
            env[slot] = at
            if not run(depth + 1):
                return False
        return True

    return seen if run(0) else None


def exact_bounds(
    expr: Expr, loops: Sequence[tuple[Var, Expr]], limit: int = 1 << 16
) -> tuple[int, int] | None:
    """Return the least and greatest value of an expression by running its loops.

    None where nothing runs, or more than ``limit`` iterations would; see `exact_values`.
    """
    seen = exact_values(expr, loops, limit)
    return (min(seen), max(seen)) if seen else None
