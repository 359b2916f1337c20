"""Guard pages catch what they are for: one byte before or behind an array, read or written."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.compiler.targets.cpu.guarded import ENDS, guarded, guarded_copy, in_child
from tests.compiler.targets.cpu.handmade import Module
from vdla.compiler.targets.cpu import host_target, link
from vdla.runtime.native import Library


@pytest.mark.parametrize("at", ENDS)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (4096,), (0,), (17, 241)])
def test_all_of_an_array_can_be_used(at: str, shape: tuple[int, ...]) -> None:
    array = guarded(shape, "int16", at=at)
    assert (array.shape, array.dtype, array.any()) == (shape, np.int16, False)
    array[...] = 7
    assert array.flags.c_contiguous
    assert array.sum() == 7 * array.size


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize(("at", "beyond"), [("end", 12), ("begin", -1)])
def test_one_byte_beyond_ends_the_child(at: str, beyond: int, write: bool) -> None:
    array = guarded((3,), "float32", at=at)

    def touch() -> None:
        where = array.ctypes.data + beyond
        if write:
            ctypes.memset(where, 1, 1)
        else:
            ctypes.string_at(where, 1)

    with pytest.raises(AssertionError, match=r"SIG(SEGV|BUS): it touched memory out of bounds"):
        in_child(touch)


def test_an_alignment_leaves_less_than_itself_behind() -> None:
    array = guarded((5,), "float32", align=64)
    assert array.ctypes.data % 64 == 0
    page = 4096
    assert -(array.ctypes.data + array.nbytes) % page < 64


def test_a_copy_has_the_values() -> None:
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(guarded_copy(values, at="begin"), values)


def test_what_a_child_raises_is_the_failure() -> None:
    def work() -> None:
        assert 1 + 1 == 3, "arithmetic"

    with pytest.raises(AssertionError, match="arithmetic"):
        in_child(work)
    in_child(lambda: None)


def test_generated_code_that_writes_too_far_is_caught() -> None:
    made = Module()
    made.loop(100)
    (argument,) = made.functions["loop_100"]
    made.functions["loop_100"] = (type(argument)(dtype="int32", shape=(99,), written=True),)
    target = host_target()
    with Library(link(made.object(target), target)) as library:
        function = library.function("loop_100")
        with pytest.raises(AssertionError, match="out of bounds"):
            in_child(lambda: function(guarded((99,), "int32")))
