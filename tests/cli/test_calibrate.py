from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vdla.config import TINY, Config


def test_the_file_that_is_written_is_read_by_config(vdla_command: Any, tmp_path: Path) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text(
        TINY.replace(name="slow", dram_latency_cycles=70, dram_bytes_per_cycle=2.5).to_toml()
    )
    out = tmp_path / "found.toml"
    arguments = ("calibrate", "--device", "cycle", "--config", slow)
    outcome = vdla_command(*arguments, "-o", out, "--json")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert report["dram_latency_cycles"] == 70
    assert report["dram_bytes_per_cycle"] == pytest.approx(2.5, rel=0.01)
    found = Config.from_toml(out)
    assert found.dram_latency_cycles == 70
    assert found.name == "slow-calibrated"
    table = vdla_command(*arguments).out
    assert "long loads" in table
    assert "latency 70 cycles" in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "x.json"), "A configuration must be written to a .toml file, not to x.json."),
        (("--rtl-memory", "9,9"), "--rtl-memory must go with --device rtl, not cycle."),
        (("--device", "functional"), "A device must count cycles to be calibrated"),
        (
            ("--device", "rtl", "--rtl-memory", "fast"),
            "--rtl-memory must be cycles and bytes a cycle, such as 47,5.3, not 'fast'.",
        ),
    ],
)
def test_what_cannot_be_calibrated_is_refused(
    vdla_command: Any, arguments: tuple[str, ...], message: str
) -> None:
    outcome = vdla_command("calibrate", "--device", "cycle", "--config", "TINY", *arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


def test_a_board_measures_and_a_host_fits(vdla_command: Any, tmp_path: Path) -> None:
    slow, counts, out = (tmp_path / name for name in ("slow.toml", "counts.json", "found.toml"))
    slow.write_text(
        TINY.replace(name="slow", dram_latency_cycles=70, dram_bytes_per_cycle=2.5).to_toml()
    )
    board = ("calibrate", "--device", "cycle", "--config", slow, "--measure", counts)
    assert vdla_command(*board).code == 0
    host = vdla_command("calibrate", "--counts", counts, "--config", "TINY", "-o", out)
    assert host.code == 0
    found = Config.from_toml(out)
    assert found.dram_latency_cycles == 70
    assert found.dram_bytes_per_cycle == pytest.approx(2.5, rel=0.01)
    other = vdla_command("calibrate", "--counts", counts, "--config", "PYNQ_Z1")
    assert "Counts must be of the configuration that is named, pynq-z1" in other.err
    none = vdla_command("calibrate", "--counts", slow, "--config", "TINY")
    assert "A file of counts must be what vdla calibrate --measure wrote" in none.err


def test_measuring_needs_no_cycle_model() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from vdla.runtime.calibrate import measure\n"
        "from vdla.runtime.cli.calibrate import calibrate\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
