"""Candidates on the processor: measured, checked, and outliers left out of account."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tests.compiler.cpu.convolutions import convolution
from tests.networks import Draft
from vdla.compiler.cpu.template import CpuTemplate, templates_of
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.cpu.target import host_target
from vdla.compiler.tune.methods import Random
from vdla.errors import DeviceError, ProgramError
from vdla.runtime.tune import expected, processor
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.processor import seconds
from vdla.runtime.tune.ratio import kept
from vdla.runtime.tune.search import search


def template(graph: Graph, threads: int = 1) -> CpuTemplate:
    ((one, _),) = templates_of(graph, host_target(), threads)
    return one


@pytest.fixture(autouse=True)
def no_references() -> None:
    processor._references.clear()


def test_samples_far_outside_the_middle_half_are_discarded() -> None:
    # Quartiles 1.0 and 1.2: what lies beyond 0.7 and 1.5 goes.
    assert kept([1.0, 1.0, 1.1, 1.2, 1.2]).tolist() == [1.0, 1.0, 1.1, 1.2, 1.2]
    assert kept([1.0, 1.0, 1.1, 1.2, 9.0]).tolist() == [1.0, 1.0, 1.1, 1.2]
    assert kept([0.1, 1.0, 1.0, 1.0, 1.1, 1.2, 1.2, 1.2, 7.0]).tolist() == [
        *[1.0] * 3,
        1.1,
        *[1.2] * 3,
    ]
    assert kept([2.0]).tolist() == [2.0]


def test_a_search_measures_floats_in_a_child() -> None:
    one = template(convolution((1, 12, 12, 16), 32, 3, 1, (1, 1), residual=True))
    with Attempts(seconds, workers=1, seconds=60.0) as attempts:
        found = search(
            one, Random(one.space, np.random.default_rng(0)), attempts, trials=4, batch=4
        )
    assert not found.failures
    assert all(record.cost is not None and record.cost > 0 for record in found.records)


def test_integers_are_measured_on_two_threads() -> None:
    net = Draft("whole", (1, 8, 12, 16))
    one = template(net.finish(net.conv("conv", "input", 24)), threads=2)
    assert 0 < seconds(one, one.space[len(one.space) // 2], inf) < 1


def test_another_processor_measures_nothing() -> None:
    one = template(convolution((1, 12, 12, 16), 32, 3, 1, (1, 1)))
    elsewhere = replace(one, processor="another")
    assert elsewhere.task.key != one.task.key
    with pytest.raises(DeviceError, match=r"the processor of its task, another, and this is "):
        seconds(elsewhere, one.space[0], inf)


@pytest.mark.parametrize("kind", ["floats", "integers"])
def test_a_wrong_value_is_never_fast(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Draft("whole", (1, 8, 12, 16))
    floats = convolution((1, 12, 12, 16), 32, 3, 1, (1, 1))
    one = template(floats if kind == "floats" else net.finish(net.conv("conv", "input", 24)))

    class Other(Interpreter):
        def run(self, *args: object, **more: object) -> dict[str, np.ndarray]:
            found = super().run(*args, **more)
            for array in found.values():
                array[..., 3] = array[..., 3] + array.max() / 100 + (kind == "integers")
            return found

    monkeypatch.setattr(expected, "Interpreter", Other)
    with pytest.raises(ProgramError, match=r"must be (within|equal to)"):
        seconds(one, one.space[0], inf)
