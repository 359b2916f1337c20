"""The verifier's rules, each broken once."""

from __future__ import annotations

import pytest

from vdla.compiler.ir.stmt import Access, Alloc, Block, Buffer, Copy, For, Intrinsic, Move, Store
from vdla.compiler.ir.verify import verify
from vdla.compiler.targets.vdla.intrinsics import alu_imm
from vdla.compiler.te import Var
from vdla.compiler.te.expr import Call, Const, Select
from vdla.config import TINY
from vdla.errors import LoweringError
from vdla.isa import AluOp

X, J = Var("i"), Var("j")
A = Buffer("a", "int32", "global", 8)
B = Buffer("b", "int32", "acc", 4)


def store(offset, buffer=A) -> Store:
    return Store(Access(buffer, offset), Const(0), ())


BROKEN = {
    "no loop": (store(X), "After pass, i is used outside its loop"),
    "no allocation": (store(Const(0), B), "After pass, b is used outside its allocation"),
    "loop twice": (
        For(X, Const(2), For(X, Const(2), store(X))),
        "After pass, loop i is bound twice",
    ),
    "allocated twice": (
        Alloc(B, Alloc(B, store(Const(0), B))),
        "After pass, b is allocated twice",
    ),
    "past the end": (
        For(X, Const(3), store(X * 4)),
        "After pass, a[i * 4] reaches 0..8, outside 0..7",
    ),
    "before the start": (
        For(X, Const(3), store(X - 1)),
        "reaches -1..1, outside 0..7",
    ),
    "extent of an inner variable": (
        For(X, J + 1, For(J, Const(2), store(X + J))),
        "After pass, j is used outside its loop",
    ),
    "thread left": (
        For(X, Const(2), store(X), "vthread"),
        "After pass, virtual thread i is left",
    ),
    "copy past the end": (
        Alloc(B, Copy(Access(B, X), Access(A, X), ((X, Const(5)),))),
        "After pass, b[i] reaches 0..4, outside 0..3",
    ),
    "tile past the end": (
        Alloc(
            B,
            Intrinsic(alu_imm(TINY, AluOp.ADD), Access(B, Const(1)), (Access(B, Const(1)),), (3,)),
        ),
        "After pass, b[1] reaches 1..4, outside 0..3",
    ),
    "move past the end": (
        Alloc(B, Move(Access(B, Const(0)), Access(A, Const(5)), 4)),
        "After pass, a[5] reaches 5..8, outside 0..7",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    body, message = BROKEN[name]
    with pytest.raises(LoweringError) as caught:
        verify(body, "pass", threads=False)
    assert message in str(caught.value)


def test_a_load_that_a_select_guards_may_reach_outside() -> None:
    load = Call("load", (), "int32", (("position", 0),))
    guarded = Select(X.ge(1), load, Const(0))
    body = For(X, Const(9), Store(Access(A, X // 2), guarded, (Access(A, X - 1),)))
    verify(body, "pass")
    bare = For(X, Const(9), Store(Access(A, X // 2), load, (Access(A, X - 1),)))
    with pytest.raises(LoweringError, match=r"reaches -1\.\.7"):
        verify(bare, "pass")


def test_bounds_too_loose_to_tell_are_counted_out() -> None:
    """``2 * (i // 2) + i % 2`` never passes 7, though its parts' maxima add up to 8 at i = 6."""
    body = For(X, Const(7), store(X // 2 * 2 + X % 2))
    verify(Block((body,)), "pass")
    verify(For(X, Const(4), For(J, Const(4), store((X * 4 + J) % 7 + (X * 4 + J) // 15))), "pass")
