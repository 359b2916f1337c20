"""The whole of ``vdla bitstream`` with fakes of the tools on PATH."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vdla.bitstreams import read
from vdla.boards import BOARDS
from vdla.config import PYNQ_Z1, Config
from vdla.runtime.cli.app import app
from vdla.runtime.overlay import vivado as vivado_flow
from vdla.runtime.overlay.core import ip_wrapper


@pytest.fixture(autouse=True)
def no_gateware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the gateware out, whose Verilog takes long to make; the fakes do not read it."""

    def sources(config: Config) -> dict[str, str]:
        return {"vdla.v": "module vdla(clk);\nendmodule\n", "vdla_ip.v": ip_wrapper(config)}

    monkeypatch.setattr(vivado_flow, "ip_sources", sources)


def vdla(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bitstream", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("name", ["pynq-z2", "kv260"])
def test_an_overlay_is_built(vivado: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "made"
    code, out, err = vdla("--board", name, "-o", folder)
    assert (code, err) == (0, "")
    clock = BOARDS[name].configuration.clock_mhz
    assert out.splitlines()[-1] == (
        f"{name}, configuration {name}: {clock:g} MHz met, 0.050 ns to spare"
    )
    manifest = read(folder)
    assert manifest.board == manifest.config == name
    assert manifest.config_hash == f"{BOARDS[name].configuration.hash:016x}"
    assert (manifest.tool, manifest.tool_version) == ("Vivado", "2024.1")
    assert sorted(manifest.files) == ["timing.rpt", "utilization.rpt", "vdla.bit", "vdla.hwh"]
    assert manifest.bit.read_text(encoding="utf-8") == "bits for 2024.1\n"
    assert "vdla:user:vdla:1.0" in manifest.hwh.read_text(encoding="utf-8")


def test_it_goes_where_it_is_looked_for(
    vivado: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = vdla("--board", "PYNQ_Z1", "--clock", "125", "--json")
    assert code == 0
    report = json.loads(out)
    assert report == {
        "board": "pynq-z1",
        "config": "pynq-z1",
        "config_hash": f"{PYNQ_Z1.hash:016x}",
        "clock_mhz": 125.0,
        "slack_ns": 0.05,
        "tool": "Vivado 2024.1",
        "files": [
            f"bitstreams/pynq-z1/{name}"
            for name in ("vdla.bit", "vdla.hwh", "timing.rpt", "utilization.rpt", "manifest.json")
        ],
    }
    assert read(tmp_path / "bitstreams/pynq-z1").clock_mhz == 125.0


@pytest.mark.parametrize(
    ("variable", "slack", "allows", "remedy"),
    [
        ("FAKE_SETUP_NS", "-1.5", "87.0", "build for a lower clock, --clock 50"),
        ("FAKE_HOLD_NS", "-0.001", "100.0", "build for a lower clock, --clock 50"),
        ("FAKE_SETUP_NS", "-30", "25.0", "see the report"),
    ],
)
def test_failed_timing_is_no_overlay(
    vivado: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    slack: str,
    allows: str,
    remedy: str,
) -> None:
    monkeypatch.setenv(variable, slack)
    code, out, err = vdla("--board", "pynq-z1", "-o", tmp_path / "a")
    assert (code, out) == (2, "")
    assert err == (
        f"vdla: An overlay's timing must be met, and at 100 MHz its worst slack is "
        f"{float(slack):.3f} ns, which allows {allows} MHz: {remedy} "
        f"({tmp_path / 'a/build/timing.rpt'})\n"
    )
    assert not (tmp_path / "a/manifest.json").exists()
    assert not (tmp_path / "a/vdla.bit").exists()


def test_a_failure_leaves_the_last_overlay_whole(
    vivado: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    assert vdla("--board", "pynq-z1", "-o", folder)[0] == 0
    before = read(folder)
    monkeypatch.setenv("FAKE_STOP", "impl_1")
    monkeypatch.setenv("FAKE_VERSION", "2025.1")
    code, _, err = vdla("--board", "pynq-z1", "-o", folder)
    assert code == 2
    assert err == (
        "vdla: Vivado must end well, not with status 1: ERROR: impl_1 stopped: ERROR (all that it "
        f"said: {folder / 'build/console.log'})\n"
    )
    assert read(folder) == before


def test_an_interrupted_build_leaves_no_manifest_and_no_process(
    vivado: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "FAKE_HANG": "60"}
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING.format(folder=str(tmp_path / "a"))],
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    log = tmp_path / "a/build/console.log"
    deadline = time.monotonic() + 300
    while not (log.exists() and "Launched synth_1" in log.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not (tmp_path / "a/manifest.json").exists()
    assert tmp_path / "a/build" not in folders_worked_in()


def folders_worked_in() -> list[Path]:
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # a process that has ended meanwhile
            found.append(link.readlink())
    return found


# The command in a process of its own, its gateware left out as above.
HANGING = """
from vdla.runtime.overlay import vivado
from vdla.runtime.overlay.core import ip_wrapper
stub = "module vdla(clk);"
vivado.ip_sources = lambda config: {{"vdla.v": stub, "vdla_ip.v": ip_wrapper(config)}}
from vdla.runtime.cli import main
import sys
sys.argv = ["vdla", "bitstream", "--board", "pynq-z1", "-o", {folder!r}]
main()
"""


def test_without_the_tool_it_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = vdla("--board", "pynq-z1", "-o", tmp_path / "a")
    assert (code, out) == (2, "")
    assert err == (
        "vdla: Vivado 2024.1 must be on PATH, and vivado is not: install it and put it on PATH, "
        "or write the files to build on another machine with --script-only\n"
    )
    assert not (tmp_path / "a").exists()


def test_the_files_can_be_built_elsewhere(vivado: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    code, out, _ = vdla("--board", "aup-zu3", "-o", folder, "--script-only", "--json")
    assert code == 0
    report: dict[str, Any] = json.loads(out)
    names = ["build.tcl", "vdla.v", "vdla_ip.v", "vdla.toml"]
    assert report["files"] == [str(folder / "build" / name) for name in names]
    assert sorted(entry.name for entry in (folder / "build").iterdir()) == sorted(names)

    code, _, err = vdla("--board", "aup-zu3", "-o", folder, "--collect")
    assert code == 2
    assert "A build must leave overlay.bit, overlay.hwh, timing.rpt, utilization.rpt" in err
    assert "build there with: vivado -mode batch -source build.tcl" in err

    subprocess.run(report["command"], shell=True, check=True, capture_output=True)
    assert vdla("--board", "aup-zu3", "-o", folder, "--collect")[0] == 0
    assert read(folder).board == "aup-zu3"


def test_a_design_at_another_address_is_refused(vivado: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    assert vdla("--board", "pynq-z1", "-o", folder)[0] == 0
    hwh = folder / "build/overlay.hwh"
    text = hwh.read_text(encoding="utf-8")
    hwh.write_text(text.replace("0x43C00000", "0x43C10000"), encoding="utf-8")
    code, _, err = vdla("--board", "pynq-z1", "-o", folder, "--collect")
    assert code == 2
    assert err == (
        f"vdla: A hand-off file must have vdla_0 at 0x43c00000, not at 0x43c10000: {hwh}\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("result.txt", "setup_ns 1\nhold_ns 1\n", "result must say version"),
        ("result.txt", "version 2024.1\nsetup_ns\nhold_ns 1\n", "result must say setup_ns"),
        (
            "result.txt",
            "version 2024.1\nsetup_ns inf?\nhold_ns 1\n",
            "must be a number, not 'inf?'",
        ),
        (
            "result.txt",
            "version 2024.1\nsetup_ns 1\nhold_ns inf\n",
            "must be a number, not 'inf'",
        ),
        ("result.txt", "version 2024.1\nsetup_ns 1\nhold_ns 1\n", "is of nothing known"),
        ("result.txt", "\0\xff\n", "result must say version"),
        ("overlay.bit", "", "and overlay.bit is empty: build there with: vivado"),
        ("timing.rpt", "Timing constraints are not met.\n", "and Vivado says that it is not"),
        ("overlay.hwh", "<EDKSYSTEM>", "A hand-off file must be XML"),
        ("overlay.hwh", "<EDKSYSTEM/>", "must have vdla_0 of type vdla:user:vdla:1.0, not of None"),
    ],
)
def test_what_a_build_left_damaged_is_refused(
    vivado: Path, tmp_path: Path, name: str, text: str, said: str
) -> None:
    folder = tmp_path / "a"
    assert vdla("--board", "pynq-z1", "-o", folder)[0] == 0
    before = read(folder)
    (folder / "build" / name).write_text(text, encoding="latin-1")
    code, _, err = vdla("--board", "pynq-z1", "-o", folder, "--collect")
    assert code == 2
    assert said in err
    assert read(folder) == before


@pytest.mark.parametrize("name", ["overlay.bit", "overlay.hwh", "timing.rpt", "result.txt"])
def test_a_folder_is_no_file_of_a_build(vivado: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a"
    assert vdla("--board", "pynq-z1", "-o", folder)[0] == 0
    before = read(folder)
    (folder / "build" / name).unlink()
    (folder / "build" / name).mkdir()
    code, _, err = vdla("--board", "pynq-z1", "-o", folder, "--collect")
    assert code == 2
    assert f"and {name} is missing: build there with: vivado" in err
    assert read(folder) == before


@pytest.mark.parametrize(
    "other",
    [
        ("--board", "pynq-z1", "--clock", "200"),
        ("--board", "pynq-z1", "--config", "TINY"),
        ("--board", "pynq-z2"),
    ],
)
def test_a_build_is_not_collected_as_another(
    vivado: Path, tmp_path: Path, other: tuple[str, ...]
) -> None:
    """Its timing was met for its own clock: at another one the board would compute nonsense."""
    folder = tmp_path / "a"
    assert vdla("--board", "pynq-z1", "-o", folder)[0] == 0
    before = read(folder)
    code, _, err = vdla(*other, "-o", folder, "--collect")
    assert code == 2
    assert "A build must be of what is collected, " in err
    assert f"is of pynq-z1 {PYNQ_Z1.hash:016x} 100: give the --board, --config and --clock" in err
    assert read(folder) == before


def test_another_vivado_is_mentioned(
    vivado: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VERSION", "2025.1.1")
    code, _, err = vdla("--board", "pynq-z1", "-o", tmp_path)
    assert code == 0
    assert err == "the script is written for Vivado 2024.1, and this was built with 2025.1.1\n"
    monkeypatch.setenv("FAKE_VERSION", "2024.1.2")
    assert vdla("--board", "pynq-z1", "-o", tmp_path)[2] == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--board", "zedboard"], "A board's name must be one of pynq-z1, pynq-z2,"),
        (["--board", "pynq-z1", "--clock", "150"], "A PL clock of pynq-z1 must be 1000 MHz,"),
        (["--board", "kv260", "--config", "pynq-z1"], "must have axi_version 4, as its port"),
        (["--board", "pynq-z1", "--script-only", "--collect"], "exclude each other"),
    ],
)
def test_what_cannot_be_built_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    code, out, err = vdla(*arguments, "-o", tmp_path / "a")
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_written_is_named(vivado: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, err = vdla("--board", "pynq-z1", "-o", tmp_path / "file")
    assert code == 2
    assert err.startswith("vdla: An overlay's folder must be one that can be written: ")
