"""A convolution's choices: each computes the same; records choose for their own task alone."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.cpu.convolutions import close, convolution, numpy_convolution, run
from tests.networks import Draft
from vdla.compiler.cpu.pipeline import CpuCode, compile_runs
from vdla.compiler.cpu.template import CpuTemplate, templates_of
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.cpu.target import Target, host_target
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.features import NAMES
from vdla.compiler.tune.space import Point
from vdla.compiler.tune.task import Record
from vdla.errors import InputError

TARGET = Target.named("x86-64-avx2")


def template(graph: Graph, target: Target = TARGET, threads: int = 1) -> CpuTemplate:
    ((one, often),) = templates_of(graph, target, threads)
    assert often == 1
    return one


def chosen(graph: Graph, one: CpuTemplate, point: Point) -> CpuCode:
    """Return a graph compiled as a record of its task says."""
    records = Database([Record(one.task, point, 1.0, one.unit)])
    return compile_runs(graph, [graph.nodes], one.target, records=records, threads=one.threads)


def some_of(one: CpuTemplate, count: int) -> list[Point]:
    """Return points of each algorithm, drawn with a fixed seed."""
    rng = np.random.default_rng(11)
    found = []
    for algorithm in one.space.knobs["algorithm"]:
        mine = [point for point in one.space if point["algorithm"] == algorithm]
        found += [mine[int(k)] for k in rng.choice(len(mine), count, replace=False)]
    return found


@pytest.mark.parametrize("residual", [False, True], ids=["alone", "added"])
def test_every_choice_computes_the_convolution(residual: bool) -> None:
    graph = convolution((2, 9, 11, 24), 40, 3, 1, (1, 1), clip=(0.0, 6.0), residual=residual)
    one = template(graph, host_target())
    rng = np.random.default_rng(1)
    values = {n: rng.normal(size=graph.tensors[n].shape).astype(np.float32) for n in graph.inputs}
    expected = numpy_convolution(graph, values)
    assert {"direct", "winograd 2x2", "winograd 4x4"} == set(one.space.knobs["algorithm"])
    for point in some_of(one, 3):
        close(run(chosen(graph, one, point), graph, values, "end", 2), expected)


@pytest.mark.parametrize(("shape", "window"), [((1, 8, 12, 16), 3), ((2, 5, 5, 7), 1)])
def test_every_choice_computes_the_integers(shape: tuple[int, ...], window: int) -> None:
    net = Draft("whole", shape)
    graph = net.finish(net.conv("conv", "input", 24, window))
    one = template(graph, host_target())
    image = np.random.default_rng(4).integers(-128, 128, shape, np.int8)
    expected = Interpreter(graph).run(image)[graph.outputs[0]]
    for point in some_of(one, 4):
        result = run(chosen(graph, one, point), graph, {graph.inputs[0]: image}, "end", 1)
        np.testing.assert_array_equal(result, expected)


def test_a_record_chooses_for_its_own_task_and_for_no_other() -> None:
    graph = convolution((1, 12, 12, 16), 32, 3, 1, (1, 1))
    one = template(graph)
    rules = compile_runs(graph, [graph.nodes], TARGET).library
    assert one.space[0] == one.default
    assert chosen(graph, one, one.default).library == rules
    other = next(point for point in one.space if point["algorithm"] == "direct")
    assert chosen(graph, one, other).library != rules
    for alike in (
        convolution((1, 12, 13, 16), 32, 3, 1, (1, 1)),
        convolution((1, 12, 12, 16), 32, 3, 1, (1, 1), residual=True),
        convolution((1, 12, 12, 16), 32, 3, 1, (1, 1), clip=(0.0, 6.0)),
    ):
        default = compile_runs(alike, [alike.nodes], TARGET)
        assert chosen(alike, one, other).library == default.library
    assert template(graph, threads=2).task.key != one.task.key
    assert template(graph, Target.named("x86-64-avx512")).task.key != one.task.key


def test_a_record_of_no_point_is_refused_and_steps_left_out_stay_out() -> None:
    graph = convolution((1, 12, 12, 16), 32, 3, 1, (1, 1))
    one = template(graph)
    with pytest.raises(InputError, match=r"one of the template's \d+, and .*'block': 5"):
        chosen(graph, one, {**one.space[0], "block": 5})
    direct = next(point for point in one.space if point["algorithm"] == "direct")
    records = Database([Record(one.task, direct, 1.0, one.unit)])
    for step in ("layout", "winograd", "pairs"):
        given = compile_runs(graph, [graph.nodes], TARGET, without=[step], records=records)
        assert given.library == compile_runs(graph, [graph.nodes], TARGET, without=[step]).library


def test_a_task_is_the_same_whatever_the_weights_and_in_every_process() -> None:
    graph = convolution((1, 12, 12, 16), 32, 3, 1, (1, 1))
    weight = graph.tensors["w"]
    others = {**graph.tensors, "w": replace(weight, data=weight.data[::-1].copy())}
    again = Graph("again", others, graph.nodes, graph.inputs, graph.outputs)
    one = template(graph)
    assert template(again).task.key == one.task.key
    sent = pickle.dumps(one)
    assert len(sent) < weight.data.nbytes / 4
    there = pickle.loads(sent)
    assert there.task.key == one.task.key
    assert there.space[5] == one.space[5]
    ours, theirs = one.graph.tensors["w"].data, there.graph.tensors["w"].data
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("graph", "threads", "key"),
    [
        (convolution((1, 12, 12, 16), 32, 3, 1, (1, 1), residual=True), 2, "540ba44c57fdd355"),
        (Draft("whole", (1, 8, 12, 16)), 1, "c1752c8a4ccbec03"),
    ],
    ids=["floats", "integers"],
)
def test_the_key_of_records_that_users_have_stays(
    graph: Graph | Draft, threads: int, key: str
) -> None:
    if isinstance(graph, Draft):
        graph = graph.finish(graph.conv("conv", "input", 24))
    one = replace(template(graph, threads=threads), processor="a processor")
    assert one.task.key == key


def test_a_networks_convolutions_are_counted_by_task() -> None:
    net = Draft("net", (1, 8, 8, 16))
    first = net.conv("first", "input", 16)
    second = net.conv("second", first, 16)
    wide = net.conv("wide", second, 32, 1)
    found = templates_of(net.finish(net.average("pool", wide)), TARGET)
    assert [(one.task.shape["weight"], often) for one, often in found] == [
        ([16, 3, 3, 16], 2),
        ([32, 1, 1, 16], 1),
    ]


def test_points_have_features_and_an_estimate() -> None:
    one = template(convolution((1, 12, 12, 16), 32, 3, 1, (1, 1)))
    seen = set()
    for point in some_of(one, 3):
        features = one.features(point)
        assert features is not None
        assert features.shape == (len(NAMES),)
        assert np.isfinite(features).all()
        seen.add(features.tobytes())
        assert 0 < one.prior(point) < 1
    assert len(seen) == 9


def test_an_estimate_counts_threads() -> None:
    graph = convolution((1, 28, 28, 64), 128, 3, 2, (1, 1))
    alone, both = (template(graph, threads=threads) for threads in (1, 2))
    point = alone.space[0]
    assert both.prior(point) == pytest.approx(alone.prior(point) / 2, rel=0.2)
