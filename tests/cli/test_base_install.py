"""What a board has is enough for what a board does: no package beside those of the base install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vdla

# Of the base, and what those need in turn.
BASE = {
    "annotated_doc",
    "markdown_it",
    "mdurl",
    "numpy",
    "pygments",
    "rich",
    "shellingham",
    "tomli",
    "typer",
    "vdla",
}
COMMAND = f"""\
import sys

class BaseAlone:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in {BASE} | sys.stdlib_module_names or top.startswith("_"):
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [BaseAlone(finder) for finder in sys.meta_path]
from vdla.runtime.cli import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor"],
        ["devices"],
        ["run", "NET", "--device", "functional"],
        ["run", "NET", "--device", "functional", "--json"],
        ["run", "CODE", "--threads", "2", "--json"],
        ["selftest", "NET", "--device", "functional"],
    ],
    ids=" ".join,
)
def test_the_base_install_is_enough(arguments: list[str], tmp_path: Path) -> None:
    if "NET" in arguments:
        vdla.compile("digits").save(tmp_path / "NET")
    if "CODE" in arguments:
        vdla.compile("digits", target="cpu").save(tmp_path / "CODE")
    result = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "run in numpy" not in result.stderr


def test_what_is_not_of_the_base_is_not_found_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMMAND, "compile", "digits", "--no-cache", "-o", "NET"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert "this command needs tflite, which is not installed" in result.stderr
