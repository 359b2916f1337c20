"""Proof that every access of a kernel lies inside its array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vdla.compiler.ir.linear import const_bounds, is_data, simplify, sum_of
from vdla.compiler.ir.printer import expr_text
from vdla.compiler.ir.stmt import Access, Intrinsic, Store
from vdla.compiler.te.expr import Binary, Call, Const, Expr, Select, Var
from vdla.compiler.te.ranges import value_range
from vdla.compiler.te.traverse import map_expr, parts_of
from vdla.errors import LoweringError

from .conditions import below, bounds, contained, facts_against, facts_of, never_negative
from .counting import never_negative_counted
from .kernel import Guard, Kernel, Loop, Matrix, Statement
from .kernel import Sequence as Statements
from .matrices import MATRIX_SCOPES, SIDE

__all__ = ["check_bounds", "lies_inside"]

_Loops = tuple[tuple[Var, Expr], ...]
_Facts = tuple[Expr, ...]
"""What is at least 0 where a statement runs."""
_LINEAR = ("+", "-", "*", "//", "%")


def check_bounds(kernel: Kernel) -> None:
    """Check that no thread reaches outside an array, wherever it stands.

    An offset is held against 0 and against the array's last element: by the ranges of blocks,
    threads and loops, and where those do not suffice by the conditions around the access as well.
    ``129 * m + n`` lies in an array of 65 x 129 elements where ``m < 65`` and ``n < 129``: the last
    element less the offset is ``129 * (64 - m) + (128 - n)``. Where no such sum is found, and the
    places are few, each is tried.

    Raises
    ------
    LoweringError
        Names the access for which that is not shown.
    """
    _visit(kernel.body, kernel.places, ())


def lies_inside(stmt: Statement, loops: _Loops, conditions: Sequence[Expr]) -> bool:
    """Tell whether all accesses of a statement are shown to lie inside their arrays.

    Parameters
    ----------
    stmt : Statement
    loops : tuple of (Var, Expr)
        Ranges of the variables outside it.
    conditions : sequence of Expr
        What holds there.
    """
    try:
        _visit(stmt, loops, tuple(d for c in conditions for d in facts_of(c)))
    except LoweringError:
        return False
    return True


def _visit(stmt: Statement, loops: _Loops, facts: _Facts) -> None:
    if isinstance(stmt, Statements):
        for child in stmt.stmts:
            _visit(child, loops, facts)
    elif isinstance(stmt, Loop):
        inner = (*loops, (stmt.var, stmt.extent))
        more = [d for c in below(stmt.var, stmt.extent) for d in facts_of(c)]
        _visit(stmt.body, inner, (*facts, *more))
    elif isinstance(stmt, Guard):
        _visit(stmt.body, loops, (*facts, *(d for c in stmt.conditions for d in facts_of(c))))
    elif isinstance(stmt, Matrix):
        _tiles(stmt, loops, facts)
    elif isinstance(stmt, Store):
        _access(stmt.target, loops, facts)
        _loads(stmt.value, stmt.loads, loops, facts)
    elif isinstance(stmt, Intrinsic):
        _access(stmt.output, loops, facts)
        for operand, tensor in zip(stmt.operands, stmt.intrin.operands, strict=True):
            _access(operand, loops, facts, tensor.shape[-1])
            _check_whole(operand, tensor.shape[-1], stmt.intrin.name)


def _tiles(stmt: Matrix, loops: _Loops, facts: _Facts) -> None:
    """Check the first element of each tile, and its last."""
    for access in (stmt.output, *stmt.operands):
        held = access.buffer.scope in MATRIX_SCOPES
        first = access.offset * (SIDE * SIDE) if held else access.offset
        length = SIDE * SIDE - 1 if held else (SIDE - 1) * (stmt.step + 1)
        for offset in (first, first + length):
            _access(Access(access.buffer, simplify(offset)), loops, facts)


def _loads(value: Expr, loads: Sequence[Access], loops: _Loops, facts: _Facts) -> None:
    """Check what a value loads, each load under the conditions of the selects around it."""
    if isinstance(value, Select):
        _loads(value.condition, loads, loops, facts)
        _loads(value.then, loads, loops, (*facts, *facts_of(value.condition)))
        _loads(value.other, loads, loops, (*facts, *facts_against(value.condition)))
    elif isinstance(value, Call) and value.name == "load":
        _access(loads[dict(value.attrs)["position"]], loops, facts)
    else:
        for part in parts_of(value):
            _loads(part, loads, loops, facts)


def _check_whole(access: Access, size: int, name: str) -> None:
    """Check that an operand begins where a word of some elements does."""
    sums, constant = sum_of(access.offset)
    if any(factor % size for factor in (constant, *sums.values())):
        raise LoweringError(
            f"Intrinsic {name} reads whole words of {size} elements, and "
            f"{access.buffer.name}[{expr_text(access.offset)}] may begin inside one: give the "
            f"tensor's last dimension {size} elements."
        )


def _access(access: Access, loops: _Loops, facts: _Facts, size: int = 1) -> None:
    last = access.buffer.total - size
    offset, more = _without_data(access.offset)
    loops = (*loops, *more)
    if not is_data(offset):
        both = (offset, simplify(last - offset))
        if all(never_negative(one, loops) for one in both):
            return
        known = (*facts, *_quotients(offset, loops, facts))
        if all(_proved(one, loops, known) for one in both):
            return
        known = (*known, *(more for fact in known for more in _rounded(fact, loops)))
        if all(
            _proved(one, loops, known) or never_negative_counted(one, loops, facts) for one in both
        ):
            return
    raise LoweringError(
        f"An access must lie inside its array wherever a thread stands, and "
        f"{access.buffer.name}[{expr_text(access.offset)}] is not known to lie in 0..{last}: "
        "guard it by a select, or make what is computed around it whole tiles."
    )


def _without_data(offset: Expr) -> tuple[Expr, _Loops]:
    """Return an index whose parts that are data run through their ranges, as loops would.

    ``3 * min(max(a[i], 0), 6) + j`` becomes ``3 * at + j`` with ``at`` in 0..6.
    """
    places: dict[Expr, Var] = {}
    loops: list[tuple[Var, Expr]] = []

    def visit(part: Expr) -> Expr | None:
        if not is_data(part):
            return part
        if isinstance(part, Binary) and part.op in _LINEAR:
            return None
        low, high = value_range(part)
        if part not in places:
            places[part] = Var(f"at{len(places)}")
            loops.append((places[part], Const(high - low + 1)))
        return places[part] + low

    return (map_expr(offset, visit) if is_data(offset) else offset), tuple(loops)


def _quotients(offset: Expr, loops: _Loops, facts: _Facts) -> Iterator[Expr]:
    """Yield what follows of the quotients in a sum from what is known of the dividends.

    From ``223 - 64 * s - t >= 0`` follows ``223 - 64 * s - 32 * (t // 32) >= 0``.
    """
    for atom in sum_of(offset)[0]:
        if isinstance(atom, Binary) and atom.op == "//" and isinstance(atom.b, Const):
            yield simplify(bounds(atom.a, loops, facts)[1] // atom.b.value - atom)
            for fact in facts:
                times = contained(atom.a, simplify(0 - fact))
                if times:
                    yield simplify(fact + (atom.a - atom * atom.b.value) * times)


def _rounded(fact: Expr, loops: _Loops) -> Iterator[Expr]:
    """Yield what follows of a fact because indices are whole numbers.

    From ``1763 - 48 * i - 12 * z - t >= 0``, t being 0 at the least, follows
    ``48 * i + 12 * z <= 1763``, and from that ``4 * i + z <= 1763 // 12``.
    """
    sums, constant = sum_of(fact)
    for by in sorted({abs(factor) for factor in sums.values()} - {1}):
        kept: Expr = Const(0)
        rest: Expr = Const(constant)
        for atom, factor in sums.items():
            if factor % by:
                rest = rest + atom * factor
            else:
                kept = kept + atom * (factor // by)
        yield simplify(kept + const_bounds(rest, loops)[1] // by)


def _proved(
    wanted: Expr, loops: _Loops, facts: _Facts, tried: set[tuple[Expr, _Facts]] | None = None
) -> bool:
    """Tell whether ``wanted >= 0`` follows from ranges, and multiples of facts, added up.

    The same facts in another order leave the same to be shown, which is tried once.
    """
    tried = set() if tried is None else tried
    if never_negative(wanted, loops):
        return True
    for k, fact in enumerate(facts):
        times = contained(fact, wanted)
        if times > 0:
            rest = simplify(wanted - fact * times), facts[:k] + facts[k + 1 :]
            if rest not in tried:
                tried.add(rest)
                if _proved(rest[0], loops, rest[1], tried):
                    return True
    return False
