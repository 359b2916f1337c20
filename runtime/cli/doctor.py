"""``vdla doctor``: what is installed, what is missing, and the command that installs it."""

from __future__ import annotations

import os
import platform
from typing import Any

import typer

import vdla
from vdla.errors import DeviceError
from vdla.processor import available_cores, available_cpus
from vdla.runtime.cli.options import JsonOption
from vdla.runtime.cli.output import emit_json, show_table
from vdla.runtime.cli.requirements import Requirement, install_command, requirements

__all__ = ["cores_here", "doctor", "processor_level"]

# What each extra is for; the packages in it are pyproject.toml's to say.
PURPOSES = {
    "": "the base: module files, the functional model, this command",
    "host": "compile networks, simulate to the cycle, tables of results",
    "cross": "compile for processors of another architecture, such as a board's",
    "cuda": "run kernels on a GPU of NVIDIA's",
    "flash": "install vdla, overlays and networks on boards, and run networks there",
    "hw": "make the gateware, simulate it, synthesize it, place and route it",
    "board": "run programs on a board under PYNQ, whose image has it; with numpy before 2",
    "notebooks": "run the notebooks",
    "opencl": "run kernels through OpenCL, on a GPU or without one",
    "sweep": "try many machines: grids, samples, studies, on several computers",
    "tune": "search for faster schedules with a cost model that learns",
    "verify": "test the gateware unit by unit, prove properties of it",
    "lint": "check the source: format, lint, types, spelling",
    "dev": "change vdla: its tests",
}
BROKEN = 1


def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed, what is missing, and the command that installs it.

    Leaves with exit code 1 where the base install itself is incomplete.
    """
    found = requirements()
    by_extra: dict[str, list[Requirement]] = {}
    for one in found:
        by_extra.setdefault(one.extra, []).append(one)
    missing = {
        extra: [one for one in members if not one.satisfied] for extra, members in by_extra.items()
    }
    if as_json:
        emit_json(_report(found, missing))
    else:
        _print(by_extra, missing)
    if missing.get(""):
        raise typer.Exit(BROKEN)


def processor_level() -> tuple[str | None, str]:
    """Return the level that machine code is made for on this processor, or why for none."""
    from vdla.compiler.targets.cpu import host_target

    try:
        return host_target().level, ""
    except DeviceError as error:
        return None, str(error)


def cores_here() -> str:
    """Return how many cores and CPUs there are, in words."""
    cores, cpus = available_cores(), len(available_cpus())
    return f"{cores} core{'s'[: cores != 1]}, {cpus} CPU{'s'[: cpus != 1]}"


def _label(extra: str) -> str:
    return extra or "base"


def _report(found: list[Requirement], missing: dict[str, list[Requirement]]) -> dict[str, Any]:
    level, why = processor_level()
    return {
        "vdla": vdla.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {"level": level, "why": why, "cores": available_cores()},
        "packages": [
            {
                "name": one.name,
                "extra": _label(one.extra),
                "wanted": one.wanted,
                "installed": one.installed,
                "satisfied": one.satisfied,
            }
            for one in found
        ],
        "complete": {_label(extra): not members for extra, members in missing.items()},
        "install": {
            _label(extra): install_command(members) for extra, members in missing.items() if members
        },
    }


def _print(by_extra: dict[str, list[Requirement]], missing: dict[str, list[Requirement]]) -> None:
    typer.echo(
        f"vdla {vdla.__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    level, why = processor_level()
    forced = " (as VDLA_CPU says)" if os.environ.get("VDLA_CPU") else ""
    typer.echo(f"processor: {level or why}{forced if level else ''}, {cores_here()}")
    for extra, members in by_extra.items():
        typer.echo(f"\n{_label(extra)}: {PURPOSES.get(extra, 'an extra')}")
        rows = [(one.name, one.wanted, one.installed or "-", _verdict(one)) for one in members]
        show_table(("package", "wanted", "installed", ""), rows, text_columns=4)
        if missing[extra]:
            typer.echo(f"to complete it: {install_command(missing[extra])}")
    if not any(missing.values()):
        typer.echo("\nNothing is missing.")


def _verdict(one: Requirement) -> str:
    if one.satisfied:
        return "ok"
    return "missing" if one.installed is None else "too old"
