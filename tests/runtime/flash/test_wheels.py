from __future__ import annotations

import base64
import csv
import hashlib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from vdla.errors import DeviceError
from vdla.runtime.flash import wheels as subject
from vdla.runtime.flash.wheels import wheels_for


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VDLA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    wheel = tmp_path / "vdla-0-py3-none-any.whl"
    monkeypatch.setattr(subject, "_build", lambda checkout: wheel)
    return wheel


@pytest.mark.usefixtures("own")
def test_all_that_the_base_needs_is_there_and_of_pure_python() -> None:
    names = {wheel.name.partition("-")[0] for wheel in wheels_for("3.11.2", "armv7l")}
    assert {"vdla", "typer", "rich", "pygments", "markdown_it_py", "mdurl", "shellingham"} <= names
    assert names & {"numpy", "tomli", "pydantic", "pydantic_core", "colorama"} == set()


@pytest.mark.usefixtures("own")
def test_a_packed_wheel_is_what_was_installed_and_always_the_same() -> None:
    wheel = next(w for w in wheels_for("3.11.2", "armv7l") if w.name.startswith("rich-"))
    before = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    info = f"rich-{metadata.version('rich')}.dist-info"
    for name, digest, size in csv.reader(contents.pop(f"{info}/RECORD").decode().splitlines()):
        if name != f"{info}/RECORD":
            data = contents.pop(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={found}", len(data))
            if not name.endswith("/WHEEL"):
                assert (
                    data == Path(str(metadata.distribution("rich").locate_file(name))).read_bytes()
                )
    assert contents == {}
    wheel.unlink()
    wheels_for("3.11.2", "armv7l")
    assert wheel.read_bytes() == before


@pytest.mark.usefixtures("own")
def test_what_this_python_does_not_have_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    def call(command: list[str], what: str) -> None:
        called.append(command)
        raise DeviceError(what)

    monkeypatch.setattr(subject, "_call", call)
    monkeypatch.setattr(subject, "_goes_to", lambda found, wanted, python: wanted.name != "typer")
    with pytest.raises(DeviceError, match="typer, of pure Python for Python 3.11.2,"):
        wheels_for("3.11.2", "armv7l")
    (command,) = called
    assert "--only-binary=:all:" in command
    assert "--python-version=311" in command
    assert command[-1].startswith("typer")


def test_a_failure_is_one_line() -> None:
    with pytest.raises(
        DeviceError, match="wheel of x from this computer, .* here: no: the command"
    ):
        subject._call(["sh", "-c", "echo yes; echo no >&2; exit 1"], "x")
