from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from typing import Any

import pytest

import vdla
from vdla.compiler.targets.cpu import LEVELS, host_target, supports
from vdla.processor import available_cores
from vdla.runtime.cli import requirements as subject
from vdla.runtime.cli.requirements import Requirement, install_command, providing, requirements

# Forms that building tools have written into metadata over the years.
LISTED = [
    "numpy>=1.23",
    "rich >=13",
    "tomli>=2.0; python_version < '3.11'",
    'numba>=0.59; extra == "host"',
    "tflite (>=2.10) ; extra == 'host'",
    'mypy==2.4.*; extra == "lint"',
    'vdla[host,lint]; extra == "dev"',
]
VERSIONS = {"numpy": "1.26.4", "rich": "12.6", "numba": "0.59.0rc1", "mypy": "2.4.1", "tomli": "2"}


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name not in VERSIONS:
            raise metadata.PackageNotFoundError(name)
        return VERSIONS[name]

    monkeypatch.setattr(subject.metadata, "requires", lambda name: LISTED)
    monkeypatch.setattr(subject.metadata, "version", version)


@pytest.mark.usefixtures("pretend")
def test_requirements_are_read_from_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
    found = {one.name: one for one in requirements()}
    assert list(found) == ["numpy", "rich", "numba", "tflite", "mypy"]
    assert found["numpy"] == Requirement(
        name="numpy", extra="", wanted=">=1.23", installed="1.26.4"
    )
    assert found["tflite"] == Requirement(
        name="tflite", extra="host", wanted=">=2.10", installed=None
    )
    satisfied = {name: one.satisfied for name, one in found.items()}
    assert satisfied == {"numpy": True, "rich": False, "numba": True, "tflite": False, "mypy": True}


@pytest.mark.usefixtures("pretend")
def test_a_package_of_an_older_python_counts_there_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    assert "tomli" in {one.name for one in requirements()}


@pytest.mark.parametrize(
    ("wanted", "installed", "satisfied"),
    [
        (">=1.9", "1.10.0", True),
        (">=1.10", "1.9", False),
        (">=2", "2.0.0", True),
        (">=2.0.0", "2", True),
        ("==2.4.*", "2.4.9", True),
        ("==2.4.*", "2.5.0", False),
        ("==2.4.*", "2.41", False),
        ("", "0.1", True),
        ("<0.29,>=0.12", "0.28.3", True),
        ("<0.29,>=0.12", "0.29.0", False),
        ("<0.29,>=0.12", "0.9", False),
    ],
)
def test_versions_are_compared_by_their_numbers(
    wanted: str, installed: str, satisfied: bool
) -> None:
    one = Requirement(name="x", extra="", wanted=wanted, installed=installed)
    assert one.satisfied is satisfied


def test_the_install_command_can_be_pasted() -> None:
    missing = [Requirement(name="numba", extra="host", wanted=">=0.59", installed=None)]
    line = install_command(missing)
    assert shlex.split(line) == [sys.executable, "-m", "pip", "install", "numba>=0.59"]
    assert "'numba>=0.59'" in line  # a bare > would redirect


@pytest.mark.usefixtures("pretend")
def test_a_module_leads_to_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject.metadata, "requires", lambda name: [*LISTED, "pillow>=10"])
    for module, package in [("PIL.Image", "pillow"), ("numba.core", "numba"), ("nothing", None)]:
        found = providing(module)
        assert (found.name if found else None) == package


def test_doctor_reports_this_installation(vdla_command: Any) -> None:
    outcome = vdla_command("doctor", "--json")
    report = json.loads(outcome.out)
    assert outcome.code == 0
    assert report["vdla"] == vdla.__version__
    assert report["complete"]["base"] is True
    numpy = next(one for one in report["packages"] if one["name"] == "numpy")
    assert numpy["installed"] == metadata.version("numpy")
    assert numpy["extra"] == "base"


def test_doctor_names_the_processor(vdla_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VDLA_CPU", raising=False)
    cores = available_cores()
    assert f"processor: {host_target().level}, {cores} core" in vdla_command("doctor").out
    lowest = [one.level for one in LEVELS.values() if supports(one)][-1]
    monkeypatch.setenv("VDLA_CPU", lowest)
    assert f"processor: {lowest} (as VDLA_CPU says), {cores}" in vdla_command("doctor").out
    report = json.loads(vdla_command("doctor", "--json").out)
    assert report["cpu"] == {"level": lowest, "why": "", "cores": cores}
    monkeypatch.setenv("VDLA_CPU", "z80")
    assert "processor: VDLA_CPU must be one of " in vdla_command("doctor").out


@pytest.mark.usefixtures("pretend")
def test_doctor_names_the_command_and_fails_where_the_base_is_short(vdla_command: Any) -> None:
    outcome = vdla_command("doctor")
    assert outcome.code == 1
    assert "too old" in outcome.out
    assert "-m pip install 'rich>=13'\n" in outcome.out
    assert "-m pip install 'tflite>=2.10'\n" in outcome.out
