"""Kernels of schedules: what each thread runs, where it waits, and that it stays inside arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.targets.gpu.broken import barriers_of, unguarded, without
from tests.compiler.targets.gpu.on_processor import run_as
from tests.compiler.targets.gpu.schedules import CASES, Made, filled, transposed
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.stmt import Access, Buffer, Store
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.targets.gpu import CUDA, METAL, Dialect, Kernel, build_kernel, source_of
from vdla.compiler.targets.gpu.barriers import check_barriers, place_barriers
from vdla.compiler.targets.gpu.bounds import check_bounds
from vdla.compiler.targets.gpu.kernel import (
    THREAD,
    Guard,
    Loop,
    Sequence,
    walk,
)
from vdla.compiler.te import (
    Schedule,
    Tensor,
    call,
    compute,
    create_schedule,
    placeholder,
    reduce_axis,
    sum_over,
)
from vdla.compiler.te.expr import Call, Expr, Real, Var, minimum
from vdla.compiler.te.traverse import substitute
from vdla.errors import LoweringError, ScheduleError
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray


def _values(args: list[Tensor]) -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(t.shape).astype(np.float32) for t in args[:-1]]


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_of_ones_own_runs(name: str, pocl: OpenClDevice) -> None:
    (schedule, args), expected = CASES[name]
    given = _values(args)
    (found,) = pocl.build(build_kernel(name, schedule, args))(*given)
    np.testing.assert_array_equal(found, expected(*given))


@pytest.mark.parametrize("name", CASES)
def test_its_loops_compute_the_same(name: str) -> None:
    (schedule, args), expected = CASES[name]
    given = _values(args)
    body, arguments = lower(schedule, interleave=False)
    found = interpret(body, arguments, dict(zip(args, given, strict=False)))
    np.testing.assert_array_equal(found[args[-1]], expected(*given))


@pytest.mark.parametrize("name", CASES)
def test_its_source_is_as_it_was(name: str, golden: Callable[[str, str], None]) -> None:
    kernel = build_kernel(name, *CASES[name][0])
    golden(source_of(kernel), f"{name}.cl")
    golden(source_of(kernel, CUDA), f"{name}.cu")
    golden(source_of(kernel, METAL), f"{name}.metal")


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("name", CASES)
def test_its_source_runs_on_a_processor(name: str, dialect: Dialect, tmp_path: Path) -> None:
    (schedule, args), expected = CASES[name]
    given = _values(args)
    kernel = build_kernel(name, schedule, args)
    np.testing.assert_array_equal(
        run_as(dialect, kernel, *given, folder=tmp_path), expected(*given)
    )


@pytest.mark.parametrize("name", CASES)
def test_no_barrier_can_be_left_out(name: str) -> None:
    kernel = build_kernel(name, *CASES[name][0])
    barriers = barriers_of(kernel)
    assert len(barriers) == (2 if name == "rows_shared" else 1)
    for barrier in barriers:
        broken = without(kernel, barrier)
        with pytest.raises(LoweringError, match=r"nothing makes them wait for a\.shared"):
            check_barriers(broken.body)
        lines = source_of(kernel).splitlines()
        fewer = source_of(broken).splitlines()
        assert len(fewer) == len(lines) - 1
        assert fewer.count("barrier(CLK_LOCAL_MEM_FENCE);") == 0


@pytest.mark.parametrize("name", CASES)
def test_without_a_barrier_something_else_is_computed(name: str, tmp_path: Path) -> None:
    (schedule, args), expected = CASES[name]
    given = _values(args)
    kernel = build_kernel(name, schedule, args)
    for k, barrier in enumerate(barriers_of(kernel)):
        folder = tmp_path / str(k)
        folder.mkdir()
        broken = without(kernel, barrier)
        assert (run_as(CUDA, broken, *given, folder=folder) != expected(*given)).any()


def test_all_threads_must_reach_a_barrier() -> None:
    memory, shared = (Buffer(name, "float32", name, 8) for name in ("global", "shared"))
    here = Access(shared, THREAD[0])
    write = Store(here, Real(0.0), ())
    read = Store(
        Access(memory, THREAD[0]), Call("load", (), "float32", (("position", 0),)), (here,)
    )
    loop = Loop(Var("i"), THREAD[0] + 1, Sequence((write, read)))
    with pytest.raises(
        LoweringError,
        match=r"All threads must reach a barrier, and thread_x \+ 1, which decides how often it is "
        r"reached, differs between them: compute what is shared further out, or make whole tiles\.",
    ):
        place_barriers(loop)


@pytest.mark.parametrize("name", ["transposed", "moving_maximum", "rows_shared"])
def test_no_guard_can_be_left_out(name: str) -> None:
    kernel = build_kernel(name, *CASES[name][0])
    with pytest.raises(LoweringError, match=r"must lie inside its array wherever a thread stands"):
        check_bounds(unguarded(kernel))


def test_a_tile_that_divides_needs_no_guard() -> None:
    kernel = build_kernel("t", *CASES["transposed_divided"][0])
    assert not any(isinstance(part, Guard) for part in walk(kernel.body))


def test_names_that_c_has_are_changed(pocl: OpenClDevice) -> None:
    x = placeholder((5,), "float32", "half")
    y = compute((5,), lambda i: x[i] + 1, "2 out:0")
    s = create_schedule(y)
    s[y].bind(s[y].axis[0], "threadIdx.x")
    kernel = build_kernel("dot", s, [x, y])
    assert "restrict half_2 " in source_of(kernel)
    assert "restrict v2_out_0 " in source_of(kernel)
    (found,) = pocl.build(kernel)(np.arange(5, dtype=np.float32))
    assert found.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "numpy"),
    [
        ("abs", np.abs),
        ("ceil", np.ceil),
        ("erf", np.vectorize(math.erf, otypes=[np.float32])),
        ("exp", np.exp),
        ("floor", np.floor),
        ("log", np.log),
        ("rint", np.rint),
        ("sqrt", np.sqrt),
        ("tanh", np.tanh),
    ],
)
def test_functions_of_floats(
    name: str, numpy: Callable[[Array], Array], pocl: OpenClDevice, tmp_path: Path
) -> None:
    x = placeholder((99,), "float32", "x")
    y = compute((99,), lambda i: call(name, x[i]) * x[i], "y")
    s = create_schedule(y)
    s[y].bind(s[y].axis[0], "threadIdx.x")
    kernel = build_kernel("f", s, [x, y])
    given = np.linspace(0.01, 3, 99, dtype=np.float32)
    (found,) = pocl.build(kernel)(given)
    np.testing.assert_allclose(found, numpy(given) * given, rtol=1e-6)
    there = run_as(CUDA, kernel, given, folder=tmp_path)
    np.testing.assert_allclose(there, numpy(given) * given, rtol=1e-6)
    if name == "erf":
        with pytest.raises(LoweringError, match=r"language has, and Metal has no erf: leave the"):
            source_of(kernel, METAL)


def test_metal_has_no_float64(pocl: OpenClDevice) -> None:
    x = placeholder((5,), "float64", "x")
    y = compute((5,), lambda i: x[i] / 3, "y")
    s = create_schedule(y)
    s[y].bind(s[y].axis[0], "threadIdx.x")
    kernel = build_kernel("third", s, [x, y])
    (found,) = pocl.build(kernel)(np.arange(5.0))
    np.testing.assert_array_equal(found, np.arange(5.0) / 3)
    with pytest.raises(
        LoweringError,
        match=r"A kernel computes with what its language has, and Metal has no float64: convert it "
        r"before, or leave the operator on the processor\.",
    ):
        source_of(kernel, METAL)


# What is refused.


def _plain(size: int = 64) -> tuple[Schedule, Tensor, Tensor]:
    a = placeholder((size, size), "float32", "a")
    b = compute((size, size), lambda i, j: a[i, j] + 1, "b")
    return create_schedule(b), a, b


def _twice() -> Kernel:
    s, a, b = _plain()
    for axis in s[b].axis:
        s[b].bind(axis, "threadIdx.x")
    return build_kernel("k", s, [a, b])


def _one_axis_short() -> Kernel:
    s, a, b = _plain(8)
    shared = s[s.cache_read(a, "shared", [b])]
    i, j = s[b].axis
    s[b].bind(i, "threadIdx.y")
    s[b].bind(j, "threadIdx.x")
    shared.compute_at(s[b], j)
    shared.whole_tiles()
    filled(shared, 8)
    return build_kernel("k", s, [a, b])


def _shared_by_no_one() -> Kernel:
    s, a, b = _plain(8)
    shared = s[s.cache_read(a, "shared", [b])]
    s[b].bind(s[b].axis[1], "threadIdx.x")
    shared.compute_at(s[b], s[b].axis[1])
    return build_kernel("k", s, [a, b])


def _in_memory() -> Kernel:
    a = placeholder((8,), "float32", "a")
    b = compute((8,), lambda i: a[i] + 1, "b")
    c = compute((8,), lambda i: b[i] * 2, "c")
    s = create_schedule(c)
    s[c].bind(s[c].axis[0], "threadIdx.x")
    s[b].compute_at(s[c], s[c].axis[0])
    return build_kernel("k", s, [a, c])


def _two_roots() -> Kernel:
    a = placeholder((8,), "float32", "a")
    b = compute((8,), lambda i: a[i] + 1, "b")
    c = compute((8,), lambda i: b[i] * 2, "c")
    return build_kernel("k", create_schedule(c), [a, c])


def _too_many_threads() -> Kernel:
    s, a, b = _plain()
    s[b].bind(s[b].axis[0], "threadIdx.y")
    s[b].bind(s[b].axis[1], "threadIdx.x")
    return build_kernel("k", s, [a, b])


def _too_many_blocks() -> Kernel:
    a = placeholder((70000,), "float32", "a")
    b = compute((70000,), lambda i: a[i] + 1, "b")
    s = create_schedule(b)
    s[b].bind(s[b].axis[0], "blockIdx.y")
    return build_kernel("k", s, [a, b])


def _too_much_shared() -> Kernel:
    return build_kernel("k", *transposed(256, 256, 32)) and build_kernel("k", *_wide())


def _wide() -> Made:
    s, a, b = _plain(128)
    i, j = s[b].axis
    s[b].bind(j, "threadIdx.x")
    shared = s[s.cache_read(a, "shared", [b])]
    jo, ji = s[b].split(i, factor=128)
    s[b].reorder(j, jo, ji)
    shared.compute_at(s[b], j)
    shared.whole_tiles()
    filled(shared, 128)
    return s, [a, b]


def _blocks_that_differ() -> Kernel:
    s, a, b = _plain(10)
    _, inner = s[b].split(s[b].axis[0], factor=4)
    s[b].bind(inner, "blockIdx.x")
    return build_kernel("k", s, [a, b])


def _uneven_loop() -> Kernel:
    s, a, b = _plain(10)
    i, j = s[b].axis
    io, ii = s[b].split(i, factor=4)
    s[b].bind(io, "threadIdx.x")
    s[b].reorder(io, ii, j)
    shared = s[s.cache_read(a, "shared", [b])]
    shared.compute_at(s[b], ii)
    shared.whole_tiles()
    filled(shared, 3)
    return build_kernel("k", s, [a, b])


def _parallel() -> Kernel:
    s, a, b = _plain()
    s[b].parallel(s[b].axis[1])
    return build_kernel("k", s, [a, b])


def _others() -> Kernel:
    s, a, b = _plain()
    return build_kernel("k", s, [b, a, placeholder((2,), "float32", "z")])


def _unguarded_margin() -> Kernel:
    a = placeholder((10,), "float32", "a")
    k = reduce_axis(3, "k")
    b = compute((8,), lambda i: sum_over(a[i + k], k), "b")
    s = create_schedule(b)
    total = s[s.cache_write(b, "register")]
    block, own = s[b].split(s[b].axis[0], factor=3)
    s[b].bind(block, "threadIdx.x")
    total.compute_at(s[b], block)
    total.whole_tiles()
    return build_kernel("k", s, [a, b])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            _twice,
            r"Loops around one statement must be bound to different axes; i and j are both bound "
            r"to threadIdx\.x: fuse them, or bind one to another axis\.",
        ),
        (
            _one_axis_short,
            r"An element of a\.shared must be written by one thread, but no loop around it is "
            r"bound to threadIdx\.y, along which there are 8: bind one of its loops to that\.",
        ),
        (_shared_by_no_one, r"An element of a\.shared must be written by one thread"),
        (
            _in_memory,
            r"What a kernel keeps for itself must lie in shared or register, and b lies in "
            r"global: use set_scope, or compute_inline\.",
        ),
        (
            _two_roots,
            r"A kernel computes one stage at the root, whose loops hold all others, not 2 "
            r"\(b, c\): use compute_at or compute_inline, or make a kernel of each\.",
        ),
        (
            _too_many_threads,
            r"A block must have at most 1024 threads, and k has 64 x 64 x 1: bind shorter loops\.",
        ),
        (
            _too_many_blocks,
            r"A grid must have at most 65,535 blocks along y, and k has 70,000: bind a longer "
            r"loop to x, or make larger tiles\.",
        ),
        (
            _too_much_shared,
            r"Shared arrays of a block must take at most 32,768 bytes, and those of k take 65,536 "
            r"\(a\.shared: 16,384 elements\): make smaller tiles\.",
        ),
        (
            _blocks_that_differ,
            r"The blocks of a grid must be a constant number; loop i\.i, bound to blockIdx\.x, "
            r"takes min\(4, .*\): bind the outer loop of a split\.",
        ),
        (
            _uneven_loop,
            r"a\.shared is computed by all threads of a block, and loop i\.i around it takes "
            r"min\(4, .*\) steps, not as many in each: compute it further out, or split by a "
            r"factor that divides\.",
        ),
        (
            _parallel,
            r"A loop of a GPU's thread is serial, unrolled or of vectors, and j is parallel: leave "
            r"that out, or bind the loop to an axis of threads\.",
        ),
        (
            _others,
            r"The arguments of kernel k must be the inputs and outputs of its schedule, .*, not "
            r"b, a, z\.",
        ),
        (_unguarded_margin, r"After nests, a\[.*\] reaches 0\.\.10, outside 0\.\.9\."),
    ],
)
def test_what_threads_cannot_run_is_refused(make: Callable[[], Kernel], text: str) -> None:
    with pytest.raises(LoweringError, match=text):
        make()


def test_an_axis_that_no_gpu_has_is_refused() -> None:
    s, _, b = _plain()
    with pytest.raises(ScheduleError, match=r"an axis, x, y or z, of blockIdx or threadIdx, not t"):
        s[b].bind(s[b].axis[0], "threadIdx.w")


def _elements(body: Expr, given: list[Tensor], threads: int) -> Kernel:
    out = compute((threads,), lambda i: substitute(body, {INDEX: i.var}), "out")
    s = create_schedule(out)
    s[out].bind(s[out].axis[0], "threadIdx.x")
    return build_kernel("halves", s, [*given, out])


INDEX = Var("i")
HALVES = placeholder((9,), "float16", "a")


@pytest.mark.parametrize(
    "body",
    [
        HALVES[INDEX] * HALVES[INDEX],
        call("exp", HALVES[INDEX]),
        sum_over(HALVES[INDEX + (k := reduce_axis(2, "k"))], k),
    ],
    ids=["product", "function", "sum"],
)
def test_halves_are_computed_with_in_float32(body: Expr) -> None:
    kernel = _elements(body, [HALVES], 8)
    with pytest.raises(LoweringError, match=r"in float32, and .* is float16: convert what"):
        source_of(kernel)


def test_a_half_is_rounded_where_it_is_made(pocl: OpenClDevice, tmp_path: Path) -> None:
    # A third of a half, as a half, three times: without the rounding between it were the same.
    third = (HALVES[INDEX].astype("float32") / 3.0).astype("float16")
    body = minimum((third.astype("float32") * 3.0).astype("float16"), HALVES[INDEX])
    given = np.float16([0.1, -7.3, 65000, 6e-8, np.inf, -np.inf, np.nan, 0, 1001])
    kernel = _elements(body, [HALVES], 9)
    narrow = (given.astype(np.float32) / np.float32(3)).astype(np.float16)
    want = np.minimum((narrow.astype(np.float32) * np.float32(3)).astype(np.float16), given)
    assert (want != given).any()
    np.testing.assert_array_equal(*pocl.build(kernel)(given), want)
    for dialect in (CUDA, METAL):
        folder = tmp_path / dialect.name
        folder.mkdir()
        np.testing.assert_array_equal(run_as(dialect, kernel, given, folder=folder), want)
