"""Schedules ranked by the cycle model: never slower than the estimate's choice, same results."""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla.compiler.graph import Graph, import_tflite
from vdla.errors import InputError, ScheduleError


@pytest.fixture(scope="module")
def network(shared_data) -> Graph:
    return import_tflite(shared_data / "mlperf_tiny" / "resnet8_int8.tflite")


def test_measured_schedules_are_no_slower(network: Graph) -> None:
    image = np.random.default_rng(3).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
    runs = [
        vdla.compile(network, rank=rank).run(image, device="cycle")
        for rank in ("estimate", "cycle")
    ]
    assert all(np.array_equal(runs[0].outputs[n], runs[1].outputs[n]) for n in runs[0].outputs)
    # Measured alone, operator by operator; joined in a program they may shift a little.
    assert runs[1].cycles <= runs[0].cycles * 1.01


def test_an_unknown_rank_is_refused(network: Graph) -> None:
    with pytest.raises(InputError, match="rank must be one of estimate, cycle, not 'best'"):
        vdla.compile(network, rank="best")


def test_a_loop_binds_to_threads_that_exist() -> None:
    from vdla.compiler import te

    a = te.placeholder((4,), "int8", "a")
    b = te.compute((4,), lambda i: a[i], "b")
    stage = te.create_schedule(b)[b]
    with pytest.raises(ScheduleError, match="not to 'vthraed'"):
        stage.bind(stage.leaves[0], "vthraed")
