"""Candidates on a GPU, for which PoCL stands: measured, checked, and found again by compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from tests.compiler.gpu.cases import SAME, convolution, dense
from tests.one_operator import network
from vdla.compiler.gpu import compile_network
from vdla.compiler.gpu.tuning import GpuTemplate, templates_of
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu import source_of
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.methods import Random
from vdla.compiler.tune.task import OK, WRONG
from vdla.errors import DeviceError, InputError, ProgramError
from vdla.runtime.opencl import OpenClDevice
from vdla.runtime.tune import expected, gpu
from vdla.runtime.tune.attempt import Outcome, guarded
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.gpu import OnGpu, machine_of
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.run import Settings, tune
from vdla.runtime.tune.search import search

POCL = OnGpu("opencl", "portable computing")


def template(graph: Graph, device: OpenClDevice) -> GpuTemplate:
    ((one, _),) = templates_of(graph, machine_of(device))
    return one


@pytest.fixture(autouse=True)
def no_references() -> None:
    gpu._references.clear()


class Here:
    """A sandbox that is this process."""

    def run(self, function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
        return function(*arguments)


def test_a_search_measures_in_a_child(pocl: OpenClDevice) -> None:
    one = template(convolution((1, 9, 8, 5), 12, (3, 3), padding=SAME).graph, pocl)
    with Attempts(POCL, workers=1, seconds=60.0) as attempts:
        found = search(
            one, Random(one.space, np.random.default_rng(0)), attempts, trials=3, batch=3
        )
    assert not found.failures
    assert all(record.cost is not None and record.cost > 0 for record in found.records)


def test_a_sample_is_a_millisecond_of_launches(
    pocl: OpenClDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = template(dense(7, 13, 5).graph, pocl)
    counts: list[int] = []
    launched = 0
    launch = OpenClDevice.launch

    def counted(device: OpenClDevice, *arguments: Any) -> None:
        nonlocal launched
        launched += 1
        launch(device, *arguments)

    def seconds(device: OpenClDevice, work: Callable[[], None], count: int) -> float:
        """Return what launches would take of 9 microseconds each."""
        before = launched
        for _ in range(count):
            work()
        counts.append(launched - before)
        return 9e-6 * counts[-1] / count

    monkeypatch.setattr(OpenClDevice, "launch", counted)
    monkeypatch.setattr(OpenClDevice, "seconds", seconds)
    cost = POCL(one, one.space[3], inf)
    assert cost == pytest.approx(one.prior(one.default))  # as fast as the tile by rules
    # 64 launches are less than a millisecond and 128 are more: 31 samples of both.
    assert counts.count(128) == 62 + 2
    assert max(counts) == 128


def test_another_device_measures_nothing(pocl: OpenClDevice) -> None:
    one = template(dense(7, 13, 5).graph, pocl)
    elsewhere = replace(one, machine=replace(one.machine, device="another"))
    with pytest.raises(
        DeviceError,
        match=r"the device of its task, another, and this is .*Portable Computing Language.*: name "
        r"that one with --device\.",
    ):
        POCL(elsewhere, one.space[0], inf)


def test_a_wrong_value_is_never_fast(pocl: OpenClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    one = template(dense(7, 13, 5).graph, pocl)
    weight = one.graph.tensors["b"]
    wrong = {**one.graph.tensors, "b": replace(weight, data=weight.data[::-1].copy())}
    other = Graph("wrong", wrong, one.graph.nodes, one.graph.inputs, one.graph.outputs)

    def compiled(graph: Graph, records: Any, machine: Any) -> Any:
        by_rules = records.find(one.task).point == one.default
        return compile_network(graph if by_rules else other, records, machine)

    monkeypatch.setattr(gpu, "compile_network", compiled)
    outcomes = [
        guarded(Here(), POCL, one, one.space[k], inf, seconds=60.0)  # type: ignore[arg-type]
        for k in (0, 3)
    ]
    assert outcomes[0] > 0
    assert isinstance(outcomes[1], Outcome)
    assert (outcomes[1].status, outcomes[1].cost) == (WRONG, None)
    assert "of the interpreter's" in outcomes[1].reason


def test_rules_that_compute_wrong_values_measure_nothing(
    pocl: OpenClDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(Interpreter):
        def run(self, *args: Any, **more: Any) -> dict[str, np.ndarray]:
            return {name: array + 1 for name, array in super().run(*args, **more).items()}

    monkeypatch.setattr(expected, "Interpreter", Other)
    one = template(dense(7, 13, 5).graph, pocl)
    with pytest.raises(ProgramError, match=r"must be within"):
        POCL(one, one.space[0], inf)


def test_a_network_is_tuned_and_compiled_with_what_was_found(
    pocl: OpenClDevice, tmp_path: Path
) -> None:
    case, file = dense(7, 13, 5), tmp_path / "records.jsonl"
    settings = Settings(device="opencl:portable computing", trials=4, batch=4, method="random")
    done = tune(case.graph, file, settings)
    assert done.before
    assert done.after
    records = Log(file).read().records
    assert {(r.device, r.unit, r.status) for r in records} == {("opencl", "seconds", OK)}
    assert {r.task.target["device"] for r in records} == {pocl.name}
    # Whatever was the fastest: a tile that is not the one by rules comes out first now.
    one = template(case.graph, pocl)
    other = next(record for record in records if record.point != one.default)
    Log(file).append([replace(other, cost=1e-12)])

    def sources(**options: Any) -> list[str]:
        made = vdla.compile(case.graph, target="opencl", cache=False, **options).module.gpu
        return [kernel.source for kernel in made.kernels]

    recorded = compile_network(case.graph, Database([other]), one.machine)
    assert sources(records=file, device="portable") == list(map(source_of, recorded.kernels))
    assert sources(records=file, device="portable") != sources()
    with pytest.raises(DeviceError, match=r"none is called 'abacus'"):
        sources(records=file, device="abacus")


def test_a_device_is_of_kernels() -> None:
    with pytest.raises(InputError, match=r"device must name the GPU that kernels are going to"):
        vdla.compile(dense(7, 13, 5).graph, target="cpu", device="pocl")


def test_settings_name_the_gpu() -> None:
    assert Settings(device="cuda:h100").gpu == ("cuda", "h100")
    assert Settings(device="opencl").gpu == ("opencl", None)
    assert Settings(device="opencl").name == "opencl"
    assert Settings(device="cpu").gpu is None
    with pytest.raises(
        InputError, match=r"place must be left out on the device opencl, where .* on the GPU, and"
    ):
        Settings(device="opencl", place={"*": "cpu"})
    for device in ("metal", "opencl@host", "gpu:1"):
        with pytest.raises(InputError, match=r"cpu, opencl or cuda, not "):
            Settings(device=device)


def test_nothing_to_tune(pocl: OpenClDevice, tmp_path: Path) -> None:
    graph = network("exp", [np.ones((2, 3), np.float32)])
    with pytest.raises(
        InputError, match=r"must have products of matrices, or convolutions without groups, to be"
    ):
        tune(graph, tmp_path / "r.jsonl", Settings(device="opencl:portable"))
