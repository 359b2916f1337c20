"""A flash with an overlay, on a stand-in for a PYNQ image: what is sent, asked and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import vdla
from tests.runtime.flash.conftest import Image, write_overlay
from vdla.runtime.flash import install


@pytest.fixture(autouse=True)
def two_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give two small wheels in place of real ones."""
    wheels = [tmp_path / f"{name}-1-py3-none-any.whl" for name in ("vdla", "rich")]
    for wheel in wheels:
        shutil.make_archive(str(wheel), "zip", tmp_path / "home")
        Path(f"{wheel}.zip").rename(wheel)
    monkeypatch.setattr(install, "wheels_for", lambda python, machine: wheels)


@pytest.fixture
def flash(image: Image, vdla_command: Any) -> Any:
    def run(*arguments: str) -> Any:
        return vdla_command("flash", "--local", "--python", str(image.python), *arguments)

    return run


@pytest.fixture
def network(tmp_path: Path) -> Path:
    vdla.compile("digits").save(tmp_path / "digits.vdla")
    return tmp_path / "digits.vdla"


def test_an_overlay_is_copied_and_tested(
    flash: Any, image: Image, overlay: Path, network: Path, home: Path
) -> None:
    folder = home / ".local/share/vdla"
    outcome = flash(str(network), "--overlay", str(overlay), "--json")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert report["sent"] == [
        "wheels/vdla-1-py3-none-any.whl",
        "wheels/rich-1-py3-none-any.whl",
        "overlays/pynq-z1/vdla.bit",
        "overlays/pynq-z1/vdla.hwh",
        "overlays/pynq-z1/manifest.json",  # the last: an overlay is whole where it is there
        "networks/digits.vdla",
    ]
    assert report["selftest"]["overlay"] == f"{folder}/overlays/pynq-z1"
    assert report["selftest"]["argv"] == (
        f"selftest --device pynq --json --config {folder}/tested.toml {folder}/networks/digits.vdla"
    ).split(" ")
    assert vdla.Config.from_toml(folder / "tested.toml") == vdla.PYNQ_Z1

    others, own = image.pip_calls
    options = f"--no-index --find-links {folder}/wheels --only-binary :all: --no-compile"
    assert f"install {options} rich>=13 " in others
    assert "numpy" not in others
    assert own.endswith(
        f"{options} --no-deps --force-reinstall {folder}/wheels/vdla-1-py3-none-any.whl"
    )


def test_what_is_there_is_not_sent_again(flash: Any, image: Image, overlay: Path) -> None:
    assert flash("--overlay", str(overlay)).code == 0
    image.distribution("vdla", vdla.__version__)  # as pip leaves it
    outcome = flash("--overlay", str(overlay))
    assert outcome.code == 0
    assert "0 files copied into " in outcome.out
    assert "5 were there" in outcome.out
    assert f"vdla {vdla.__version__} was installed" in outcome.out
    assert "overlay for pynq-z1\nthe self-test passed\n" in outcome.out
    assert len(image.pip_calls) == 2


def test_an_installation_that_failed_is_done_again(flash: Any, image: Image, overlay: Path) -> None:
    (image.site / "pip/fail").touch()
    outcome = flash("--overlay", str(overlay))
    assert outcome.code == 2
    assert "pip must install vdla on this machine, and it fails: ERROR: no such luck" in outcome.err
    (image.site / "pip/fail").unlink()
    assert "installed\n" in flash("--overlay", str(overlay)).out
    assert len(image.pip_calls) == 3


def test_a_self_test_that_fails_says_what_is_different(
    flash: Any, image: Image, overlay: Path
) -> None:
    (image.site / "vdla/runtime/cli/fail").touch()
    outcome = flash("--overlay", str(overlay))
    assert outcome.code == 2
    assert (
        "The self-test must pass on this machine, and it fails: 1 of 2 checks: gemm, one: 1 not 2: "
        "all is installed there; see more with: vdla selftest --device pynq" in outcome.err
    )


def test_overlays_must_be_for_the_board(flash: Any, tmp_path: Path, image: Image) -> None:
    other = write_overlay(tmp_path / "other", "zcu104", vdla.ZCU104)
    assert "An overlay must be for the board, pynq-z1, and the one in" in (
        flash("--overlay", str(other)).err
    )
    assert "must be what --board says, zcu104, and it says that it is pynq-z1" in (
        flash("--overlay", str(other), "--board", "zcu104").err
    )
    assert "An overlay for pynq-z1 must be in one of" in flash().err
    custom = write_overlay(tmp_path / "custom", config=vdla.PYNQ_Z1.replace(inp_bytes=16384))
    assert "is tested with a network that was compiled for it: name one" in (
        flash("--overlay", str(custom)).err
    )
    assert image.pip_calls == []


def test_what_names_nothing_is_refused_before_anything_is_installed(
    flash: Any, tmp_path: Path, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "A board's name must be one of" in flash("--board", "foo").err
    assert "A self-test must run on one of" in flash("--selftest-device", "foo").err
    monkeypatch.delenv("BOARD")  # else it is for another board than this
    damaged = write_overlay(tmp_path / "damaged", "foo")
    assert "A board's name must be one of" in flash("--overlay", str(damaged)).err
    assert image.pip_calls == []


def test_a_board_that_does_not_say_what_it_is(flash: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOARD")
    assert "A board or an overlay must be named where the board does not say what it is" in (
        flash().err
    )


def test_pynq_must_be_of_the_boards_version(flash: Any, image: Image, overlay: Path) -> None:
    (image.site / "pynq-3.1.1.dist-info").rename(image.site / "pynq-2.7.0.dist-info")
    metadata = image.site / "pynq-2.7.0.dist-info/METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: pynq\nVersion: 2.7.0\n", encoding="utf-8")
    assert "pynq-z1 must have pynq==3.1.*, and this machine has pynq 2.7.0: flash its SD card" in (
        flash("--overlay", str(overlay)).err
    )


def test_one_of_host_and_local(vdla_command: Any) -> None:
    assert "give one of --host and --local" in vdla_command("flash").err
    assert "give one of --host and --local" in vdla_command("flash", "--local", "--host", "a").err
