"""A sweep gives the same table, however it is interrupted, divided or worked on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import vdla
from tests.networks import Draft
from vdla.compiler.graph import Graph
from vdla.config import TINY
from vdla.errors import InputError
from vdla.runtime.sweep import Store
from vdla.runtime.sweep.local import local_client


def small() -> Graph:
    net = Draft("small", (1, 4, 4, 4))
    return net.finish(net.conv("conv", "input", 8))


AXES = {"dram_latency_cycles": [10, 20, 30], "vthreads": [1, 2], "wgt_bytes": [4096, 5000]}


def spec(**changes: Any) -> dict[str, Any]:
    return {"networks": [small()], "config": "TINY", "axes": AXES, **changes}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return vdla.sweep(spec(), folder=tmp_path_factory.mktemp("whole"), workers=1)


def test_a_point_s_cycles_are_those_of_the_cycle_model(whole: pd.DataFrame) -> None:
    row = whole[(whole.dram_latency_cycles == 20) & (whole.vthreads == 1)].iloc[0]
    network = vdla.compile(
        small(), config=TINY.replace(dram_latency_cycles=20), vthreads=1, cache=False
    )
    import numpy as np

    run = network.run(np.zeros((1, 4, 4, 4), np.int8))
    assert row.cycles == run.cycles
    assert row.dram_bytes == run.layers.dram_bytes.sum()
    assert row.milliseconds == pytest.approx(run.cycles / 100e3)
    assert row.frames_per_second == pytest.approx(100e6 / run.cycles)
    assert row.mac_utilization == 4 * 4 * 9 * 4 * 8 / (16 * run.cycles)
    assert row.config_hash == f"{TINY.hash:016x}"
    assert (row.version, row.seed, row.block_out) == (vdla.__version__, 0, 4)


def test_a_device_without_time_moves_no_bytes_that_are_known(tmp_path: Path) -> None:
    axes = {"device": ["functional", "cycle"]}
    table = vdla.sweep(spec(axes=axes), folder=tmp_path, workers=1).set_index("device")
    assert list(table.status) == ["ok", "ok"]
    assert table.loc["functional", ["cycles", "dram_bytes"]].isna().all()
    assert table.loc["cycle", "dram_bytes"] > 0


def test_a_kept_result_that_is_none_is_made_again(tmp_path: Path, whole: pd.DataFrame) -> None:
    vdla.sweep(spec(), folder=tmp_path, workers=1)
    for file in tmp_path.glob("points/*/*.json"):
        kept = json.loads(file.read_text())
        file.write_text(json.dumps({**kept, "result": {}}))
    pd.testing.assert_frame_equal(vdla.sweep(spec(), folder=tmp_path, workers=1), whole)


def test_a_point_that_fails_is_a_row_with_its_reason(whole: pd.DataFrame) -> None:
    failed = whole[whole.wgt_bytes == 5000]
    assert len(failed) == 6
    assert set(failed.status) == {"failed"}
    assert set(failed.reason) == {"wgt_bytes must be a positive power of two, not 5000."}
    assert failed.cycles.isna().all()
    assert set(whole[whole.wgt_bytes == 4096].status) == {"ok"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"networks": ["resnet180"]}, "A built-in network must be one of"),
        ({"axes": {"without": ["fusions"]}}, "fusions"),
        ({"axes": {"place": {"conv3d": "cpu"}}}, "conv3d"),
        ({"axes": {"memory_bytes": 4096}}, "4096|4,096"),
        ({"axes": {"device": "abacus"}}, "A device must be one of"),
    ],
)
def test_failures_of_every_stage(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    table = vdla.sweep(spec(**{"axes": {}, **changes}), folder=tmp_path, workers=1)
    assert list(table.status) == ["failed"]
    assert table.reason.str.contains(reason).all()


def test_tables_on_disk_are_the_table(tmp_path: Path, whole: pd.DataFrame) -> None:
    table = vdla.sweep(spec(), folder=tmp_path, workers=1)
    pd.testing.assert_frame_equal(table, whole)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "table.parquet"), table)
    assert list(pd.read_csv(tmp_path / "table.csv").cycles.dropna()) == list(table.cycles.dropna())


def test_nothing_is_done_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = vdla.sweep(spec(axes={"vthreads": [1]}), folder=tmp_path, workers=1)
    kept = sorted((tmp_path / "points").rglob("*.json"))
    assert len(kept) == 1
    times = [file.stat().st_mtime_ns for file in kept]
    wider = vdla.sweep(spec(axes={"vthreads": [1, 2]}), folder=tmp_path, workers=1)
    assert [file.stat().st_mtime_ns for file in kept] == times
    pd.testing.assert_frame_equal(wider.iloc[:1], first)
    monkeypatch.setattr("vdla.runtime.sweep.pool.build", None)
    vdla.sweep(spec(axes={"vthreads": [1, 2]}), folder=tmp_path, workers=1)


def test_what_decides_the_result_decides_the_key(whole: pd.DataFrame, tmp_path: Path) -> None:
    assert whole.key.nunique() == len(whole)
    other = Draft("small", (1, 4, 4, 4), seed=1)
    graph = other.finish(other.conv("conv", "input", 8))
    table = vdla.sweep(spec(networks=[graph], axes={}), folder=tmp_path, workers=1)
    assert not set(table.key) & set(whole.key)


def test_a_damaged_result_is_made_again(tmp_path: Path) -> None:
    first = vdla.sweep(spec(axes={}), folder=tmp_path, workers=1)
    (file,) = (tmp_path / "points").rglob("*.json")
    for damage in ("", '{"key": 3}', file.read_text(encoding="utf-8")[:100]):
        file.write_text(damage, encoding="utf-8")
        pd.testing.assert_frame_equal(vdla.sweep(spec(axes={}), folder=tmp_path, workers=1), first)


def test_a_store_keeps_what_is_put_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.get("ab12") is None
    store.put("ab12", {"network": "x"}, {"cycles": 3})
    assert store.get("ab12") == {"cycles": 3}
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["ab12.json"]


def test_shards_together_are_the_whole(tmp_path: Path, whole: pd.DataFrame) -> None:
    parts = [
        vdla.sweep(spec(), folder=tmp_path, workers=1, shard=(part, 5)) for part in range(1, 6)
    ]
    together = pd.concat(parts).set_index("key").loc[whole.key].reset_index()
    pd.testing.assert_frame_equal(together[whole.columns], whole)
    read = [pd.read_parquet(tmp_path / f"table-{part}-of-5.parquet") for part in range(1, 6)]
    assert sum(map(len, read)) == len(whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shard": (0, 4)}, "must be one of 1/4 to 4/4, not 0/4"),
        ({"shard": (5, 4)}, "must be one of 1/4 to 4/4, not 5/4"),
        ({"shard": (1, 0)}, "must be a part of at least 1, not 1/0: count parts from 1"),
        ({"workers": 0}, "workers must be at least 1, not 0"),
        ({"workers": 2, "scheduler": "tcp://127.0.0.1:1"}, "workers or a scheduler, not both"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        vdla.sweep(spec(), folder=tmp_path, **arguments)


def test_every_layer_may_be_checked(tmp_path: Path) -> None:
    table = vdla.sweep(spec(axes={}, check=True), folder=tmp_path, workers=1)
    assert list(table.bit_exact) == [True]


COMMAND = (sys.executable, "-c", "from vdla.runtime.cli import main; main()", "sweep")

TEXT = """
networks = ["digits"]
config = "TINY"
[axes]
dram_latency_cycles = [10, 20, 30, 40]
inp_bytes = [2048, 3000]
vthreads = [1, 2]
"""


def test_killed_and_resumed_the_table_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(TEXT, encoding="utf-8")
    undisturbed = vdla.sweep(file, folder=tmp_path / "undisturbed", workers=1)
    disturbed = tmp_path / "disturbed"
    source = random.Random(6)
    for _ in range(2):
        points = len(list(disturbed.rglob("points/*/*.json")))
        wanted = source.randint(points + 1, points + 4)
        process = subprocess.Popen(
            [*COMMAND, str(file), "-o", str(disturbed), "--workers", "1"],
            stdout=subprocess.DEVNULL,
        )
        while len(list(disturbed.rglob("points/*/*.json"))) < wanted:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (disturbed / "table.csv").exists()
    resumed = vdla.sweep(file, folder=disturbed, workers=1)
    pd.testing.assert_frame_equal(resumed, undisturbed)
    for name in ("table.csv", "table.parquet"):
        written = (disturbed / name).read_bytes()
        assert written == (tmp_path / "undisturbed" / name).read_bytes()


@contextmanager
def workers_of(address: str, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1"]
    command += ["--no-nanny", "--no-dashboard"]
    running = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_scheduler_whose_worker_is_killed(tmp_path: Path, whole: pd.DataFrame) -> None:
    from distributed import Client, LocalCluster

    killed: list[int] = []
    with (
        LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster,
        workers_of(cluster.scheduler_address, 2) as running,
    ):
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=120)

        def progress(done: int, total: int, doing: str) -> None:
            assert total == 12
            if done == 3:
                os.kill(running[0].pid, signal.SIGKILL)
                killed.append(done)

        table = vdla.sweep(
            spec(), folder=tmp_path, scheduler=cluster.scheduler_address, progress=progress
        )
    assert killed == [3]
    pd.testing.assert_frame_equal(table, whole)


def test_workers_have_this_process_s_environment_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the process that they are forked from outlives a sweep; and it stays as it is."""
    seen = []
    before = dict(os.environ)
    for value in ("one", "another"):
        monkeypatch.setenv("VDLA_ANY", value)
        with local_client(1) as client:
            seen.append(client.submit(os.environ.get, "VDLA_ANY", pure=False).result())
            assert client.submit(os.environ.get, "OMP_NUM_THREADS").result() == "1"
    assert seen == ["one", "another"]
    monkeypatch.undo()
    assert dict(os.environ) == before


