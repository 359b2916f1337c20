"""Tiles of constant size, and tiles that the threads of a block share."""

from __future__ import annotations

from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.lower.narrow import narrow
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.te import Schedule, Tensor, compute, create_schedule, placeholder


def chain() -> tuple[Schedule, Tensor, Tensor]:
    a = placeholder((10,), "float32", "a")
    b = compute((10,), lambda i: a[i] + 1, "b")
    c = compute((10,), lambda i: b[i] * 2, "c")
    return create_schedule(c), b, c


def text(schedule: Schedule) -> str:
    return stmt_text(narrow(lower(schedule)[0]))


def test_a_whole_tile_is_as_large_as_the_greatest() -> None:
    s, b, c = chain()
    outer, _ = s[c].split(s[c].axis[0], factor=4)
    s[b].compute_at(s[c], outer)
    s[b].whole_tiles()
    assert s[b].scheduled
    assert text(s) == (
        "for i.o in 3:\n"
        "  alloc b: float32[4] in global\n"
        "  for i in 4:\n"
        "    b[i] = select(i.o * 4 + i < 10, a[i.o * 4 + i] + 1.0, 0.0)\n"
        "  for i.i in min(4, i.o * -4 + 10):\n"
        "    c[i.o * 4 + i.i] = b[i.i] * 2.0"
    )


def test_a_whole_tile_of_one_that_divides_is_a_plain_one() -> None:
    s, b, c = chain()
    outer, _ = s[c].split(s[c].axis[0], factor=5)
    s[b].compute_at(s[c], outer)
    plain = text(s)
    s[b].whole_tiles()
    assert text(s) == plain


def test_at_the_root_nothing_is_larger() -> None:
    s, b, _ = chain()
    plain = text(s)
    s[b].whole_tiles()
    assert text(s) == plain


def test_a_shared_tile_spans_what_all_threads_need() -> None:
    sizes = {}
    for scope in ("register", "shared"):
        s, b, c = chain()
        _, inner = s[c].split(s[c].axis[0], factor=5)
        s[c].bind(inner, "threadIdx.x")
        s[b].compute_at(s[c], inner)
        s[b].set_scope(scope)
        sizes[scope] = text(s)
    assert "alloc b: float32[1] in register" in sizes["register"]
    assert "alloc b: float32[5] in shared" in sizes["shared"]
    assert "b[i] = a[i.o * 5 + i] + 1.0" in sizes["shared"]
    assert "c[i.o * 5 + i.i] = b[i.i] * 2.0" in sizes["shared"]
