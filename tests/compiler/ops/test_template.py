"""A convolution's template: every point fits, what is recorded is taken, and keys tell apart."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.ops import nodes
from vdla.compiler.graph import Graph
from vdla.compiler.network import compile_graph
from vdla.compiler.ops import ConvTemplate, LoweredNode, Scheduling, lower_node
from vdla.compiler.tune.database import Database, built_in
from vdla.compiler.tune.task import Record
from vdla.compiler.zoo import resnet18
from vdla.config import PYNQ_Z1, TINY
from vdla.errors import InputError
from vdla.runtime.tune.accelerator import check_values, cycles
from vdla.sim import cycle


def template(**changes: object) -> ConvTemplate:
    graph = nodes.conv2d((1, 9, 9, 8), 12, (3, 3))
    return replace(ConvTemplate.of(graph, graph.nodes[0], TINY), **changes)


def residual() -> ConvTemplate:
    graph = resnet18()
    addition = graph.node("layer4_1_add")
    conv = next(node for node in graph.nodes if node.outputs[0] == addition.inputs[0])
    return ConvTemplate.of(graph, conv, PYNQ_Z1, addition=addition)


CASES: dict[str, Callable[[], ConvTemplate]] = {
    "conv2d": template,
    "strided": lambda: one(nodes.conv2d((1, 11, 11, 8), 12, strides=(2, 2), pads=((1, 0), (0, 1)))),
    "thin": lambda: one(nodes.conv2d((2, 11, 11, 20), 12, (1, 1), strides=(2, 2))),
    "dilated": lambda: one(nodes.conv2d((1, 13, 13, 8), 8, dilation=(2, 2), pads=((2, 2), (2, 2)))),
    "depthwise": lambda: one(nodes.depthwise((1, 9, 9, 8), (3, 3))),
    "dense": lambda: one(nodes.dense((1, 40), 24)),
    "uint8": lambda: one(nodes.as_uint8(nodes.conv2d((1, 9, 9, 8), 12))),
    "residual": residual,
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_values_of_any_point_are_checked(make: Callable[[], ConvTemplate]) -> None:
    made = make()
    rng = np.random.default_rng(0)
    for index in rng.integers(0, len(made.space), 3):
        point = made.space[int(index)]
        cost = cycles(made, point, float("inf"))
        assert cost == cycles(made, point, 0)
        assert made.floor(point) < cost
        assert made.prior(point) / cost == pytest.approx(1, abs=0.7)
        assert made.features(point) is not None


def one(graph: Graph) -> ConvTemplate:
    return ConvTemplate.of(graph, graph.nodes[0], TINY)


def test_a_wrong_value_is_found() -> None:
    made = template()
    wrong = made.constants[made.tensors.params].copy()
    wrong[0, 0] += 1 << 20
    altered = {**made.constants, made.tensors.params: wrong}
    made.__dict__["constants"] = altered
    with pytest.raises(Exception, match="must be the integer interpreter's, and .* are not"):
        check_values(made, made.build(made.space[0]))


def test_a_template_travels_and_stays_one() -> None:
    made = template()
    there = pickle.loads(pickle.dumps(made))
    assert there is pickle.loads(pickle.dumps(made))
    assert there.task.key == made.task.key
    assert list(there.space) == list(made.space)


def test_keys_tell_apart_what_costs_depend_on() -> None:
    others = [
        template(vthreads=1),
        template(config=TINY.replace(dram_latency_cycles=31)),
        template(config=TINY.replace(dram_bytes_per_cycle=4)),
        template(config=TINY.replace(acc_bytes=2 * TINY.acc_bytes)),
        residual(),
    ]
    assert len({made.task.key for made in (template(), *others)}) == 6
    graph = nodes.conv2d((1, 9, 9, 8), 12, (3, 3), zeros=(7, 1))
    assert one(graph).task.key == template().task.key


def test_what_is_recorded_is_taken_and_what_does_not_fit_refused() -> None:
    made = template()
    point = made.space[len(made.space) // 2]
    known = Database([Record(made.task, point, 123.0, "cycles")])
    graph = nodes.conv2d((1, 9, 9, 8), 12, (3, 3))
    lowered = lower_node(graph, graph.nodes[0], TINY, Scheduling(records=known))
    assert (lowered.point, lowered.estimate_cycles) == (point, 123)
    apart = lower_node(graph, graph.nodes[0], TINY, Scheduling(1, records=known))
    assert apart.estimate_cycles != 123
    for wrong in ({**point, "rows": 4096}, {"rows": 1}):
        bad = Scheduling(records=Database([Record(made.task, wrong, 1.0, "cycles")]))
        with pytest.raises(InputError, match=r"A record's tile must fit .* tune again"):
            lower_node(graph, graph.nodes[0], TINY, bad)


def test_a_measure_is_asked_whatever_is_recorded() -> None:
    made = template()
    known = Database([Record(made.task, made.space[0], 1.0, "cycles")])
    _, cost = made.choose(Scheduling(rank=lambda schedule, tensors: 77, records=known))
    assert cost == 77


def test_built_in_records_take_the_cycles_they_say() -> None:
    """Of ResNet-18's last stage, whose programs are short."""
    found: dict[str, LoweredNode] = {}
    compile_graph(resnet18(), PYNQ_Z1, lowered_as=found.update)
    tuned = {name: code for name, code in found.items() if code.template is not None}
    assert len(tuned) == 22  # 20 of stages, the first one and the dense layer
    for name, code in tuned.items():
        assert code.template is not None
        known = built_in().find(code.template.task, "resnet18")
        assert known is not None
        assert known.point == code.point
        if "layer4" in name:
            operator = code.template.build(known.point)
            assert cycle.time(operator.program, operator.memory({})).cycles == known.cost
