"""Stores of vectors as source."""

from __future__ import annotations

from vdla.compiler.ir.linear import simplify
from vdla.compiler.ir.stmt import Access, Store
from vdla.compiler.te.expr import Const, Expr, Real, Select
from vdla.compiler.te.traverse import substitute

from .dialect import HALF, Dialect
from .expressions import Expressions
from .kernel import Loop
from .names import Names
from .shared_values import load_call, load_of, loaded_always
from .vectors import VECTOR_TYPES, is_vector, vector_type

__all__ = ["ALIGNED", "VECTOR_BYTES", "vector_lines"]

ALIGNED = "__attribute__((aligned({bytes})))"
"""What follows an array that begins at a multiple of some bytes, in all three languages."""
VECTOR_BYTES = 16
"""Of the largest vector."""
_LANES = "xyzw"


def vector_lines(loop: Loop, dialect: Dialect, names: Names, expressions: Expressions) -> list[str]:
    """Return the lines of a store in a loop of vectors.

    What is copied is copied as a vector. What is computed is computed lane by lane, from vectors
    that are read before.

    Parameters
    ----------
    loop : Loop
        Whose iterations are lanes.
    dialect : Dialect
    names : Names
    expressions : Expressions
        Of what stands in the loop.
    """
    return _Writer(loop, dialect, names, expressions).lines()


class _Writer:
    def __init__(
        self, loop: Loop, dialect: Dialect, names: Names, expressions: Expressions
    ) -> None:
        assert isinstance(loop.body, Store)
        assert isinstance(loop.extent, Const)
        self._var, self._lanes = loop.var, loop.extent.value
        self._store: Store = loop.body
        self._dialect, self._names, self._expressions = dialect, names, expressions
        self._type = vector_type(self._store, self._var, self._lanes)

    def lines(self) -> list[str]:
        """Return the lines."""
        target = self._whole(self._store.target, const="")
        copied = self._copied(self._store.value)
        if copied is not None:
            *before, last = copied
            return [f"{target} =", *(f"    {line}" for line in before), f"    {last};"]
        lines, read = self._read_before()
        lanes = [f"    {self._lane(k, read)}" for k in range(self._lanes)]
        opening, closing = self._dialect.vector.format(type=self._type, lanes="|").split("|")
        inside = [*(f"{lane}," for lane in lanes[:-1]), lanes[-1]]
        return [*lines, f"{target} = {opening}", *inside, f"{closing};"]

    def _whole(self, access: Access, *, const: str = "const ") -> str:
        """Return the vector that begins where an access is in the first lane."""
        buffer = access.buffer
        space = self._dialect.memory if buffer.scope == "global" else self._dialect.pointed
        first = self._expressions.where(self._of_lane(access, 0))
        return f"*({space}{const}{self._type} *)&{first}"

    def _of_lane(self, access: Access, lane: int) -> Access:
        return Access(access.buffer, simplify(substitute(access.offset, {self._var: Const(lane)})))

    def _copied(self, value: Expr) -> list[str] | None:
        """Return the lines of a value that is a vector in memory or a number, or one of such."""
        if isinstance(value, (Const, Real)):
            # A 0 of halves is one of floats, which holds two; a byte is four times in an int.
            text, count = self._expressions.text(value), self._lanes
            if self._type.startswith("int") and isinstance(value, Const):
                text = str(int.from_bytes(bytes([value.value & 0xFF] * 4), "little", signed=True))
                count //= 4
            elif value.dtype == HALF:
                count //= 2
            if count == 1:
                return [text]
            lanes = ", ".join([text] * count)
            return [self._dialect.vector.format(type=self._type, lanes=lanes)]
        position = load_of(value)
        if position is not None:
            load = self._store.loads[position]
            return [self._whole(load)] if is_vector(load, self._var, self._lanes) else None
        if not isinstance(value, Select):
            return None
        then, other = self._copied(value.then), self._copied(value.other)
        if then is None or other is None:
            return None
        condition = self._expressions.text(value.condition, 1)
        first, second = (
            lines[0] if len(lines) == 1 else f"({' '.join(lines)})" for lines in (then, other)
        )
        return [condition, f"? {first}", f": {second}"]

    def _read_before(self) -> tuple[list[str], dict[int, str]]:
        """Return the lines that read vectors, and what those are called, by position."""
        lines: list[str] = []
        found: dict[int, str] = {}
        always = loaded_always(self._store.value)
        for position, load in enumerate(self._store.loads):
            if position not in always or not is_vector(load, self._var, self._lanes):
                continue
            if VECTOR_TYPES[load.buffer.dtype, self._lanes] != self._type:
                continue
            name = self._names.of((self._var, position), f"{load.buffer.name}_lanes")
            lines.append(f"const {self._type} {name} = {self._whole(load)};")
            found[position] = name
        return lines, found

    def _lane(self, lane: int, read: dict[int, str]) -> str:
        known: dict[Expr, str] = {}
        expressions = self._expressions.knowing(known)
        for k, load in enumerate(self._store.loads):
            found = f"{read[k]}.{_LANES[lane]}" if k in read else ""
            element = found or expressions.element(self._of_lane(load, lane))
            known[load_call(load.buffer.dtype, k)] = element
        return expressions.text(substitute(self._store.value, {self._var: Const(lane)}))
