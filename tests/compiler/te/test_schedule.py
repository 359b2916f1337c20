"""Schedule primitives: what they leave, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vdla.compiler.te import (
    Tensor,
    compute,
    create_schedule,
    max_over,
    placeholder,
    reduce_axis,
    sum_over,
)
from vdla.compiler.te.expr import Const
from vdla.errors import ScheduleError


def names(stage) -> list[str]:
    return [leaf.name for leaf in stage.leaves]


@pytest.fixture
def pair() -> tuple[Tensor, Tensor]:
    a = placeholder((6, 8), "int32", "a")
    b = compute((6, 8), lambda i, j: a[i, j] + 1, "b")
    return b, compute((6, 8), lambda i, j: b[i, j] * 2, "c")


def test_split_and_its_extents(pair) -> None:
    stage = create_schedule(pair[1])[pair[1]]
    outer, inner = stage.split(stage.axis[1], factor=4)
    assert names(stage) == ["i", "j.o", "j.i"]
    assert (outer.extent, inner.extent) == (Const(2), Const(4))
    outer, inner = stage.split(stage.axis[0], nparts=4)
    assert outer.extent == Const(3)  # parts of 2: the fourth would be empty
    assert names(stage) == ["i.o", "i.i", "j.o", "j.i"]


def test_tile_fuse_and_reorder(pair) -> None:
    stage = create_schedule(pair[1])[pair[1]]
    y, x, _, _ = stage.tile(*stage.leaves, 2, 4)
    assert names(stage) == ["i.o", "j.o", "i.i", "j.i"]
    stage.fuse(y, x)
    assert names(stage) == ["i.o.j.o", "i.i", "j.i"]
    stage.reorder(stage.leaves[2], stage.leaves[0])
    assert names(stage) == ["j.i", "i.i", "i.o.j.o"]


def test_caches_stand_beside_what_they_serve(pair) -> None:
    b, c = pair
    s = create_schedule(c)
    copy = s.cache_read(b, "fast", [c])
    inner = s.cache_write(c, "acc")
    assert [stage.name for stage in s.stages] == ["b", "b.fast", "c.acc", "c"]
    assert s[inner].reads() == [copy]
    assert s[c].reads() == [inner]
    assert (s[copy].scope, s[inner].scope, s[c].scope) == ("fast", "acc", "global")


def test_annotations_are_kept_by_loop(pair) -> None:
    stage = create_schedule(pair[1])[pair[1]]
    i, j = stage.leaves
    stage.parallel(i)
    stage.vectorize(j)
    stage.double_buffer()
    assert stage.annotations == {
        i: {"parallel": True, "double_buffer": True},
        j: {"vectorize": True},
    }


def test_a_buffer_is_padded_along_a_dimension_even_one_that_was_split(pair) -> None:
    stage = create_schedule(pair[1])[pair[1]]
    i, j = stage.leaves
    outer, _ = stage.split(i, factor=2)
    stage.storage_align(i, 16)
    assert (stage.storage_factor(i), stage.storage_factor(j)) == (16, 1)
    with pytest.raises(ScheduleError, match=r"along a dimension of c, and i\.o is none: those are"):
        stage.storage_align(outer, 16)
    for factor in (0, -8, 2.5, "8"):
        with pytest.raises(ScheduleError, match=f"whole number of elements from 1, not {factor}"):
            stage.storage_align(j, factor)
    stage.storage_align(j, np.int64(4))
    assert stage.storage_factor(j) == 4


def test_lowering_leaves_the_schedule_as_it_was(pair) -> None:
    from vdla.compiler.lower.nest import build_nests

    b, c = pair
    s = create_schedule(c)
    s[b].compute_inline()
    body = s[c].body
    first = build_nests(s).body
    assert s[c].body is body
    s[b].compute_root()
    assert build_nests(s).body != first


def _reused_axis() -> None:
    a, k = placeholder((4, 4), "int32", "a"), reduce_axis(4, "k")
    b = compute((4,), lambda i: sum_over(a[i, k], k), "b")
    create_schedule(compute((4,), lambda i: max_over(a[i, k] - b[i], k), "c"))


def _refusals() -> dict[str, tuple[Callable[[Tensor, Tensor], object], str]]:
    def on(action: Callable) -> Callable[[Tensor, Tensor], object]:
        return lambda b, c: action(create_schedule(c), b, c)

    a = placeholder((3, 4), "int8", "a")
    return {
        "split both": (
            on(lambda s, b, c: s[c].split(s[c].leaves[0], factor=2, nparts=2)),
            "Splitting i takes either factor or nparts",
        ),
        "split by nothing": (
            on(lambda s, b, c: s[c].split(s[c].leaves[0], factor=0)),
            "A split of i must be by at least 1, not 0",
        ),
        "not a loop": (
            on(lambda s, b, c: s[c].unroll(s[b].leaves[0])),
            "i must be a present loop of c; those are i, j",
        ),
        "fuse apart": (
            on(lambda s, b, c: s[c].fuse(*reversed(s[c].leaves))),
            "Fused loops must be neighbours, outer first: j and i are not; reorder them",
        ),
        "fuse partial": (
            on(lambda s, b, c: s[c].fuse(*s[c].split(s[c].leaves[0], factor=4))),
            "must not depend on i.o for the two to fuse: split by a factor that divides",
        ),
        "reorder twice": (
            on(lambda s, b, c: s[c].reorder(s[c].leaves[0], s[c].leaves[0])),
            "A reorder must name each loop once",
        ),
        "compute_at itself": (
            on(lambda s, b, c: s[c].compute_at(s[c], s[c].leaves[0])),
            "c must not be computed inside itself; c is c or computed in it",
        ),
        "cache_write late": (
            on(lambda s, b, c: (s[c].split(s[c].leaves[0], factor=2), s.cache_write(c, "acc"))),
            "cache_write must come before c is scheduled or stages are computed in it",
        ),
        "cache_write of a host": (
            on(
                lambda s, b, c: (s[b].compute_at(s[c], s[c].leaves[0]), s.cache_write(c, "acc")),
            ),
            "cache_write must come before c is scheduled",
        ),
        "cache_read of a stranger": (
            on(lambda s, b, c: s.cache_read(c, "fast", [b])),
            "b does not read c",
        ),
        "cache_read for nobody": (
            on(lambda s, b, c: s.cache_read(b, "fast", [])),
            "cache_read of b must name at least one reader",
        ),
        "no such stage": (
            on(lambda s, b, c: s[a]),
            "A schedule has stages for b, c, not for a",
        ),
        "reduce axis of two": (
            lambda b, c: _reused_axis(),
            "A reduce axis must belong to one tensor; k belongs to b and c: declare one for each",
        ),
        "inlined reduction": (
            lambda b, c: _inlined_reduction(),
            "total is a reduction and cannot be inlined; use compute_at",
        ),
        "two dtypes": (
            lambda b, c: compute((6, 8), lambda i, j: a[0, 0] + b[i, j]),
            "Operands of + must have one dtype, not int8 and int32: convert one with astype",
        ),
        "a constant too large": (
            lambda b, c: compute((6, 8), lambda i, j: a[0, 0] + 200),
            "A constant must fit the dtype of the value it meets, int8, not be 200",
        ),
        "indices": (
            lambda b, c: a[0],
            "Reading a takes 2 indices, one a dimension, not 1",
        ),
        "extent": (
            lambda b, c: placeholder((3, 0), "int8", "empty"),
            "Every extent must be at least 1; empty has shape [3, 0]",
        ),
        "reduce over data": (
            lambda b, c: compute((6,), lambda i: sum_over(b[i, 0], i)),
            "A reduction runs over reduce axes; i is a data axis",
        ),
        "reduce inside": (
            lambda b, c: compute((6,), lambda i: _row_sum(b, i) + 1, "d"),
            "A reduction must be the whole expression of its tensor; in d it is a part",
        ),
    }


def _row_sum(b: Tensor, i):
    k = reduce_axis(8, "k")
    return sum_over(b[i, k], k)


def _inlined_reduction() -> None:
    a, k = placeholder((4,), "int32", "a"), reduce_axis(4, "k")
    total = compute((1,), lambda i: sum_over(a[k], k), "total")
    create_schedule(total)[total].compute_inline()


@pytest.mark.parametrize("name", _refusals())
def test_refusal(name: str, pair) -> None:
    action, message = _refusals()[name]
    with pytest.raises(ScheduleError) as caught:
        action(*pair)
    assert message in str(caught.value)
