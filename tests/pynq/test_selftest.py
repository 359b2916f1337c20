"""Self-test and measurement through pynq's registers and buffers."""

from __future__ import annotations

from pathlib import Path

from tests.pynq.board import RtlBoard
from tests.pynq.overlays import write_overlay
from vdla.config import TINY
from vdla.runtime.calibrate import measure
from vdla.runtime.devices.board import PynqDevice
from vdla.runtime.selftest import selftest


def test_a_board_tests_itself_and_is_measured(board: RtlBoard, name: str, tmp_path: Path) -> None:
    write_overlay(tmp_path / "overlays" / name, TINY, board=name)
    device = PynqDevice(TINY)
    report = selftest(device)
    assert [(o.grade, o.status) for o in report.outcomes if o.status != "passed"] == [
        ("network", "skipped")
    ]
    assert {o.name for o in report.outcomes if o.grade == "registers"} >= {"ID", "UOP_BASE"}
    counts = measure(device)
    assert counts.config_hash == TINY.hash
    assert all(cycles > 0 for cycles in counts.cycles.values())
    device.close()
