from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vdla.errors import ConfigError
from vdla.runtime.cli import doctor as doctor_module


def raise_from_doctor(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(doctor_module, "requirements", fail)


def test_a_user_error_is_one_line_on_stderr(
    vdla_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_from_doctor(monkeypatch, ConfigError("block_in must be 16,\n  not 17 [in a.toml]"))
    outcome = vdla_command("doctor")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "vdla: block_in must be 16, not 17 [in a.toml]\n"


def test_the_traceback_can_be_had(vdla_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_from_doctor(monkeypatch, ConfigError("block_in must be 16, not 17"))
    monkeypatch.setenv("VDLA_TRACEBACK", "1")
    with pytest.raises(ConfigError):
        vdla_command("doctor")


def test_a_defect_keeps_its_traceback(vdla_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_from_doctor(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        vdla_command("doctor")


def test_a_missing_package_is_named_with_its_command(
    vdla_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_from_doctor(monkeypatch, ModuleNotFoundError("No module named 'PIL'", name="PIL"))
    outcome = vdla_command("doctor")
    assert outcome.code == 2
    assert outcome.err.startswith("vdla: this command needs pillow, which is not installed; ")
    assert outcome.err.endswith("-m pip install 'pillow>=10'\n")


def test_a_stranger_that_is_missing_is_a_defect(
    vdla_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_from_doctor(monkeypatch, ModuleNotFoundError("No module named 'x'", name="vdla.x"))
    with pytest.raises(ModuleNotFoundError):
        vdla_command("doctor")


def test_an_interrupt_leaves_with_130(vdla_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_from_doctor(monkeypatch, KeyboardInterrupt())
    outcome = vdla_command("doctor")
    assert (outcome.code, outcome.out) == (130, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["simulate", "resnet18", "--config", "pynq-z9"],
            "vdla: A configuration name must be one of pynq-z1, pynq-z2, paper, ultra96, zcu104, "
            "kv260, aup-zu3, tiny, not 'pynq-z9'.\n",
        ),
        (
            ["simulate", "resnet18", "--config", "absent.toml"],
            "vdla: A configuration file must be readable text: absent.toml: [Errno 2] No such "
            "file or directory: 'absent.toml'\n",
        ),
    ],
)
def test_a_bad_configuration_is_refused(
    vdla_command: Any, arguments: list[str], message: str
) -> None:
    outcome = vdla_command(*arguments)
    assert (outcome.code, outcome.err) == (2, message)


def test_two_sources_of_input_exclude_each_other(vdla_command: Any) -> None:
    outcome = vdla_command("simulate", "resnet18", "--image", "a.png", "--input", "a.npy")
    assert outcome.code == 2
    assert "--image and --input exclude each other" in outcome.err


def test_the_installed_command_reports_on_stderr() -> None:
    command = [sys.executable, "-c", "from vdla.runtime.cli import main; main()"]
    result = subprocess.run(
        [*command, "simulate", "resnet18", "--config", "nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("vdla: A configuration name must be one of")


def test_a_file_that_cannot_be_written_is_refused(vdla_command: Any, tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text("finish\n")
    (tmp_path / "file").touch()
    outcome = vdla_command("asm", str(tmp_path / "a.s"), "-o", str(tmp_path / "file" / "a.bin"))
    assert outcome.code == 2
    assert outcome.err.startswith("vdla: A file to write must be in a folder that can be written: ")
    assert outcome.err.endswith("; name another one\n")


def test_the_configuration_of_vta_is_taken(vdla_command: Any, tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text("finish\n")
    (tmp_path / "vta_config.json").write_text('{"LOG_BLOCK": 4}')
    outcome = vdla_command(
        *("asm", str(tmp_path / "a.s"), "-o", str(tmp_path / "a.bin")),
        *("--config", str(tmp_path / "vta_config.json")),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith("a.bin: 1 instructions for vta_config\n")
