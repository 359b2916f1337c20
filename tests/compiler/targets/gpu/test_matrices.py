"""Intrinsics for warps: where they may stand, and what tiles they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from vdla.compiler.targets.gpu import Kernel, build_kernel
from vdla.compiler.targets.gpu.matrices import (
    LEFT,
    SUMS,
    load_left,
    load_right,
    multiply,
    store_sums,
)
from vdla.compiler.te import (
    IterVar,
    Schedule,
    Stage,
    Tensor,
    TensorIntrin,
    compute,
    create_schedule,
    placeholder,
    reduce_axis,
    sum_over,
)
from vdla.errors import LoweringError

SIZE = 16


@dataclass
class _Product:
    """One warp's product of 16 x 16 x 16, which each test schedules wrongly in one way."""

    schedule: Schedule = field(init=False)
    args: list[Tensor] = field(init=False)
    margins: tuple[int, int] = (16, 24)
    lanes: int = 32
    by_rows: bool = False
    columns: int = SIZE
    columns_first: bool = False

    def kernel(self) -> Kernel:
        a = placeholder((SIZE, SIZE), "float16", "a")
        b = placeholder((SIZE, self.columns), "float16", "b")
        k = reduce_axis(SIZE, "k")
        sums = compute(
            (SIZE, self.columns),
            lambda i, j: sum_over(a[i, k].astype("float32") * b[k, j].astype("float32"), k),
            "sums",
        )
        out = compute((SIZE, self.columns), lambda i, j: sums[i, j] + 1.0, "out")
        s = create_schedule(out)
        element = s[out].fuse(*s[out].axis)
        step, lane = s[out].split(element, factor=self.lanes)
        s[out].bind(lane, "threadIdx.x")
        row, _ = s[out].split(step, nparts=1)
        tile = s[s.cache_read(sums, "shared", [out])]
        tile.compute_at(s[out], row)
        m, n = tile.axis
        tile.storage_align(m, self.margins[1])
        block, m = tile.split(m, factor=SIZE)
        n_outer, n = tile.split(n, factor=SIZE)
        tile.reorder(block, n_outer, m, n)
        tile.tensorize(m, store_sums())
        total = s[sums]
        total.set_scope(SUMS)
        total.compute_at(tile, block)
        outer, k = total.split(k, factor=SIZE)
        i, j = total.axis
        if self.by_rows:
            i_outer, i = total.split(i, factor=SIZE // 2)
        else:
            i_outer, i = total.split(i, factor=SIZE)
        j_outer, j = total.split(j, factor=SIZE)
        first = (j_outer, outer) if self.columns_first else (outer, j_outer)
        total.reorder(i_outer, *first, i, j, k)
        total.tensorize(i, multiply())
        for tensor, load in ((a, load_left()), (b, load_right())):
            shared = s.cache_read(tensor, "shared", [sums])
            s[shared].storage_align(s[shared].axis[0], self.margins[0])
            s[shared].compute_at(total, outer)
            _, lane = s[shared].split(s[shared].fuse(*s[shared].axis), factor=self.lanes)
            s[shared].bind(lane, "threadIdx.x")
            self._held(s, shared, sums, total, outer, load)
        return build_kernel("product", s, [a, b, out])

    @staticmethod
    def _held(
        s: Schedule,
        shared: Tensor,
        sums: Tensor,
        total: Stage,
        at: IterVar,
        load: TensorIntrin,
    ) -> None:
        held = s[s.cache_read(shared, load.scopes[0], [sums])]
        held.compute_at(total, at)
        m, n = held.axis
        outer, n = held.split(n, factor=SIZE)
        held.reorder(outer, m, n)
        held.tensorize(m, load)


@pytest.mark.parametrize("columns", [16, 32])
def test_one_warp_multiplies(columns: int) -> None:
    kernel = _Product(margins=(48, 40), columns=columns).kernel()
    assert kernel.block == (32, 1, 1)
    assert {buffer.scope for buffer in kernel.registers} >= {LEFT, SUMS}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: _Product(lanes=64),
            r"matrix_load_left_float16 is for warps of 32 threads: threadIdx\.x must have 32, and "
            r"no loop around it may be bound to that, but there are 64\.",
        ),
        (
            lambda: _Product(margins=(24, 24)),
            r"Rows of a tile in shared memory must begin a multiple of 32 bytes apart, their "
            r"elements side by side, and those of a\.shared begin 48 apart, elements 1: use "
            r"storage_align\.",
        ),
        (
            lambda: _Product(margins=(16, 20)),
            r"those of sums\.shared begin 80 apart",
        ),
        (
            lambda: _Product(by_rows=True),
            r"Intrinsic matrix_load_left_float16 replaces loops of data 16, data 16, but "
            r"a\.shared\.matrix\.left has data 8, data 16 from i0 inwards: split or reorder them\.",
        ),
        (
            lambda: _Product(margins=(32, 40), columns=32, columns_first=True),
            r"Matrices that a warp holds must start from 0, all at once: let the loops that sum up "
            r"be outside all others of their stage\.",
        ),
    ],
    ids=["lanes", "halves", "sums", "rows", "start"],
)
def test_what_a_warp_cannot_do_is_refused(make: Callable[[], _Product], message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        make().kernel()
