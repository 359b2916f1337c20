"""``vdla area`` and ``vdla sweep`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke


def test_area_says_what_fits_where(vdla_command: Invoke) -> None:
    found = json.loads(vdla_command("area", "--json").out)
    assert found["source"] == "yosys"
    assert found["total"] == {"lut": 29436, "ff": 30170, "dsp": 192, "bram36": 114.5}
    assert {room["board"]: room["fits"] for room in found["boards"]}["pynq-z1"]
    shown = vdla_command("area").out
    assert "LUTs and flip-flops: counted by yosys (xc7)" in shown
    assert "pynq-z1" in shown


def test_area_states_the_model_s_error(vdla_command: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        "block_in = 8\nblock_out = 8\nwgt_bytes = 65536\nacc_bytes = 65536\n"
        "inp_bytes = 16384\nuop_bytes = 4096\n",
        encoding="utf-8",
    )
    shown = vdla_command("area", "--config", file).out
    assert "a model (xc7), off by LUT" in shown
    assert "synthesized configurations from all others" in shown


def test_sweep_shows_what_varies(vdla_command: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(
        "networks = ['digits']\nconfig = 'TINY'\n"
        "[axes]\nvthreads = [1, 2]\ninp_bytes = [2048, 3]\n",
        encoding="utf-8",
    )
    shown = vdla_command("sweep", file, "--workers", "1")
    assert shown.code == 0
    header = shown.out.splitlines()[0].split()
    assert header[:3] == ["network", "inp_bytes", "vthreads"]
    assert "2 failed: inp_bytes must be a positive power of two, not 3." in shown.out
    again = json.loads(vdla_command("sweep", file, "--workers", "1", "--json").out)
    assert [point["status"] for point in again["points"]].count("ok") == 2
    assert again["points"][0]["dsp"] == 24
    assert Path(again["folder"], "table.csv").exists()


@pytest.mark.parametrize("shard", ["1", "a/b", "1/2/3", "-1/2"])
def test_a_shard_is_two_numbers(vdla_command: Invoke, tmp_path: Path, shard: str) -> None:
    file = tmp_path / "spec.toml"
    file.write_text("networks = ['digits']\n", encoding="utf-8")
    found = vdla_command("sweep", file, "--shard", shard)
    assert found.code == 2
    assert "--shard must be a part and a number of parts" in found.err
