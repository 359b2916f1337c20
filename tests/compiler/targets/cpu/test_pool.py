"""The thread pool in generated code: every iteration once, whoever runs it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.compiler.targets.cpu.handmade import EXTENTS, MEETINGS, library
from vdla.compiler.targets.cpu import host_target
from vdla.runtime.native import Library


@pytest.fixture(scope="module")
def code() -> bytes:
    return library(host_target().level)


def counts(lib: Library, name: str) -> np.ndarray:
    function = lib.function(name)
    array = np.zeros(function.arguments[0].shape, np.int32)
    function(array)
    return array


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 13])
@pytest.mark.parametrize("extent", EXTENTS)
def test_every_iteration_runs_once(code: bytes, threads: int, extent: int) -> None:
    with Library(code, threads=threads) as lib:
        for _ in range(20):
            assert (counts(lib, f"loop_{extent}") == 1).all()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_loops_follow_one_another(code: bytes, threads: int) -> None:
    with Library(code, threads=threads) as lib:
        assert (counts(lib, "network_64_1000") == 1000).all()
        assert (counts(lib, "network_3_100") == 100).all()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_loop_within_a_loop_runs_once(code: bytes, threads: int) -> None:
    with Library(code, threads=threads) as lib:
        for _ in range(50):
            assert (counts(lib, "nested_60") == 1).all()


@pytest.mark.parametrize("threads", MEETINGS)
def test_every_thread_takes_part(code: bytes, threads: int) -> None:
    with Library(code, threads=threads) as lib:
        for _ in range(20):
            assert counts(lib, f"meeting_{threads}") == [threads]
            time.sleep(0.001)  # some sleep, some still look when the next begins
