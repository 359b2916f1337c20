"""Axes of a grid and of its blocks: what tells a thread where it stands, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.ir.linear import const_bounds
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.ir.stmt import Alloc, Block, For, Stmt
from vdla.compiler.te.axes import BLOCK_AXES, THREAD_AXES
from vdla.compiler.te.expr import Const, Expr, Var
from vdla.errors import LoweringError

from .kernel import BLOCK, THREAD

__all__ = ["VARIABLES", "thread_sizes"]

_Loops = tuple[tuple[Var, Expr], ...]

VARIABLES: Mapping[str, Var] = dict(
    zip((*BLOCK_AXES, *THREAD_AXES), (*BLOCK, *THREAD), strict=True)
)
"""By what loops are bound to."""


def thread_sizes(body: Stmt) -> dict[str, int]:
    """Return how many blocks or threads there are along each axis that loops are bound to.

    Raises
    ------
    LoweringError
        The number of blocks is no constant.
    """
    sizes = dict.fromkeys(VARIABLES, 1)

    def visit(stmt: Stmt, loops: _Loops) -> None:
        if isinstance(stmt, For):
            if stmt.kind in VARIABLES:
                if stmt.kind in BLOCK_AXES and not isinstance(stmt.extent, Const):
                    raise LoweringError(
                        f"The blocks of a grid must be a constant number; loop {stmt.var.name}, "
                        f"bound to {stmt.kind}, takes {expr_text(stmt.extent)}: bind the outer "
                        "loop of a split."
                    )
                most = const_bounds(stmt.extent, loops)[1]
                sizes[stmt.kind] = max(sizes[stmt.kind], most)
            visit(stmt.body, (*loops, (stmt.var, stmt.extent)))
        elif isinstance(stmt, Alloc):
            visit(stmt.body, loops)
        elif isinstance(stmt, Block):
            for child in stmt.stmts:
                visit(child, loops)

    visit(body, ())
    return sizes
