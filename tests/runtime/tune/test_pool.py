"""Candidates on a pool: whatever becomes of its workers, every one has an outcome."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.runtime.tune.candidates import Apart, Marked, deadly, deadly_once, owner
from tests.runtime.tune.test_devices import some, template
from tests.runtime.tune.test_search import Squares, fragile, square
from vdla.compiler.tune.methods import Grid
from vdla.config import TINY
from vdla.errors import DeviceError
from vdla.runtime.tune.accelerator import cycles
from vdla.runtime.tune.attempt import Outcome
from vdla.runtime.tune.devices import OnDevice
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.pool import Pool
from vdla.runtime.tune.search import Found, search

POINTS = [{"k": k} for k in range(8)]
COSTS = {k: Outcome(float((k - 7) ** 2)) for k in range(8)}


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster:
        yield cluster.scheduler_address


@contextmanager
def workers_of(address: str, *options: str, count: int = 1) -> Iterator[list[Any]]:
    """Yield workers that are started as a user starts them."""
    command = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1"]
    command += ["--no-dashboard", *(options or ("--no-nanny",))]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen(command, **quiet) for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_pool_of_this_machine_is_as_its_processes_are(tmp_path: Path) -> None:
    with Pool(fragile, 1.0, workers=2) as pool:
        found = dict(pool.run(Squares(), POINTS, 0.0))
        assert {k: (found[k].status, found[k].reason) for k in range(1, 6)} == {
            1: ("does not lower", "no instruction for it"),
            2: ("wrong result", "sums differ"),
            3: ("crash", "ended by SIGABRT"),
            4: ("time-out", "took over 1 s"),
            5: ("crash", "ZeroDivisionError: division by zero"),
        }
        assert {k: found[k].cost for k in (0, 6, 7)} == {0: 49.0, 6: 1.0, 7: 0.0}
        log = Log(tmp_path / "records.jsonl")
        method = Grid(Squares().space, np.random.default_rng(0))
        kept = search(Squares(), method, pool, log, trials=4)
        assert log.read().records == kept.records
        assert len(kept.records) == 4


def test_a_candidate_whose_worker_dies_is_tried_on_another_once(
    scheduler: str, tmp_path: Path
) -> None:
    with workers_of(scheduler, count=4) as running:
        with Pool(deadly_once, 60.0, scheduler=scheduler) as pool:
            assert dict(pool.run(Marked(str(tmp_path)), POINTS, 0.0)) == COSTS
        assert [worker.poll() for worker in running].count(None) == 3
        with Pool(deadly, 60.0, scheduler=scheduler) as pool:
            found = dict(pool.run(Squares(), POINTS, 0.0))
        reason = "the workers that took it up ended, 2 of them: out of memory?"
        assert found == {**COSTS, 3: Outcome(None, "crash", reason)}
        assert [worker.poll() for worker in running].count(None) == 1


def test_a_scheduler_that_goes_away_is_one_error_and_everything_is_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0"]
    command += ["--no-dashboard", "--scheduler-file", str(tmp_path / "scheduler.json")]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet)
    try:
        while not (tmp_path / "scheduler.json").exists():
            assert process.poll() is None
            time.sleep(0.05)
        address = json.loads((tmp_path / "scheduler.json").read_text())["address"]
        log = Log(tmp_path / "records.jsonl")
        method = Grid(Squares().space, np.random.default_rng(0))

        def told(found: Found) -> None:
            if len(found.records) == 5:
                process.kill()
                process.wait()

        with (
            workers_of(address),
            Pool(square, 60.0, scheduler=address) as pool,
            pytest.raises(DeviceError, match=f"scheduler must stay, and {address} is gone: "),
        ):
            search(Squares(), method, pool, log, trials=20, told=told)
        assert len(log.read().records) == 5
    finally:
        process.kill()
        process.wait()


def test_a_pool_without_workers_says_what_starts_one(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vdla.runtime.tune.pool._PATIENCE_SECONDS", 0.5)
    with (
        Pool(square, 60.0, scheduler=scheduler) as pool,
        pytest.raises(DeviceError, match="must have a worker, and .* --nthreads 1 --no-nanny`; "),
    ):
        list(pool.run(Squares(), POINTS, 0.0))
    with (
        Pool(square, 60.0, scheduler=scheduler, tag="pynq") as pool,
        pytest.raises(DeviceError, match="the resource pynq, and .* --resources pynq=1`; what was"),
    ):
        list(pool.run(Squares(), POINTS, 0.0))


def test_a_worker_that_may_have_no_children_says_so(scheduler: str) -> None:
    with (
        workers_of(scheduler, "--nworkers", "1"),
        Pool(square, 60.0, scheduler=scheduler) as pool,
        pytest.raises(DeviceError, match="able to start processes, .* --nthreads 1 --no-nanny`"),
    ):
        list(pool.run(Squares(), POINTS, 0.0))


def test_boards_are_workers_with_a_tag_and_others_build_for_them(
    scheduler: str, tmp_path: Path
) -> None:
    plain = ("--no-nanny", "--resources", "pynq=1")
    with (
        workers_of(scheduler) as (host,),
        workers_of(scheduler, *plain) as (board,),
    ):
        with Pool(Apart(), 60.0, scheduler=scheduler, tag="pynq") as pool:
            found = dict(pool.run(Squares(), POINTS, 0.0))
            assert found.pop(2) == Outcome(None, "does not lower", "no instruction for it")
            assert found.pop(5) == Outcome(None, "crash", "ended by SIGABRT")
            assert {one.cost for one in found.values()} == {host.pid + 1e-9 * board.pid}
        with Pool(owner, 60.0, scheduler=scheduler, tag="pynq") as pool:
            assert [one.cost for _, one in pool.run(Squares(), POINTS, 0.0)] == [board.pid] * 8
        made = template()
        points = some(made, 3)
        with Pool(OnDevice("cycle", TINY), 60.0, scheduler=scheduler, tag="pynq") as pool:
            found = dict(pool.run(made, points, inf))
            assert [found[k].cost for k in range(3)] == [cycles(made, p, 0.0) for p in points]
        with Pool(owner, 60.0, scheduler=scheduler) as pool:
            marked = Marked(str(tmp_path))
            for _ in range(2):  # a board builds nothing
                assert [one.cost for _, one in pool.run(marked, POINTS, 0.0)] == [host.pid] * 8
        (mark,) = tmp_path.iterdir()  # sent once, and read in the sandbox alone: a worker need
        assert not mark.name.startswith(f"{host.pid}-")  # not have what it is made of


SCRIPT = """
import signal
import sys
import numpy as np
from pathlib import Path
from tests.runtime.tune.test_search import Squares, fragile
from vdla.compiler.tune.methods import Grid
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.pool import Pool
from vdla.runtime.tune.search import Found, search

def told(found):
    print(len(found.records), flush=True)

if __name__ == "__main__":
    # Whoever runs the tests in the background has told all of their processes to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    make = Pool if sys.argv[1] == "pool" else Attempts
    method = Grid(Squares().space, np.random.default_rng(0))
    with make(fragile, seconds=50.0, workers=2) as attempts:
        search(Squares(), method, attempts, Log(Path(sys.argv[2])), trials=20, told=told)
"""


@pytest.mark.parametrize("kind", ["pool", "processes"])
def test_an_interrupt_ends_everything_at_once(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, script, kind, tmp_path / "records.jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal interrupts all of its processes
        env={**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{ROOT}"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "7\n":  # the eighth of the batch sleeps
            break
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    assert said.count("Traceback") == 1
    assert len(Log(tmp_path / "records.jsonl").read().records) == 7
    deadline = time.monotonic() + 20
    while _left(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _left(process.pid) == []


def _left(group: int) -> list[str]:
    """Return the processes of a group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, own = path.read_text().rpartition(")")[2].split()[:3]
            if int(own) == group and state != "Z":
                found.append(path.parent.name)
    return found
