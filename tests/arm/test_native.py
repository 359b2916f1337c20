"""Libraries compiled for ARM, loaded and run by a board's own Python, which has numpy alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import vdla
import vdla.runtime
from tests.arm.userland import AARCH64, ARMV7, USER_ID, Userland, cached_root
from tests.compiler.targets.cpu import arithmetic_check
from tests.compiler.targets.cpu.arithmetic import arithmetic_library
from tests.compiler.targets.cpu.handmade import library

pytestmark = pytest.mark.slow

POOL = """\
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from vdla.processor import architecture
from vdla.runtime.native import Library

assert architecture() == {architecture!r}, architecture()
for threads in (1, 2, 3):
    with Library({folder!r} + "/pool.so", threads=threads) as library:
        for name in library.info.functions:
            function = library.function(name)
            if name.startswith("meeting") and threads < int(name.split("_")[1]):
                continue  # it would wait for ever
            counts = np.zeros(function.arguments[0].shape, np.int32)
            for _ in range(3):
                counts[...] = 0
                function(counts)
            kind, number, *loops = name.split("_")
            wanted = {{"network": loops, "meeting": [number]}}.get(kind) or [1]
            wanted = int(wanted[0])
            assert (counts == wanted).all(), (threads, name, counts)
assert not [name for name in sys.modules if name.startswith("llvmlite")]
print("done")
"""


ARITHMETIC = """\
import sys
sys.path.insert(0, {folder!r})
from arithmetic_check import check
from vdla.runtime.native import Library

with Library({folder!r} + "/arithmetic.so") as library:
    print(check(library))
"""


@dataclass(frozen=True)
class Machine:
    """A userland with a folder that has what the base install has of vdla."""

    userland: Userland
    level: str
    folder: Path

    def run(self, program: str) -> str:
        architecture = self.level.partition("-")[0]
        code = program.format(folder="/opt/native", architecture=architecture)
        return self.userland.run("/usr/bin/python3", "-c", code).stdout.strip()


LEVELS = {
    "armv7-neon": ARMV7,
    "aarch64-neon": AARCH64,
}


@pytest.fixture(scope="module", params=LEVELS)
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("machine") / "root"
    userland = cached_root(LEVELS[request.param]).copy(root)
    path = root / "opt/native"
    plain = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(vdla.__file__).parent, path / "vdla", ignore=plain)
    runtime = Path(vdla.runtime.__file__).parent
    shutil.copytree(runtime, path / "vdla/runtime", ignore=plain, dirs_exist_ok=True)
    shutil.copy(arithmetic_check.__file__, path)
    for one in (path, *path.rglob("*")):
        shutil.chown(one, USER_ID, USER_ID)
    yield Machine(userland, request.param, path)
    shutil.rmtree(root)  # pytest would keep it for three sessions


def test_loops_run_on_threads(machine: Machine) -> None:
    (machine.folder / "pool.so").write_bytes(library(machine.level))
    assert machine.run(POOL) == "done"


def test_arithmetic_without_instructions_is_numpys(machine: Machine) -> None:
    (machine.folder / "arithmetic.so").write_bytes(arithmetic_library(machine.level))
    assert machine.run(ARITHMETIC) == "36"
