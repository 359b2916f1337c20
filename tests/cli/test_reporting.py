"""``vdla report`` and ``vdla compare`` on what is really compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.networks import residual
from vdla.config import TINY
from vdla.errors import LoweringError
from vdla.runtime.api import compile

FAST = TINY.replace(axi_data_bits=128, name="fast")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled")
    compile(residual(), config=TINY).save(path / "two.vdla")
    compile(residual(), config=TINY, vthreads=1).save(path / "one.vdla")
    (path / "fast.toml").write_text(FAST.to_toml())
    return path


def test_a_report_of_a_compiled_file(vdla_command: Any, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'vdla[host]'")
    page = tmp_path / "new" / "a.html"
    outcome = vdla_command("report", folder / "two.vdla", "-o", page, "--json")
    assert outcome.code == 0, outcome.err
    said = json.loads(outcome.out)
    assert (said["file"], said["bytes"]) == (str(page), page.stat().st_size)
    assert (said["network"], said["config"]) == ("residual", "tiny")
    assert f"<b>{said['cycles']:,}</b>" in page.read_text("utf-8")
    assert said["cycles_without_latency_hiding"] is None
    assert said["changes"][0]["saved"] == max(one["saved"] for one in said["changes"])
    assert set(said["bound_by"]) == {"stem", "body", "down", "pool", "dense"}


def test_a_report_goes_into_an_html_file(vdla_command: Any) -> None:
    outcome = vdla_command("report", "digits", "-o", "a.pdf")
    assert outcome.code == 2
    assert "-o needs a file that ends in .html, not a.pdf" in outcome.err


def test_two_programs_layer_by_layer(vdla_command: Any, folder: Path) -> None:
    files = [folder / "one.vdla", folder / "two.vdla"]
    said = json.loads(vdla_command("compare", *files, "--json").out)
    cycles = [json.loads(vdla_command("run", file, "--json").out)["cycles"] for file in files]
    assert [said["a"]["cycles"], said["b"]["cycles"]] == cycles
    assert said["ratio"] == cycles[1] / cycles[0] < 1
    for side, total in zip("ab", cycles, strict=True):
        assert sum(layer[f"cycles_{side}"] for layer in said["layers"]) == total
    lines = vdla_command("compare", *files).out.splitlines()
    assert lines[0] == "A: one.vdla (tiny)"
    assert lines[3].split()[:3] == ["layer", "cycles", "A"]
    assert lines[-3].split()[:3] == ["all", f"{cycles[0]:,}", f"{cycles[1]:,}"]
    assert lines[-1].endswith(f"{cycles[1] / cycles[0]:.3f} times as long")


def test_two_configurations_of_a_network(vdla_command: Any, folder: Path) -> None:
    fast = folder / "fast.toml"
    outcome = vdla_command("compare", "TINY", fast, "--model", "digits", "--json")
    assert outcome.code == 0, outcome.err
    said = json.loads(outcome.out)
    assert (said["a"]["config"], said["b"]["config"]) == ("tiny", "fast")
    assert said["b"]["cycles"] < said["a"]["cycles"]
    assert all(layer["cycles_b"] for layer in said["layers"])


def test_a_saved_result_with_a_program(vdla_command: Any, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text(vdla_command("run", folder / "two.vdla", "--json").out)
    said = json.loads(vdla_command("compare", saved, folder / "two.vdla", "--json").out)
    assert said["ratio"] == 1
    assert said["a"]["bytes"] == said["b"]["bytes"]


def test_a_configuration_needs_its_network(vdla_command: Any) -> None:
    outcome = vdla_command("compare", "TINY", "PYNQ_Z1")
    assert outcome.code == 2
    assert "not TINY alone: name the network with --model." in outcome.err


def test_a_saved_result_without_cycles_is_refused(vdla_command: Any, folder: Path) -> None:
    path = folder / "functional.json"
    said = vdla_command("run", folder / "two.vdla", "--device", "functional", "--json").out
    path.write_text(said)
    outcome = vdla_command("compare", path, path)
    assert outcome.code == 2
    assert "must be what vdla simulate MODEL --json printed, with cycles" in outcome.err


def test_a_network_that_one_thread_cannot_hold_is_reported_without_it(
    vdla_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'vdla[host]'")
    network = compile(residual(), config=TINY)

    def compiled(model: str, *, vthreads: int, **options: Any) -> Any:
        if vthreads == 1:
            raise LoweringError("The wgt buffer holds 4 entries.")
        return network

    monkeypatch.setattr("vdla.runtime.api.compile", compiled)
    monkeypatch.setattr("vdla.runtime.report.render", lambda report: "a page")
    outcome = vdla_command("report", "digits", "-o", tmp_path / "a.html", "--json")
    assert outcome.code == 0
    assert "no figures of one virtual thread, which needs larger buffers: The wgt" in outcome.err
    assert json.loads(outcome.out)["cycles_without_latency_hiding"] is None
