"""``vdla bench paper``: figures that follow from measured cycles."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Invoke
from vdla.config import PAPER
from vdla.runtime.cli import paper


def measured(*_: Any, **__: Any) -> dict[str, Any]:
    """Two convolutions of 1,000 ideal cycles, at half use with one thread and full with two."""
    layer = {
        "occurrences": 2,
        "shape": "8x8",
        "mac_cycles_ideal": 1000,
        "cycles": {"1": 2000, "2": 1000},
        "mac_utilization": {"1": 0.5, "2": 1.0},
    }
    return {
        "layers": [{"name": "C2", **layer}],
        "mac_utilization": {"1": 0.5, "2": 1.0},
    }


def test_a_machine_s_figures_follow_from_its_cycles() -> None:
    macs = 2 * 1000 * 256
    found = paper.machine(PAPER, measured(), {"cycles": 4000, "macs": 2 * macs})
    # At full use the accelerator is 40 / 0.88 times the processor of the model.
    assert found["speedup"] == pytest.approx(40 / 0.88)
    assert found["layers"][0]["removed"] == pytest.approx(1 - 0.88 / 40)
    assert found["peak_use"] == {"1": 0.5, "2": 1.0}
    assert found["cpu_seconds"] == pytest.approx(2 * macs / 1.12640e9)
    assert found["whole_seconds"] == pytest.approx(20e-6)
    assert found["offloaded_seconds"] == pytest.approx(macs / 1.12640e9 + 10e-6)
    assert found["offloaded_removed"] == pytest.approx(0.5 - 0.5 * 0.88 / 40)


def test_the_table_names_the_paper_s_figures(
    vdla_command: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "measure", measured)
    monkeypatch.setattr(paper, "whole_cycles", lambda config: {"cycles": 4000, "macs": 1_024_000})
    shown = vdla_command("bench", "paper").out
    assert "88 %" in shown
    assert "40 x" in shown
    assert "VTA's cycle model" in shown
    assert "the cpu is a model, 1.13 G" in shown
