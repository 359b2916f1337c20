"""A Debian for ARM whose Python has numpy alone, with what the base install has of vdla."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import vdla
import vdla.runtime
from tests.arm.userland import AARCH64, ARMV7, USER_ID, Userland, cached_root

__all__ = ["MACHINES", "Machine", "machine_of"]

MACHINES = {"armv7-neon": ARMV7, "aarch64-neon": AARCH64}
"""By the level of code that is compiled for it."""

FOLDER = "/opt/native"


@dataclass(frozen=True)
class Machine:
    """A userland with a folder of ours, in which programs run.

    Attributes
    ----------
    userland : Userland
    level : str
        Of code for it.
    folder : Path
        The folder from this side.
    """

    userland: Userland
    level: str
    folder: Path

    def run(self, program: str) -> str:
        """Run a program of Python in the folder and return what it printed."""
        start = f"import os, sys; os.chdir({FOLDER!r}); sys.path.insert(0, {FOLDER!r})\n"
        return self.userland.run("/usr/bin/python3", "-c", start + program).stdout.strip()


@contextmanager
def machine_of(level: str, root: Path) -> Iterator[Machine]:
    """Make a machine in a new folder; it is removed afterwards."""
    userland = cached_root(MACHINES[level]).copy(root)
    path = root / FOLDER.lstrip("/")
    plain = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(vdla.__file__).parent, path / "vdla", ignore=plain)
    # Beside it in a source tree, inside it in a wheel.
    runtime = Path(vdla.runtime.__file__).parent
    shutil.copytree(runtime, path / "vdla/runtime", ignore=plain, dirs_exist_ok=True)
    for one in (path, *path.rglob("*")):
        shutil.chown(one, USER_ID, USER_ID)
    yield Machine(userland, level, path)
    shutil.rmtree(root)  # pytest would keep it for three sessions
