"""Layers of integers by instructions that this processor may lack: to the bit, and how often."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from tests.compiler.cpu import running
from tests.compiler.cpu.convolutions import run
from tests.compiler.cpu.emulated import emulated, emulated_target
from tests.compiler.cpu.integers import extreme_and_drawn, integer_layer
from tests.compiler.targets.cpu.guarded import ENDS, in_child
from tests.networks import Draft, as_uint8
from vdla.compiler.cpu import pipeline
from vdla.compiler.cpu.choices import Choices
from vdla.compiler.cpu.group import head_of
from vdla.compiler.cpu.pipeline import CpuCode, compile_runs
from vdla.compiler.cpu.template import templates_of
from vdla.compiler.graph import Graph
from vdla.compiler.targets.cpu import kernel
from vdla.compiler.targets.cpu.target import Target, supports
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.task import Record

LAYERS = {
    "one pixel of odd channels": integer_layer((1, 1, 1, 17), 17),
    "odd channels": integer_layer((2, 7, 9, 17), 19, 3, 1, (1, 1)),
    "stride three": integer_layer((1, 13, 10, 8), 16, 5, 3, (2, 2)),
    "margin on one side": integer_layer((3, 9, 8, 20), 33, 2, 2, (0, 1), zero_point=-128),
    "dilation": integer_layer((1, 12, 12, 16), 16, 3, 1, (2, 2), dilation=2, zero_point=127),
    "four images": integer_layer((4, 5, 5, 33), 40),
    "three channels": integer_layer((1, 17, 23, 3), 20, 7, 2, (3, 3)),
    "uint8": as_uint8(integer_layer((1, 6, 11, 17), 13, 3, 2, (1, 1)), weight_zero=128),
    "dense, one row": integer_layer((1, 70), 33),
    "dense, five rows": integer_layer((5, 64), 10),
    "lowest weights": integer_layer((1, 6, 6, 64), 16, 3, 1, (1, 1), weights="lowest"),
    "highest weights": integer_layer((1, 6, 6, 64), 16, 3, 1, (1, 1), weights="highest"),
}
LEVELS = ("x86-64-vnni", "x86-64-avxvnni", "aarch64-dot")


def hold(code: CpuCode, graph: Graph) -> None:
    """Hold compiled code to the reference, beside memory that must not be touched."""

    def check() -> None:
        for image in extreme_and_drawn(graph):
            expected = running.expected(graph, [image])
            for at, threads in zip(ENDS, (1, 2), strict=True):
                np.testing.assert_array_equal(run(code, graph, {"x": image}, at, threads), expected)

    in_child(check)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_layer_is_the_references_where_instructions_are_functions(level: str, name: str) -> None:
    graph, target = LAYERS[name], emulated_target(level)
    with emulated(target):
        hold(compile_runs(graph, [graph.nodes], target), graph)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_layer_is_the_references_on_a_processor_that_has_them(level: str, name: str) -> None:
    graph, target = LAYERS[name], Target.named(level)
    if not supports(target):
        pytest.skip(f"this processor has no {level}: run it on one that does")
    hold(compile_runs(graph, [graph.nodes], target), graph)


@pytest.mark.parametrize("level", LEVELS)
def test_every_choice_computes_the_layer(level: str) -> None:
    graph, target = LAYERS["odd channels"], emulated_target(level)
    ((template, _),) = templates_of(graph, target)
    rng = np.random.default_rng(3)
    with emulated(target):
        for algorithm in template.space.knobs["algorithm"]:
            mine = [point for point in template.space if point["algorithm"] == algorithm]
            for k in rng.choice(len(mine), 3, replace=False):
                records = Database([Record(template.task, mine[int(k)], 1.0, template.unit)])
                hold(compile_runs(graph, [graph.nodes], target, records=records), graph)


@pytest.mark.parametrize(
    ("level", "algorithms"),
    [
        ("x86-64", ["direct"]),
        ("x86-64-avx2", ["pairs"]),
        ("x86-64-avxvnni", ["quads", "pairs"]),
        ("x86-64-avx512", ["pairs"]),
        ("x86-64-vnni", ["quads", "pairs"]),
        ("aarch64-neon", ["direct"]),
        ("aarch64-dot", ["quads", "direct"]),
    ],
)
def test_a_level_takes_the_best_that_it_has_and_offers_what_records_name(
    level: str, algorithms: list[str]
) -> None:
    graph = LAYERS["odd channels"]
    head = head_of(graph, graph.nodes[0])
    assert head is not None
    every = Choices(head, Target.named(level)).every()
    assert list(dict.fromkeys(choice.algorithm for choice in every)) == algorithms


def test_weights_of_more_than_8_bits_go_by_pairs() -> None:
    net = Draft("wide", (1, 8, 8, 16))
    graph = as_uint8(net.finish(net.conv("conv", "input", 24)))
    head = head_of(graph, graph.nodes[0])
    assert head is not None
    assert Choices(head, Target.named("x86-64-vnni")).default.algorithm == "pairs"


INNER = {
    "x86-64-vnni": ("vpdpbusd", {"vpdpbusd": 112, "vpbroadcastd": 56, "vmovdqu64": 8}),
    "x86-64-avxvnni": ("vpdpbusd", {"{vex}": 48, "vpbroadcastd": 24, "vmovdqu": 8}),
}


@pytest.mark.parametrize("level", INNER)
@pytest.mark.parametrize("window", [1, 3])
def test_the_innermost_loop_is_loads_and_products_alone(level: str, window: int) -> None:
    """Four steps of 14 or 6 pixels times two vectors, without a sum that leaves its register."""
    graph = integer_layer((1, 56, 56, 64), 64, window, 1, (window // 2, window // 2))
    instruction, counts = INNER[level]
    loop = max(innermost_loops(assembly(graph, level), instruction), key=len)
    found = Counter(line.split()[0] for line in loop)
    assert {name: found[name] for name in counts} == counts
    assert sum(found.values()) <= sum(counts.values()) + 4
    assert not [line for line in loop if "(%rsp" in line]


def assembly(graph: Graph, level: str) -> str:
    """Return what a level's machine code is made from."""
    kept: list[str] = []

    def optimize(module: object, target: Target) -> object:
        parsed, machine = kernel.optimize(module, target)  # type: ignore[arg-type]
        kept.append(machine.emit_assembly(parsed))
        return parsed, machine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "optimize", optimize)
        compile_runs(graph, [graph.nodes], Target.named(level))
    return kept[0]


def innermost_loops(text: str, instruction: str) -> list[list[str]]:
    """Return the instructions of the loops that have a certain one, and no loop inside."""
    lines = text.splitlines()
    labels = {line.split(":")[0]: k for k, line in enumerate(lines) if re.match(r"\.LBB\w+:", line)}
    found: list[tuple[int, int]] = []
    for k, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\.LBB\w+)", line)
        begin = labels.get(jump[1], k) if jump else k
        if begin < k and not any(first >= begin for first, _ in found):
            found.append((begin, k))
    loops = [[one for one in lines[a:b] if one.startswith("\t")] for a, b in found]
    return [loop for loop in loops if any(re.search(rf"\s{instruction}\s", one) for one in loop)]
