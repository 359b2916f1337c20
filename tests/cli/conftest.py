"""Running the command in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vdla.runtime.cli.app import app

Invoke = Callable[..., "Outcome"]


class Outcome:
    """Exit code and the two streams of one command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


@pytest.fixture
def vdla_command() -> Invoke:
    """Return a function that runs ``vdla`` with its arguments."""

    def invoke(*arguments: str | Path) -> Outcome:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return invoke