def test_a_script_that_starts_workers_as_it_is_imported_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from vdla.runtime.sweep.local import local_client\nlocal_client(1).__enter__()"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "vdla.errors.InputError: Workers must be able to import the script that starts them, and "
    )


def test_sweeps_side_by_side_need_no_port_of_each_other() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with local_client(1) as one, local_client(1) as two:
            assert [c.submit(sum, [1, 2]).result() for c in (one, two)] == [3, 3]


def test_a_scheduler_must_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.runtime.sweep.clients._PATIENCE", "0.2s")
    with pytest.raises(InputError, match="A scheduler must answer at its address"):
        vdla.sweep(spec(), folder=tmp_path, scheduler="tcp://127.0.0.1:1")


def test_a_study_is_the_same_when_it_is_resumed(tmp_path: Path) -> None:
    axes = {
        "dram_latency_cycles": {"low": 1, "high": 200},
        "clock_mhz": {"low": 50.0, "high": 200.0},
        "vthreads": [1, 2],
        "acc_bytes": [4096, 8192, 5000],
    }
    study = {"objectives": ["cycles", "frames_per_second"], "trials": 12, "together": 4}
    first = vdla.sweep(spec(axes=axes, study=study), folder=tmp_path / "a", workers=1)
    assert len(first) == 12
    assert {"ok"} <= set(first.status) <= {"ok", "failed"}
    kept = sorted((tmp_path / "a").rglob("points/*/*.json"))
    for file in kept[::2]:
        file.unlink()
    resumed = vdla.sweep(spec(axes=axes, study=study), folder=tmp_path / "a", workers=1)
    pd.testing.assert_frame_equal(resumed, first)


def test_a_study_is_of_one_network_and_whole(tmp_path: Path) -> None:
    study = {"objectives": "cycles", "trials": 2}
    with pytest.raises(InputError, match="must have one network, not 2"):
        vdla.sweep(spec(networks=["digits", small()], study=study), folder=tmp_path)
    with pytest.raises(InputError, match="must be run whole, not in shards"):
        vdla.sweep(spec(study=study), folder=tmp_path, shard=(1, 2))


def test_boards_are_workers_with_a_tag(
    tmp_path: Path, whole: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client, LocalCluster

    monkeypatch.setattr("vdla.runtime.sweep.pool.HARDWARE", frozenset({"cycle"}))
    axes = {"vthreads": [1, 2], "dram_latency_cycles": [20]}
    quiet = {"dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(n_workers=1, processes=False, resources={"cycle": 1}, **quiet) as cluster,
        Client(cluster) as client,
    ):
        table = vdla.sweep(spec(axes=axes), folder=tmp_path, scheduler=client)
    expected = whole[(whole.dram_latency_cycles == 20) & (whole.wgt_bytes == 4096)]
    pd.testing.assert_frame_equal(table, expected.reset_index(drop=True))
