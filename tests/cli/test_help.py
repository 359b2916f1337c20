from __future__ import annotations

from typing import Any

import pytest
import typer.main

import vdla
from vdla.runtime.cli.app import app


def leaves(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not hasattr(command, "commands"):
        return {path: command}
    found = {}
    for name, below in command.commands.items():
        found.update(leaves(below, (*path, name)))
    return found


COMMANDS = leaves(typer.main.get_command(app))


def test_version(vdla_command: Any) -> None:
    assert vdla_command("--version").out == f"vdla {vdla.__version__}\n"


def test_help_lists_every_command(vdla_command: Any) -> None:
    text = vdla_command("--help").out
    assert [path[0] for path in COMMANDS if f"\n  {path[0]} " not in text] == []


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_json(vdla_command: Any, path: tuple[str, ...]) -> None:
    outcome = vdla_command(*path, "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out
    undocumented = [
        parameter.name
        for parameter in COMMANDS[path].params
        if not getattr(parameter, "help", None)
    ]
    assert undocumented == []
