"""Networks on the processor by the command: compiled, run, checked, for a board and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler.targets.cpu import LEVELS, host_target
from vdla.compiler.zoo import digits_held_out
from vdla.module import load
from vdla.processor import architecture


@pytest.fixture(scope="module")
def other() -> str:
    """A level of another architecture than this machine's."""
    return next(one.level for one in LEVELS.values() if one.architecture != architecture())


def test_a_model_runs_as_machine_code(vdla_command: Any, tmp_path: Path) -> None:
    images, labels = digits_held_out()
    np.save(tmp_path / "images.npy", images[:20])
    arguments = ("--target", "cpu", "--input", tmp_path / "images.npy")
    outcome = vdla_command("run", "digits", *arguments, "--check", "--json")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert report["bit_exact"] is True
    assert {layer["device"] for layer in report["layers"]} == {"cpu"}
    right = [c[0]["class"] == label for c, label in zip(report["classes"], labels, strict=False)]
    assert sum(right) >= 18
    shown = vdla_command("run", "digits", *arguments, "--threads", "2", "--pin")
    assert " ms on the processor\n" in shown.out
    assert "cycles on" not in shown.out
    assert shown.err == ""


def test_a_compiled_file_runs_on_the_processor(vdla_command: Any, tmp_path: Path) -> None:
    file = tmp_path / "net.vdla"
    outcome = vdla_command("compile", "digits", "--target", "cpu", "-o", file)
    assert f" bytes for {host_target().level}, in " in outcome.out
    np.save(tmp_path / "image.npy", digits_held_out()[0][:3])
    ran = vdla_command("run", file, "--images", tmp_path, "--threads", "1")
    assert ran.code == 0
    assert "frames a second on the processor" in ran.out
    assert "accelerator" not in ran.out
    refused = vdla_command("run", file, "--threads", "0")
    assert refused.code == 2


def test_code_for_a_board_beside_the_accelerator(
    vdla_command: Any, tmp_path: Path, other: str
) -> None:
    file = tmp_path / "net.vdla"
    placed = ("--place", "dense=cpu", "--cpu", other, "-o", file)
    assert f" bytes for pynq-z1 and {other}, in " in vdla_command("compile", "digits", *placed).out
    native = load(file).native
    assert native is not None
    assert native.level == other
    outcome = vdla_command("run", file, "--device", "functional", "--check", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["bit_exact"] is True
    (line,) = (line for line in outcome.err.splitlines() if "numpy" in line)
    assert line.startswith(f"digits has code for the processor at level {other}, and its layers ")


def test_a_level_that_there_is_not(vdla_command: Any, tmp_path: Path) -> None:
    outcome = vdla_command("compile", "digits", "--cpu", "z80", "-o", tmp_path / "net.vdla")
    assert outcome.code == 2
    assert "vdla: A CPU target must be one of " in outcome.err
    assert "not 'z80'" in outcome.err
