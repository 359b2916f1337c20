"""A search that is killed loses the candidate that was in flight, and goes on from the others."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.runtime.tune.test_search import Squares
from vdla.compiler.tune.methods import Random
from vdla.compiler.tune.space import Point
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.search import Found, search


def slow(template: Any, point: Point, to_beat: float) -> float:
    time.sleep(0.02)
    return float((int(point["k"]) - 7) ** 2)


def told(found: Found) -> None:
    assert found.records[-1].point is not None
    print(found.records[-1].point["k"], flush=True)


def go_on(path: Path) -> Found:
    """Search every point that the file does not know."""
    log = Log(path)
    method = Random(Squares().space, np.random.default_rng(0))
    with Attempts(slow, workers=2, seconds=60.0) as attempts:
        return search(
            Squares(),
            method,
            attempts,
            log,
            trials=20 - len(log.read().records),
            batch=4,
            known=log.read().records,
            told=told,
        )


def test_killed_at_any_moment_it_goes_on_from_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    code = "import sys; from pathlib import Path; from tests.runtime.tune import test_killed; "
    code += "test_killed.go_on(Path(sys.argv[1]))"
    source = random.Random(8)
    said: list[str] = []
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(source.randint(1, 5)):
            said.append(process.stdout.readline().strip())
        time.sleep(source.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        said += process.communicate()[0].split()
        kept = [str(record.point["k"]) for record in Log(path).read().records]
        assert kept[: len(said)] == said
        assert len(kept) <= len(said) + 1  # written, and not yet told
        said = kept
    with path.open("rb+") as file:  # a machine that loses its power also loses half a line
        file.truncate(path.stat().st_size - source.randint(2, 100))
    assert Log(path).read().cut
    found = go_on(path)
    assert [record.point["k"] for record in found.records[: len(said) - 1]] == [
        int(k) for k in said[:-1]
    ]
    assert sorted(int(record.point["k"]) for record in found.records) == [*range(20)]
    assert Log(path).read().records == found.records
