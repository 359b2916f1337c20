"""Layers of integers by instructions that this processor may lack: to the bit, and how often."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from tests.compiler.cpu import running
from tests.compiler.cpu.convolutions import run
from tests.compiler.cpu.emulated import emulated, emulated_target
from tests.compiler.cpu.integers import extreme_and_drawn, integer_layer
from tests.compiler.cpu.test_integers import DATA, NETWORKS
from tests.compiler.targets.cpu.guarded import ENDS, in_child
from tests.networks import Draft, as_uint8
from vdla.compiler.cpu import pipeline
from vdla.compiler.cpu.choice import Choice
from vdla.compiler.cpu.choices import Choices
from vdla.compiler.cpu.direct import Layer
from vdla.compiler.cpu.group import head_of
from vdla.compiler.cpu.matrix import MATRIX_TILES, MOST_BLOCK_BYTES, Grid
from vdla.compiler.cpu.pipeline import CpuCode, compile_runs
from vdla.compiler.cpu.template import templates_of
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.cpu import kernel
from vdla.compiler.targets.cpu.target import Target, supports
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.task import Record
from vdla.runtime.api import read_graph

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
    "dense, many rows": integer_layer((70, 130), 50),
    "stride two, dilation three": integer_layer((2, 15, 11, 40), 24, 3, 2, (3, 2), dilation=3),
    "a pixel between tiles": integer_layer((1, 9, 15, 128), 56, 3, 1, (1, 1)),
    "lowest weights": integer_layer((1, 6, 6, 64), 16, 3, 1, (1, 1), weights="lowest"),
    "highest weights": integer_layer((1, 6, 6, 64), 16, 3, 1, (1, 1), weights="highest"),
}
LEVELS = ("x86-64-amx", "x86-64-vnni", "x86-64-avxvnni", "aarch64-dot")


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


@pytest.mark.processor
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
        ("x86-64-amx", ["matrices", "quads", "pairs"]),
        ("aarch64-neon", ["direct"]),
        ("aarch64-dot", ["quads", "direct"]),
    ],
)
def test_a_level_takes_the_best_that_it_has_and_offers_what_records_name(
    level: str, algorithms: list[str]
) -> None:
    every = choices(LAYERS["a pixel between tiles"], level).every()
    assert list(dict.fromkeys(choice.algorithm for choice in every)) == algorithms


def test_weights_of_more_than_8_bits_go_by_pairs() -> None:
    net = Draft("wide", (1, 8, 8, 16))
    graph = as_uint8(net.finish(net.conv("conv", "input", 24)))
    for level in ("x86-64-amx", "x86-64-vnni", "x86-64-avx2"):
        assert choices(graph, level).default.algorithm == "pairs"


@pytest.mark.parametrize(
    ("graph", "algorithm"),
    [
        (integer_layer((1, 56, 56, 64), 64, 3, 1, (1, 1)), "matrices"),
        (integer_layer((1, 7, 7, 512), 512, 3, 1, (1, 1)), "matrices"),
        (integer_layer((1, 56, 56, 64), 128, 1, 2), "matrices"),
        (integer_layer((32, 512), 1000), "matrices"),
        (integer_layer((1, 512), 1000), "quads"),
        (integer_layer((1, 224, 224, 3), 64, 7, 2, (3, 3)), "quads"),
        (integer_layer((1, 2, 16000, 64), 64), "matrices"),
        (integer_layer((1, 2, 17000, 64), 64), "quads"),
    ],
    ids=[
        "rows",
        "small image",
        "stride two",
        "many images",
        "one image",
        "three channels",
        "a row of sums fits",
        "it does not",
    ],
)
def test_tile_registers_are_taken_where_they_are_filled(graph: Graph, algorithm: str) -> None:
    found = choices(graph, "x86-64-amx")
    assert found.default.algorithm == algorithm
    compile_runs(graph, [graph.nodes], Target.named("x86-64-amx"))
    for choice in found.every():
        if choice.algorithm == "matrices":
            layer = Layer.of(found.site)
            assert Grid.of(layer, choice).block_bytes <= MOST_BLOCK_BYTES


def choices(graph: Graph, level: str) -> Choices:
    head = head_of(graph, graph.nodes[0])
    assert head is not None
    return Choices(head, Target.named(level))


@pytest.mark.parametrize("name", LAYERS)
def test_every_shape_of_registers_computes_the_layer(name: str) -> None:
    graph, target = LAYERS[name], emulated_target("x86-64-amx")
    ((template, _),) = templates_of(graph, target)
    mine = [point for point in template.space if point["algorithm"] == "matrices"]
    # So few channels are multiplied by vectors.
    assert bool(mine) == (name not in ("three channels", "stride three"))
    shapes = {(point["columns"], point["vectors"]): point for point in mine}
    with emulated(target):
        for point in shapes.values():
            assert template.features(point) is not None
            assert 0 < template.prior(point) < 1
            records = Database([Record(template.task, point, 1.0, template.unit)])
            hold(compile_runs(graph, [graph.nodes], target, records=records), graph)


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


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_tiles_are_loaded_once_a_product_and_stay_in_registers(window: int, kind: str) -> None:
    """Four products for two tiles of pixels and two of weights; sums leave once, at the end."""
    graph = integer_layer((1, 56, 56, 256), 64, window, 1, (window // 2, window // 2))
    instruction = "tdpbssd"
    if kind == "uint8":
        graph, instruction = as_uint8(graph, weight_zero=128), "tdpbusd"
    text = assembly(graph, "x86-64-amx")
    (loop,) = innermost_loops(text, instruction)
    found = Counter(line.split()[0] for line in loop)
    assert (found[instruction], found["tileloadd"]) == (4, 4)
    assert sum(found.values()) <= 8 + 10
    assert not [line for line in loop if "(%rsp" in line or "tilestored" in line]
    whole = Counter(line.split()[0] for line in text.splitlines() if line.startswith("\t"))
    assert (whole["tilezero"], whole[instruction], whole["tilestored"]) == (4, 4, 4)
    assert whole["ldtilecfg"] == 1
    assert whole["tilerelease"] >= 1


@pytest.mark.parametrize("shape", MATRIX_TILES)
def test_no_shape_of_registers_takes_more_than_there_are(shape: tuple[int, int]) -> None:
    tiles, vectors = shape
    graph = integer_layer((1, 14, 14, 256), 192, 3, 1, (1, 1))
    found = choices(graph, "x86-64-amx")
    ((template, _),) = templates_of(graph, found.target)
    point = {**asdict(found.default), "columns": tiles, "vectors": vectors, "at_once": 0}
    assert point["algorithm"] == "matrices"
    with pytest.MonkeyPatch.context() as patch:
        # Not every shape is worth trying for this layer.
        patch.setattr(Choices, "every", lambda _: [Choice(**point)])
        records = Database([Record(template.task, point, 1.0, template.unit)])
        (loop,) = innermost_loops(assembly(graph, "x86-64-amx", records), "tdpbssd")
    counts = Counter(line.split()[0] for line in loop)
    assert (counts["tdpbssd"], counts["tileloadd"]) == (tiles * vectors, tiles + vectors)
    assert counts["tilestored"] == 0


def test_a_network_is_the_interpreters_where_instructions_are_functions() -> None:
    graph = read_graph(DATA / NETWORKS["resnet8"])
    tensor = graph.tensors[graph.inputs[0]]
    image = np.random.default_rng(8).integers(-128, 128, tensor.shape, np.int8)
    expected = Interpreter(graph).run({tensor.name: image})[graph.outputs[0]]
    for level in LEVELS:
        target = emulated_target(level)
        with emulated(target):
            code = compile_runs(graph, [graph.nodes], target)
            result = run(code, graph, {tensor.name: image}, "end", 2)
        np.testing.assert_array_equal(result, expected)


def assembly(graph: Graph, level: str, records: Database | None = None) -> str:
    """Return what a level's machine code is made from."""
    kept: list[str] = []

    def optimize(module: object, target: Target) -> object:
        parsed, machine = kernel.optimize(module, target)  # type: ignore[arg-type]
        kept.append(machine.emit_assembly(parsed))
        return parsed, machine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "optimize", optimize)
        compile_runs(graph, [graph.nodes], Target.named(level), records=records)
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
