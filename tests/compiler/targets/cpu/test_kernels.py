"""Random schedules as machine code: the values are those of the expression, in bounds."""

from __future__ import annotations

import llvmlite.ir as ll
import numpy as np
import pytest

from tests.compiler.lower.expressions import EXPRESSIONS
from tests.compiler.lower.random_schedules import random_schedule
from tests.compiler.targets.cpu.guarded import ENDS, guarded, guarded_copy, in_child
from vdla.abi import Argument
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.lower.narrow import narrow
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.lower.versions import version_tails
from vdla.compiler.targets.cpu.kernel import Kernel, emit_kernel, optimize
from vdla.compiler.targets.cpu.library import complete
from vdla.compiler.targets.cpu.link import link
from vdla.compiler.targets.cpu.target import host_target
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
from vdla.errors import LoweringError, ScheduleError
from vdla.runtime.native import Library

SEEDS = (1, 2, 3, 6, 7)


def marked(rng: np.random.Generator, schedule: Schedule) -> None:
    """Mark loops at random: what a processor has, and what it runs as plain loops."""
    for stage in schedule.stages:
        if stage.inlined:
            continue
        for leaf in stage.leaves:
            kind = rng.choice(["vectorize", "unroll", "parallel", "plain"], p=[0.2, 0.2, 0.2, 0.4])
            if kind == "parallel" and leaf.kind == "reduce":
                continue
            if kind != "plain" and leaf not in stage.annotations:
                getattr(stage, kind)(leaf)


def arguments_of(schedule: Schedule) -> tuple[Tensor, ...]:
    return tuple(lower(schedule)[1])


def run(schedule: Schedule, inputs: dict[Tensor, np.ndarray], at: str) -> dict[Tensor, np.ndarray]:
    """Return the outputs that compiled code writes, every array beside forbidden memory."""
    target, args = host_target(), arguments_of(schedule)
    module = ll.Module("test")
    code = emit_kernel(module, Kernel("kernel", schedule, args))
    size = max(code.workspace_bytes, 1)
    signature = [Argument(dtype=t.dtype, shape=t.shape, written=t not in inputs) for t in args]
    signature.append(Argument(dtype="uint8", shape=(size,), written=True, align=64))
    complete(module, target, {"kernel": signature})
    parsed, machine = optimize(module, target)
    arrays = {
        t: guarded_copy(inputs[t].astype(t.dtype), at=at)
        if t in inputs
        else guarded(t.shape, t.dtype, at=at)
        for t in args
    }
    with Library(link(machine.emit_object(parsed), target), threads=3) as library:
        library.function("kernel")(*arrays.values(), guarded((size,), "uint8", at=at, align=64))
    return {t: array for t, array in arrays.items() if t not in inputs}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_schedule(name: str, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    expression = EXPRESSIONS[name](rng)
    schedule = random_schedule(rng, expression)
    marked(rng, schedule)
    body, arguments = lower(schedule)
    body = narrow(version_tails(narrow(body)))
    results = interpret(body, arguments, expression.inputs)
    for tensor, expected in zip(expression.outputs, expression.expected, strict=True):
        np.testing.assert_array_equal(results[tensor], expected)

    def check() -> None:
        made = run(schedule, expression.inputs, ENDS[seed % 2])
        for tensor, expected in zip(expression.outputs, expression.expected, strict=True):
            np.testing.assert_array_equal(made[tensor], expected)

    in_child(check)


FUNCTIONS = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "rint": np.rint,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_are_numpys_in_and_out_of_vectors(name: str, dtype: str) -> None:
    x = placeholder((1003,), dtype, "x")
    y = compute((1003,), lambda i: call(name, x[i]), "y")
    schedule = create_schedule(y)
    _, inner = schedule[y].split(schedule[y].axis[0], factor=8)
    schedule[y].vectorize(inner)
    rng = np.random.default_rng(6)
    values = (rng.normal(size=1003) * 10.0 ** rng.integers(-6, 3, 1003)).astype(dtype)
    values[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](values.astype(np.float64)).astype(dtype)
    (result,) = run(schedule, {x: values}, "end").values()
    tolerance = 3e-7 if dtype == "float32" else 1e-15
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=1e-45)


def test_whole_tiles_have_constant_loops_and_the_last_one_too() -> None:
    x = placeholder((10,), "int32", "x")
    y = compute((10,), lambda i: x[i] + 1, "y")
    schedule = create_schedule(y)
    _, inner = schedule[y].split(schedule[y].axis[0], factor=4)
    schedule[y].unroll(inner)
    body, _ = lower(schedule)
    from vdla.compiler.ir.printer import stmt_text

    text = stmt_text(narrow(version_tails(body)))
    assert "for i.i in 4 (unroll):" in text
    assert "for i.i in 2 (unroll):" in text
    assert "min" not in text.split("if")[0]


def test_ranges_settle_quotients_and_conditions() -> None:
    x = placeholder((4, 16), "int32", "x")
    y = compute((64,), lambda i: x[i // 16, i % 16], "y")
    schedule = create_schedule(y)
    schedule[y].split(schedule[y].axis[0], factor=16)
    body, _ = lower(schedule)
    from vdla.compiler.ir.printer import stmt_text

    text = stmt_text(narrow(body))
    assert "//" not in text
    assert "%" not in text


def test_a_buffer_too_large_for_the_stack_is_refused() -> None:
    x = placeholder((2, 3 << 20), "int32", "x")
    double = compute(x.shape, lambda i, j: x[i, j] * 2, "double")
    k = reduce_axis(3 << 20, "k")
    y = compute((2,), lambda i: sum_over(double[i, k], k), "y")
    schedule = create_schedule(y)
    schedule[y].parallel(schedule[y].axis[0])
    schedule[double].compute_at(schedule[y], schedule[y].axis[0])
    with pytest.raises(LoweringError, match="must take at most 4 MiB, but double takes 12,582,912"):
        emit_kernel(ll.Module("test"), Kernel("kernel", schedule, (x, y)))


def test_arguments_are_those_of_the_schedule() -> None:
    x = placeholder((4,), "int32", "x")
    y = compute((4,), lambda i: x[i], "y")
    with pytest.raises(LoweringError, match=r"inputs and outputs of its schedule, y, x, not y\."):
        emit_kernel(ll.Module("test"), Kernel("kernel", create_schedule(y), (y,)))


def test_a_reduction_is_not_shared_among_threads() -> None:
    x = placeholder((4, 8), "int32", "x")
    k = reduce_axis(8, "k")
    y = compute((4,), lambda i: sum_over(x[i, k], k), "y")
    with pytest.raises(ScheduleError, match="A parallel loop must be of data, and k reduces"):
        create_schedule(y)[y].parallel(k)
