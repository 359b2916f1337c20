"""Signals of the gateware in a file: what is refused at once, and what a run writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla.runtime
from tests.networks import residual
from vdla.config import TINY
from vdla.errors import InputError
from vdla.runtime.api import compile
from vdla.runtime.network import Network
from vdla.runtime.waves import Waves, read_window


@pytest.fixture(autouse=True)
def nothing_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused is refused before a network is compiled."""
    if "rtl" not in request.keywords:
        monkeypatch.setattr(vdla.runtime, "api", None, raising=False)


REFUSED = {
    "--vcd a.vcd": "--vcd needs --device rtl: cycle has no signals",
    "--fst a.fst --device functional": "--fst needs --device rtl: functional has no signals",
    "--vcd a.vcd --fst a.fst --device rtl": "--vcd and --fst exclude each other",
    "--window 0:10 --device rtl": (
        "--window needs --vcd, --fst or --trace, whose cycles it chooses"
    ),
    "--vcd a.fst --device rtl": "--vcd needs a file that ends in .vcd, not a.fst",
    "--fst waves --device rtl": "--fst needs a file that ends in .fst, not waves",
    "--vcd a.vcd --device rtl --window 10": (
        "A window must be START:STOP with 0 <= START < STOP, in cycles, not '10': write, for "
        "example, 1000:2000."
    ),
    "--vcd a.vcd --device rtl --window 5:x": (
        "A window must be START:STOP with 0 <= START < STOP, in cycles, not '5:x': write, for "
        "example, 1000:2000."
    ),
    "--vcd a.vcd --device rtl --window=-5:9": (
        "A window must be START:STOP with 0 <= START < STOP, in cycles, not '-5:9': write, for "
        "example, 1000:2000."
    ),
    "--vcd a.vcd --device rtl --window 10:10": (
        "A window must be START:STOP with 0 <= START < STOP, in cycles, not 10:10."
    ),
    "--vcd no/such/folder/a.vcd --device rtl": (
        "A file of waves must be in a folder that can be written: no/such/folder/a.vcd: No such "
        "file or directory; name another one."
    ),
}


@pytest.mark.parametrize("command", ["simulate", "run"])
@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_be_is_refused_at_once(
    vdla_command: Any,
    command: str,
    options: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = vdla_command(command, "a.tflite", *options.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert REFUSED[options] in " ".join(outcome.err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_folder_is_no_file_of_waves(vdla_command: Any, tmp_path: Path) -> None:
    (tmp_path / "a.vcd").mkdir()
    path = str(tmp_path / "a.vcd")
    outcome = vdla_command("simulate", "a.tflite", "--device", "rtl", "--vcd", path)
    assert outcome.code == 2
    assert "a.vcd: Is a directory; name another one." in outcome.err


def test_a_name_without_a_format_is_refused() -> None:
    with pytest.raises(InputError, match=r"must end in \.vcd or \.fst, not be a\.txt"):
        Waves(Path("a.txt"))


def test_what_is_there_stays_until_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.vcd"
    path.write_text("older")
    assert Waves(path, *read_window("7:9")) == Waves(path, 7, 9)
    assert path.read_text() == "older"


def test_another_device_has_no_signals(tmp_path: Path) -> None:
    network = compile(residual(), config=TINY)
    image = np.zeros(network.input_shape, network.input_dtype)
    with pytest.raises(InputError, match="the device must be rtl, not 'cycle'"):
        network.run(image, waves=Waves(tmp_path / "a.vcd"))


@pytest.fixture(scope="module")
def network() -> Network:
    return compile(residual(), config=TINY)


BEGIN, END = 300, 900


@pytest.mark.rtl
@pytest.mark.parametrize("option", ["vcd", pytest.param("fst", marks=pytest.mark.slow)])
def test_a_window_of_a_network(
    vdla_command: Any, network: Network, option: str, tmp_path: Path
) -> None:
    pywellen = pytest.importorskip(
        "pywellen", reason="needs a reader of waves; install it with: pip install 'vdla[verify]'"
    )
    network.save(tmp_path / "a.vdla")
    path = tmp_path / f"a.{option}"
    arguments = ["--device", "rtl", f"--{option}", str(path), "--window", f"{BEGIN}:{END}"]
    outcome = vdla_command("run", str(tmp_path / "a.vdla"), *arguments)
    assert outcome.code == 0, outcome.err
    assert "is empty" not in outcome.err
    signals = {v.full_name: list(v.signal) for v in pywellen.Waveform(str(path)).all_vars()}
    # The clock of cycle n falls at 2n and rises at 2n + 1, from the first cycle to the last.
    assert signals["TOP.clk"] == [(time, time % 2) for time in range(2 * BEGIN, 2 * END)]
    # The counter counts them: what it reads in cycle n is n.
    assert signals["TOP.top.control.cycles_value"] == [
        (2 * BEGIN, BEGIN),
        *((2 * n - 1, n) for n in range(BEGIN + 1, END + 1)),
    ]
    assert {"TOP.m_axi_araddr", "TOP.s_axi_rdata"} <= signals.keys()
    assert any(name.startswith("TOP.top.core.machine.compute.") for name in signals)
    _holds_finishes(network, signals["TOP.trace_finish"])

    arguments[-1] = "1000000:1000001"
    outcome = vdla_command("run", str(tmp_path / "a.vdla"), *arguments)
    assert f"{os.fspath(path)} holds no cycle: the run took" in outcome.err


def _holds_finishes(network: Network, signal: list[tuple[int, int]]) -> None:
    """The cycle model names the cycles in which a bit of the signal is high."""
    from vdla.runtime.streams import modules_of
    from vdla.sim import cycle

    (program,) = network.programs
    timing = cycle.time(program, np.zeros(network.module.arena_bytes, np.uint8))
    want = dict.fromkeys(range(BEGIN, END), 0)
    for module, finish in zip(modules_of(program), timing.finish.tolist(), strict=False):
        if finish in want:
            want[finish] |= 1 << int(module)
    changes = dict(signal)
    value, found = 0, {}
    for time in range(2 * BEGIN, 2 * END):
        value = changes.get(time, value)
        if time % 2 == 0:
            found[time // 2] = value
    assert sum(map(bool, want.values())) > 2
    assert found == want
