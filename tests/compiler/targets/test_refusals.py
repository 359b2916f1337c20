"""What the VDLA back end refuses, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vdla.compiler.targets.vdla.build import build
from vdla.compiler.targets.vdla.intrinsics import Scope, alu, alu_imm, rq
from vdla.compiler.te import (
    Schedule,
    Tensor,
    all_of,
    compute,
    create_schedule,
    max_over,
    placeholder,
    reduce_axis,
    requantize,
    select,
)
from vdla.config import TINY
from vdla.errors import InputError, LoweringError, VdlaError
from vdla.isa import AluOp

TAIL = (TINY.batch, TINY.block_out)
Made = tuple[Schedule, list[Tensor]]


def vector(
    body: Callable, operation: AluOp = AluOp.ADD, *, entries: int = 6, load: Callable | None = None
) -> Made:
    """An immediate operation between a load and a store, with a part to go wrong."""
    a = placeholder((entries, *TAIL), "int8", "a")
    load = load or (lambda a, i, b, o: a[i, b, o].astype("int32"))
    wide = compute(a.shape, lambda *i: load(a, *i), "wide")
    b = compute(a.shape, lambda *i: body(wide, i), "b")
    out = compute(a.shape, lambda *i: b[i].astype("int8"), "out")
    s = create_schedule(out)
    for stage in (wide, b):
        s[stage].set_scope(Scope.ACC)
    for stage in (wide, out):
        s[stage].pragma(s[stage].leaves[0], "dma_copy")
    s[b].tensorize(s[b].leaves[1], alu_imm(TINY, operation))
    return s, [a, out]


def scalar() -> Made:
    s, arguments = vector(lambda x, i: x[i] + 1)
    stage = s.stages[1]
    stage.intrinsics.clear()
    return s, arguments


def no_scope() -> Made:
    s, arguments = vector(lambda x, i: x[i] + 1)
    s.stages[0].set_scope("global")
    s.stages[1].set_scope("global")
    s.stages[1].intrinsics.clear()
    return s, arguments


def unnamed() -> Made:
    s, arguments = vector(lambda x, i: x[i] + 1)
    return s, arguments[1:]


def scattered_parameters() -> Made:
    a = placeholder((4, *TAIL), "int32", "a")
    p = placeholder((3, 2, *TAIL), "int32", "params")  # parts outside: entries two apart
    wide, params = compute(a.shape, lambda *i: a[i], "wide"), compute(p.shape, lambda *i: p[i], "p")
    scaled = compute(
        a.shape,
        lambda i, b, o: requantize(wide[i, b, o], *(params[k, 1, b, o] for k in range(3))),
        "scaled",
    )
    out = compute(a.shape, lambda *i: scaled[i].astype("int8"), "out")
    s = create_schedule(out)
    for stage in (wide, params, scaled):
        s[stage].set_scope(Scope.ACC)
    for stage in (wide, params, out):
        s[stage].pragma(s[stage].leaves[0], "dma_copy")
    s[scaled].tensorize(s[scaled].leaves[1], rq(TINY))
    return s, [a, p, out]


def store_of_int32() -> Made:
    a = placeholder((4, *TAIL), "int32", "a")
    wide = compute(a.shape, lambda *i: a[i], "wide")
    out = compute(a.shape, lambda *i: wide[i], "out")
    s = create_schedule(out)
    s[wide].set_scope(Scope.ACC)
    for stage in (wide, out):
        s[stage].pragma(s[stage].leaves[0], "dma_copy")
    return s, [a, out]


def copy_in_memory() -> Made:
    a = placeholder((4, *TAIL), "int8", "a")
    out = compute(a.shape, lambda *i: a[i], "out")
    s = create_schedule(out)
    s[out].pragma(s[out].leaves[0], "dma_copy")
    return s, [a, out]


REFUSED: dict[str, tuple[Callable[[], Made], str]] = {
    "scalars": (scalar, "b is computed scalar by scalar; on VDLA every stage must end in a"),
    "no scope": (
        no_scope,
        "lies in scope global, but VDLA's scopes are inp, wgt, acc: give every intermediate",
    ),
    "a tensor without a place": (
        unnamed,
        "Every input and output needs a place; a has none",
    ),
    "an immediate of more than 16 bits": (
        lambda: vector(lambda x, i: x[i] + 40000),
        "An immediate must lie in -32768..32767, not 40000: put the constant into a tensor",
    ),
    "too large": (
        lambda: vector(lambda x, i: x[i] + 1, entries=TINY.acc_depth + 1),
        f"The acc buffer holds {TINY.acc_depth} entries on tiny, but {TINY.acc_depth + 1} are "
        f"needed at a time (wide {TINY.acc_depth + 1}): use smaller tiles",
    ),
    "half an entry": (
        lambda: vector(
            lambda x, i: x[i] + 1, load=lambda a, i, b, o: a[i, b, (o + 2) % 4].astype("int32")
        ),
        "must step evenly through memory: do not fuse its loops",
    ),
    "lanes in another order": (
        lambda: vector(
            lambda x, i: x[i] + 1, load=lambda a, i, b, o: a[i, b, 3 - o].astype("int32")
        ),
        "A copy to or from wide must move whole entries of 4 scalars",
    ),
    "backwards": (
        lambda: vector(
            lambda x, i: x[i] + 1, load=lambda a, i, b, o: a[5 - i, b, o].astype("int32")
        ),
        "step forward through memory",
    ),
    "padded lanes": (
        lambda: vector(
            lambda x, i: x[i] + 1,
            load=lambda a, i, b, o: select(o.lt(3), a[i, b, o].astype("int32"), 0),
        ),
        "A padding condition of a's copy must grow along one of its loops and hold for whole",
    ),
    "a falling condition": (
        lambda: vector(
            lambda x, i: x[i] + 1,
            load=lambda a, i, b, o: select((5 - i).ge(2), a[i, b, o].astype("int32"), 0),
        ),
        "must grow along one of its loops",
    ),
    "scattered parameters": (
        scattered_parameters,
        "The parameters of rq must lie in successive ACC entries: bias, multiplier, packed",
    ),
    "int32 results": (
        store_of_int32,
        "A store must write int8 results from scope acc, not int32 from acc, to out",
    ),
    "memory to memory": (
        copy_in_memory,
        "A copy must move between memory and a scratchpad, not from a to out",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    schedule, arguments = make()
    with pytest.raises(VdlaError) as caught:
        build(schedule, arguments, TINY)
    assert isinstance(caught.value, LoweringError), caught.value
    assert message in str(caught.value)


def test_padding_when_storing() -> None:
    a = placeholder((6, *TAIL), "int8", "a")
    wide = compute(a.shape, lambda *i: a[i].astype("int32"), "wide")
    out = compute(
        (8, *TAIL),
        lambda i, b, o: select(all_of(i.ge(1), i.lt(7)), wide[i - 1, b, o].astype("int8"), 0),
        "out",
    )
    s = create_schedule(out)
    s[wide].set_scope(Scope.ACC)
    for stage in (wide, out):
        s[stage].pragma(s[stage].leaves[0], "dma_copy")
    with pytest.raises(LoweringError, match="A store must write every element; that of out has a"):
        build(s, [a, out], TINY)


def test_input_of_another_shape() -> None:
    schedule, arguments = vector(lambda x, i: x[i] + 1)
    operator = build(schedule, arguments, TINY)
    with pytest.raises(InputError, match=r"a must be int8 of shape \(6, 1, 4\), not int8 of \(5,"):
        operator.memory({arguments[0]: np.zeros((5, *TAIL), np.int8)})


def test_program_is_printed_where_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VDLA_DUMP", "program")
    build(*vector(lambda x, i: x[i] + 1), TINY)
    text = capsys.readouterr().err
    assert text.startswith("# after program\n")
    assert "load.acc8" in text


def test_a_maximum_over_unbounded_values_starts_at_the_least() -> None:
    """-2^31 fits no immediate: reset, add, shift."""
    k = reduce_axis(3, "k")
    a = placeholder((3, *TAIL), "int32", "a")
    wide = compute(a.shape, lambda *i: a[i], "wide")
    best = compute((1, *TAIL), lambda i, b, o: max_over(wide[k, b, o], k), "best")
    out = compute(best.shape, lambda *i: best[i].astype("int8"), "out")
    s = create_schedule(out)
    for stage in (wide, best):
        s[stage].set_scope(Scope.ACC)
    for stage in (wide, out):
        s[stage].pragma(s[stage].leaves[0], "dma_copy")
    i, b, o, r = s[best].leaves
    s[best].reorder(i, r, b, o)
    s[best].tensorize(b, alu(TINY, AluOp.MAX))
    from vdla.isa.asm import disassemble

    lines = disassemble(build(s, [a, out], TINY).program).splitlines()
    fill = [" ".join(line.split()[:1]) for line in lines if line.split()[0] in _FILL]
    assert fill == ["gemm.reset", "add", "shr", "max"]
    assert any("imm=-32768" in line for line in lines)
    assert any("shr" in line and "imm=-16" in line for line in lines)


_FILL = ("gemm.reset", "add", "shr", "max", "min")
