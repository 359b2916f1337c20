"""Candidates on devices: the cycles are those of the cycle model, and values are compared."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.compiler.ops import nodes
from vdla.compiler.ops import ConvTemplate
from vdla.config import TINY
from vdla.errors import DeviceError, InputError, ProgramError
from vdla.runtime.tune import devices
from vdla.runtime.tune.accelerator import cycles
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.devices import OnDevice, measure_on


def template() -> ConvTemplate:
    graph = nodes.conv2d((1, 5, 5, 8), 12, (3, 3))
    return ConvTemplate.of(graph, graph.nodes[0], TINY)


def some(made: ConvTemplate, count: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [made.space[int(k)] for k in rng.choice(len(made.space), count, replace=False)]


@pytest.mark.parametrize(
    "device", ["cycle", pytest.param("rtl", marks=(pytest.mark.rtl, pytest.mark.slow))]
)
def test_a_device_counts_as_the_cycle_model_does(device: str) -> None:
    made = template()
    measure = OnDevice(device, TINY)
    measure.prepare()
    for point in some(made, 6):
        built = pickle.loads(pickle.dumps(measure.build(made, point)))
        assert measure.run(built, float("inf")) == cycles(made, point, 0.0)


@pytest.mark.rtl
@pytest.mark.slow
def test_the_gateware_measures_in_a_process_of_its_own() -> None:
    made = template()
    points = some(made, 4)
    with Attempts(measure_on("rtl", TINY), workers=1, seconds=60.0) as attempts:
        found = {k: outcome.cost for k, outcome in attempts.run(made, points, float("inf"))}
    assert found == {k: cycles(made, point, 0.0) for k, point in enumerate(points)}


def test_what_a_device_computes_otherwise_is_no_result() -> None:
    made, measure = template(), OnDevice("cycle", TINY)
    built = measure.build(made, made.space[0])
    wrong = bytes([built.expected[0] ^ 1, built.expected[1] ^ 1, *built.expected[2:]])
    with pytest.raises(ProgramError, match=f"and cycle computes 2 of {len(wrong)} bytes otherwise"):
        measure.run(replace(built, expected=wrong), 0.0)


def test_memory_is_reserved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, measure = template(), OnDevice("cycle", TINY)
    device = devices._opened("cycle", TINY)._device
    built = measure.build(made, made.space[0])
    measure.run(built, 0.0)
    monkeypatch.setattr(device, "allocate", None)
    assert measure.run(built, 0.0) == cycles(made, made.space[0], 0.0)


def test_devices_that_count_nothing_are_refused() -> None:
    assert measure_on("cycle", TINY) is cycles
    for name in ("functional", "pynq@", "rtl@here", "abacus"):
        said = f"on cycle, rtl, pynq or pynq@HOST, not '{name}': name one"
        with pytest.raises(InputError, match=said):
            measure_on(name, TINY)
    made, measure = template(), OnDevice("functional", TINY)
    with pytest.raises(DeviceError, match="where cycles are counted, not on functional: name"):
        measure(made, made.space[0], 0.0)
