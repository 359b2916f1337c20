"""What is measured on workers, apart from the tests: workers import it, and nothing else."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.runtime.tune.test_search import Squares, square
from vdla.compiler.tune.space import Point
from vdla.errors import LoweringError


@dataclass(frozen=True)
class Marked(Squares):
    """Leaves a mark where it is made of bytes."""

    folder: str = ""

    def __reduce__(self) -> Any:
        return _unmarked, (self.folder,)


def _unmarked(folder: str) -> Marked:
    Path(folder, f"{os.getpid()}-{time.monotonic_ns()}").touch()
    return Marked(folder)


def owner(template: Any, point: Point, to_beat: float) -> float:
    """Cost the number of the process whose sandbox this is."""
    return float(_worker())


def deadly(template: Any, point: Point, to_beat: float) -> float:
    """End the worker that takes up point 3."""
    if point["k"] == 3:
        os.kill(_worker(), signal.SIGKILL)
        time.sleep(60)
    return square(template, point)


def deadly_once(template: Any, point: Point, to_beat: float) -> float:
    """End the worker that takes up point 3 first."""
    died = Path(template.folder, "died")
    if point["k"] == 3 and not died.exists():
        died.touch()
        return deadly(template, point, to_beat)
    return square(template, point)


def _worker() -> int:
    """Return who has started the process that sandboxes are forked from."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().split()[3])


class Apart:
    """Built by one worker, and run by another."""

    def build(self, template: Any, point: Point) -> tuple[int, Point]:
        if point["k"] == 2:
            raise LoweringError("no instruction for it")
        return _worker(), point

    def run(self, built: tuple[int, Point], to_beat: float) -> float:
        if built[1]["k"] == 5:
            os.abort()
        return built[0] + 1e-9 * _worker()
