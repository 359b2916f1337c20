"""What lowering refuses, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vdla.compiler.lower.nest import build_nests
from vdla.compiler.lower.pipeline import dump, lower
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm, gemm
from vdla.compiler.te import (
    Schedule,
    Tensor,
    compute,
    create_schedule,
    placeholder,
    reduce_axis,
    select,
    sum_over,
)
from vdla.config import TINY
from vdla.errors import LoweringError
from vdla.isa import AluOp

ADD, ADD_IMM = alu(TINY, AluOp.ADD), alu_imm(TINY, AluOp.ADD)


def chain() -> tuple[Schedule, Tensor, Tensor]:
    a = placeholder((6, 8), "int32", "a")
    b = compute((6, 8), lambda i, j: a[i, j] + 1, "b")
    c = compute((6, 8), lambda i, j: b[i, j] * 2, "c")
    return create_schedule(c), b, c


def inner_outside() -> Schedule:
    s, _, c = chain()
    outer, inner = s[c].split(s[c].leaves[0], factor=4)
    s[c].reorder(inner, outer)
    return s


def fused_partial() -> Schedule:
    """The tile of 4 that b needs does not divide by 3; only the whole of 6 does."""
    s, b, c = chain()
    outer, _ = s[c].split(s[c].leaves[0], factor=4)
    s[b].compute_at(s[c], outer)
    s[b].fuse(*s[b].split(s[b].leaves[0], factor=3))
    return s


def padded_output() -> Schedule:
    s, _, c = chain()
    s[c].storage_align(s[c].axis[0], 16)
    return s


def padded_registers() -> Schedule:
    s, b, c = chain()
    s[b].compute_at(s[c], s[c].leaves[0])
    s[b].set_scope("register")
    s[b].storage_align(s[b].axis[0], 16)
    return s


def output_inside() -> Schedule:
    a = placeholder((4,), "int32", "a")
    b = compute((4,), lambda i: a[i] + 1, "b")
    c = compute((4,), lambda i: b[i] * 2, "c")
    s = create_schedule((b, c))
    s[b].compute_at(s[c], s[c].leaves[0])
    return s


def output_inlined() -> Schedule:
    s, _, c = chain()
    s[c].compute_inline()
    return s


def inside_inlined() -> Schedule:
    a = placeholder((4,), "int32", "a")
    b = compute((4,), lambda i: a[i] + 1, "b")
    c = compute((4,), lambda i: b[i] * 2, "c")
    d = compute((4,), lambda i: c[i] - 3, "d")
    s = create_schedule(d)
    s[b].compute_at(s[c], s[c].leaves[0])
    s[c].compute_inline()
    return s


def stale_attach() -> Schedule:
    s, b, c = chain()
    s[b].compute_at(s[c], s[c].leaves[0])
    s[c].split(s[c].leaves[0], factor=2)
    return s


def reader_outside() -> Schedule:
    a = placeholder((4,), "int32", "a")
    b = compute((4,), lambda i: a[i] + 1, "b")
    c = compute((4,), lambda i: b[i] * 2, "c")
    d = compute((4,), lambda i: b[i] + c[i], "d")
    s = create_schedule(d)
    s[b].compute_at(s[c], s[c].leaves[0])
    return s


def inside_copy() -> Schedule:
    a = placeholder((6, 8), "int32", "a")
    b = compute((6, 8), lambda i, j: a[i, j] + 1, "b")
    c = compute((6, 8), lambda i, j: b[i, j], "c")
    s = create_schedule(c)
    s[c].pragma(s[c].leaves[0], "dma_copy")
    s[b].compute_at(s[c], s[c].leaves[1])
    return s


def copy_that_computes() -> Schedule:
    s, _, c = chain()
    s[c].pragma(s[c].leaves[0], "dma_copy")
    return s


def _copy(body: Callable) -> Schedule:
    a = placeholder((8,), "int32", "a")
    b = compute((8,), lambda i: body(a, i), "b")
    s = create_schedule(b)
    s[b].pragma(s[b].leaves[0], "dma_copy")
    return s


def _vector(body: Callable, intrinsic, width: int = TINY.block_out, dtype: str = "int32"):
    a = placeholder((6, TINY.batch, width), dtype, "a")
    buffer = compute(a.shape, lambda *i: a[i], "buffer")
    b = compute(a.shape, lambda *i: body(buffer, i), "b")
    s = create_schedule(b)
    s[buffer].set_scope(Scope.ACC)
    s[b].set_scope(Scope.ACC)
    s[b].tensorize(s[b].leaves[1], intrinsic)
    return s


def scattered_tile() -> Schedule:
    """Rows of two entries' width: on a batch of 2 an entry's rows lie apart."""
    config = TINY.replace(name="two", batch=2)
    a = placeholder((2, 2 * config.block_out), "int32", "a")
    buffer = compute(a.shape, lambda *i: a[i], "buffer")
    b = compute(a.shape, lambda *i: buffer[i] + 1, "b")
    s = create_schedule(b)
    for stage in (buffer, b):
        s[stage].set_scope(Scope.ACC)
    y, x = s[b].leaves
    outer, inner = s[b].split(x, factor=config.block_out)
    s[b].reorder(outer, y, inner)
    s[b].tensorize(y, alu_imm(config, AluOp.ADD))
    return s


def wrong_scope() -> Schedule:
    k = reduce_axis(TINY.block_in, "k")
    a = placeholder((TINY.batch, TINY.block_in), "int8", "a")
    w = placeholder((TINY.block_out, TINY.block_in), "int8", "w")
    c = compute(
        (TINY.batch, TINY.block_out),
        lambda i, j: sum_over(a[i, k].astype("int32") * w[j, k].astype("int32"), k),
        "c",
    )
    s = create_schedule(c)
    s[c].set_scope(Scope.ACC)
    s[c].tensorize(s[c].leaves[0], gemm(TINY))
    return s


REFUSED: dict[str, tuple[Callable[[], Schedule], str]] = {
    "a small tile's loop outside its outer loop": (
        inner_outside,
        "Loop i.i of c must be inside i.o: its last tile is smaller. Reorder the two",
    ),
    "partial tiles fused": (
        fused_partial,
        "Fused loops must form a rectangle, but in b i.i takes",
    ),
    "an output computed inside": (
        output_inside,
        "b is an output and must be computed whole: use compute_root",
    ),
    "an output padded": (
        padded_output,
        "must lie in memory and be read by stages alone, and c is an output",
    ),
    "registers padded": (padded_registers, "read by stages alone, and b is in register: pad"),
    "an output inlined": (output_inlined, "c is an output and must be computed whole"),
    "a stage in an inlined one": (
        inside_inlined,
        "b is computed at i of c, which is inlined or no longer a stage",
    ),
    "a loop that was split since": (
        stale_attach,
        "b is attached at i, which is no longer a loop of c: call compute_at after the last split",
    ),
    "a reader outside": (
        reader_outside,
        "b is computed inside c at i, but d, outside that loop, reads it too",
    ),
    "a stage inside a copy": (
        inside_copy,
        "b is computed at loop j of c, which an intrinsic or a copy replaces: attach it further",
    ),
    "a copy that computes": (
        copy_that_computes,
        "c computes b[i, j] * 2: compute the rest in a stage of its own",
    ),
    "padding that is not constant": (
        lambda: _copy(lambda a, i: select(i.lt(4), a[i], a[0])),
        "The padding of copy b must be a constant, not a[0]",
    ),
    "a condition between loops": (
        lambda: _copy(lambda a, i: select((i % 3).lt(i), a[i], 0)),
        "The padding condition of b must be comparisons with constants joined by and, not i % 3 <",
    ),
    "two conversions in a copy": (
        lambda: _copy(lambda a, i: a[i].astype("int8").astype("int32")),
        "must copy a tensor, converted once and padded by a select at most",
    ),
    "another operation": (
        lambda: _vector(lambda x, i: x[i] * 3, ADD_IMM),
        "Intrinsic alu.add.imm computes x[b, o] + imm of int32; the loops of b from",
    ),
    "a variable where a constant belongs": (
        lambda: _vector(lambda x, i: x[i] + i[0].var, ADD_IMM),
        "Rewrite the stage in that form",
    ),
    "another dtype": (
        lambda: _vector(lambda x, i: x[i] + 1, ADD_IMM, dtype="int8"),
        "of int32; the loops of b from i1 inwards do not: buffer[i0, i1, i2] + 1 of int8",
    ),
    "another shape": (
        lambda: _vector(lambda x, i: x[i] + 1, ADD_IMM, width=2 * TINY.block_out),
        "replaces loops of data 1, data 4, but b has data 1, data 8 from i1 inwards: split or",
    ),
    "a tile in pieces": (
        scattered_tile,
        "must lie in one piece, but the rows of [2, 4] elements of b in stage b do not follow",
    ),
    "a scope": (
        wrong_scope,
        "Intrinsic gemm needs a in scope inp, not global, in stage c: use set_scope or cache_read",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(LoweringError) as caught:
        build_nests(make())
    assert message in str(caught.value)


@pytest.mark.parametrize(("wanted", "printed"), [("threads", 1), ("all", 2), ("", 0), ("none", 0)])
def test_stages_are_printed_where_asked(
    wanted: str, printed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VDLA_DUMP", wanted)
    lower(chain()[0])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("# after ") == printed


def test_text_that_is_not_printed_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VDLA_DUMP", "nests")
    dump("threads", lambda: pytest.fail("made"))
