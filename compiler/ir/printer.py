"""Text of expressions and statements, for `VDLA_DUMP` and golden tests."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from vdla.compiler.te.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Pick,
    Read,
    Real,
    Reduce,
    Select,
    Var,
)
from vdla.compiler.te.traverse import map_expr

from .stmt import Access, Alloc, Block, Condition, Copy, For, If, Intrinsic, Move, Stmt, Store

__all__ = ["expr_text", "stmt_text"]

_RANK = {
    "and": 0,
    **dict.fromkeys(("<", "<=", "=="), 1),
    **dict.fromkeys(("<<", ">>"), 2),
    **dict.fromkeys(("+", "-"), 3),
    **dict.fromkeys(("*", "/", "//", "%"), 4),
}


def expr_text(
    expr: Expr, rank: int = 0, *, called: Callable[[Var], str] = attrgetter("name")
) -> str:
    """Return an expression as Python-like text.

    Parameters
    ----------
    expr : Expr
    rank : int
        Of the operator around it: what binds less tightly gets parentheses.
    called : callable
        What stands for a variable.
    """

    def text(expr: Expr, rank: int = 0) -> str:
        if isinstance(expr, (Const, Real)):
            return str(expr.value)
        if isinstance(expr, Var):
            return called(expr)
        if isinstance(expr, Binary):
            if expr.op in ("min", "max"):
                return f"{expr.op}({text(expr.a)}, {text(expr.b)})"
            own = _RANK[expr.op]
            left = (
                own + 1 if expr.dtype == "bool" and expr.op != "and" else own
            )  # Python would chain
            both = f"{text(expr.a, left)} {expr.op} {text(expr.b, own + 1)}"
            return f"({both})" if own < rank else both
        if isinstance(expr, Cast):
            return f"{expr.dtype}({text(expr.value)})"
        if isinstance(expr, Select):
            parts = (expr.condition, expr.then, expr.other)
            return f"select({', '.join(text(part) for part in parts)})"
        if isinstance(expr, Read):
            return f"{expr.tensor.name}[{', '.join(text(i) for i in expr.indices)}]"
        if isinstance(expr, Call):
            attrs = [f"{name}={value}" for name, value in expr.attrs]
            if expr.name == "wrap":
                attrs.append(expr.dtype)
            return f"{expr.name}({', '.join([*map(text, expr.args), *attrs])})"
        if isinstance(expr, Pick):
            return f"{expr.values}[{text(expr.index)}]"
        if isinstance(expr, Reduce):
            axes = ", ".join(axis.name for axis in expr.axes)
            start = "" if expr.start is None else f", from {text(expr.start)}"
            return f"{expr.kind}({text(expr.source)} for {axes}{start})"
        return repr(expr)

    return text(expr, rank)


def _access(access: Access) -> str:
    return f"{access.buffer.name}[{expr_text(access.offset)}]"


def stmt_text(stmt: Stmt, indent: int = 0) -> str:
    """Return a statement as indented text, a line a statement."""
    pad = "  " * indent
    if isinstance(stmt, Block):
        return "\n".join(stmt_text(child, indent) for child in stmt.stmts)
    if isinstance(stmt, For):
        kind = "" if stmt.kind == "serial" else f" ({stmt.kind})"
        head = f"{pad}for {stmt.var.name} in {expr_text(stmt.extent)}{kind}:"
        return f"{head}\n{stmt_text(stmt.body, indent + 1)}"
    if isinstance(stmt, If):
        then, other = (stmt_text(part, indent + 1) for part in (stmt.then, stmt.other))
        return f"{pad}if {expr_text(stmt.condition)}:\n{then}\n{pad}else:\n{other}"
    if isinstance(stmt, Alloc):
        buffer = stmt.buffer
        copies = "".join(f" x{count}" for _, count in buffer.threads)
        head = f"{pad}alloc {buffer.name}: {buffer.dtype}[{buffer.size}]{copies} in {buffer.scope}"
        return f"{head}\n{stmt_text(stmt.body, indent)}"
    if isinstance(stmt, Store):
        return f"{pad}{_access(stmt.target)} {_stored(stmt)}"
    if isinstance(stmt, Move):
        return f"{pad}{_access(stmt.output)} = move({_access(stmt.operand)})"
    if isinstance(stmt, Copy):
        loops = ", ".join(f"{var.name} in {expr_text(extent)}" for var, extent in stmt.loops)
        where = " and ".join(map(_condition, stmt.conditions))
        where = f" where {where} else {stmt.pad_value}" if where else ""
        return f"{pad}copy {_access(stmt.target)} = {_access(stmt.source)} for {loops}{where}"
    assert isinstance(stmt, Intrinsic)
    operands = ", ".join([_access(a) for a in stmt.operands] + [str(s) for s in stmt.scalars])
    first = ""
    if stmt.start is not None:
        zero = " and ".join(f"{var.name} = 0" for var in stmt.first)
        first = f"  # from {stmt.start}" + (f" where {zero}" if zero else "")
    return f"{pad}{_access(stmt.output)} = {stmt.intrin.name}({operands}){first}"


def _stored(stmt: Store) -> str:
    """Return the right side of a store, its loads in place."""

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Call) and expr.name == "load":
            load = stmt.loads[dict(expr.attrs)["position"]]
            return Var(_access(Access(load.buffer, map_expr(load.offset, visit))), expr.dtype)
        return None

    if isinstance(stmt.value, Reduce):
        source = expr_text(map_expr(stmt.value.source, visit))
        if stmt.value.kind == "sum":
            return f"+= {source}"
        return f"= {stmt.value.kind}({_access(stmt.target)}, {source})"
    return f"= {expr_text(map_expr(stmt.value, visit))}"


def _condition(condition: Condition) -> str:
    text = expr_text(condition.value)
    if condition.low is not None:
        text = f"{condition.low} <= {text}"
    return text if condition.high is None else f"{text} < {condition.high}"
