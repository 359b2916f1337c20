"""Libraries compiled for ARMv7, loaded and run by a board's own Python, which has numpy alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import vdla
import vdla.runtime
from tests.arm.conftest import Board
from tests.arm.userland import USER_ID
from tests.compiler.targets.cpu import arithmetic_check
from tests.compiler.targets.cpu.arithmetic import arithmetic_library
from tests.compiler.targets.cpu.handmade import library

pytestmark = pytest.mark.slow

POOL = """\
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from vdla.processor import architecture, features
from vdla.runtime.native import Library

assert architecture() == "armv7", architecture()
assert "neon" in features(), features()
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


@pytest.fixture
def folder(board: Board) -> Iterator[Path]:
    """A folder on the board with what the base install has of vdla."""
    path = board.userland.root / "tmp/native"
    plain = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(vdla.__file__).parent, path / "vdla", ignore=plain)
    runtime = Path(vdla.runtime.__file__).parent
    shutil.copytree(runtime, path / "vdla/runtime", ignore=plain, dirs_exist_ok=True)
    shutil.copy(arithmetic_check.__file__, path)
    for one in (path, *path.rglob("*")):
        shutil.chown(one, USER_ID, USER_ID)
    yield path
    shutil.rmtree(path)


def run(board: Board, program: str) -> str:
    code = program.format(folder="/tmp/native")
    return board.userland.run("/usr/bin/python3", "-c", code).stdout.strip()


def test_loops_run_on_threads(board: Board, folder: Path) -> None:
    (folder / "pool.so").write_bytes(library("armv7-neon"))
    assert run(board, POOL) == "done"


def test_arithmetic_without_instructions_is_numpys(board: Board, folder: Path) -> None:
    (folder / "arithmetic.so").write_bytes(arithmetic_library("armv7-neon"))
    assert run(board, ARITHMETIC) == "36"
