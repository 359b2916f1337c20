"""Steps, buffers and the arena of small networks."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import vdla
from tests.configs import EVERY
from tests.networks import Draft, images_for, residual
from vdla.compiler.graph import Graph
from vdla.compiler.network import PASSES, compile_graph
from vdla.compiler.network.layout import Layout, blocked_shape, lay_out
from vdla.compiler.network.memory import PAGE_BYTES, Life, lives, place_buffers
from vdla.compiler.reference import Interpreter
from vdla.config import PYNQ_Z1, Config
from vdla.errors import ModelError
from vdla.module import Execute, Launch, Pack, PlacedLayer, Relayout, Unpack

WIDE = EVERY["1x16x32"]


def laid_out(graph: Graph, cpu: str = "", config: Config = PYNQ_Z1) -> Layout:
    """Lay a graph out with the named nodes on the cpu."""
    placed = {n.name: "cpu" if n.name in cpu.split() else "vdla" for n in graph.nodes}
    blocks = {n.name: (config.block_in, config.block_out) for n in graph.nodes}
    return lay_out(graph, placed, blocks, config)


def test_a_residual_network_is_one_program_between_two_copies() -> None:
    assert laid_out(residual(), cpu="stem softmax").steps == [
        Execute(0),
        Pack("stem.out", 0),
        Launch(
            0,
            (
                PlacedLayer(1, (0,), 1),
                PlacedLayer(2, (1, 0), 2),
                PlacedLayer(3, (2,), 3),
                PlacedLayer(4, (3,), 4),
                PlacedLayer(6, (4,), 5),  # the reshape between is no step
            ),
        ),
        Unpack(5, "dense.out"),
        Execute(7),
    ]


def test_an_operator_on_the_cpu_splits_a_program() -> None:
    steps = laid_out(residual(), cpu="stem sum softmax").steps
    assert [type(step) for step in steps] == [
        *(Execute, Pack, Launch, Unpack, Execute),
        *(Pack, Launch, Unpack, Execute),
    ]
    assert steps[3] == Unpack(1, "body.out")  # stem.out never left host memory


def test_a_view_that_is_read_on_the_cpu_is_unpacked_in_its_own_shape() -> None:
    steps = laid_out(residual(), cpu="stem dense softmax").steps
    assert steps[3] == Unpack(4, "flat.out")


def test_an_output_inside_a_program_is_unpacked_after_it() -> None:
    graph = residual()
    both = Graph("both", graph.tensors, graph.nodes, graph.inputs, ["sum.out", "dense.out"])
    steps = laid_out(both, cpu="stem softmax").steps
    assert steps[-1] == Unpack(2, "sum.out")
    assert Unpack(5, "dense.out") in steps


def test_other_blocks_take_a_copy_between_programs() -> None:
    net = Draft("two", (1, 4, 4, 16))
    graph = net.finish(net.conv("b", net.conv("a", "input", 48), 16))
    layout = laid_out(graph, config=WIDE)
    assert layout.steps == [
        Pack("input", 0),
        Launch(0, (PlacedLayer(0, (0,), 1),)),
        Relayout(1, 2),
        Launch(1, (PlacedLayer(1, (2,), 3),)),
        Unpack(3, "b.out"),
    ]
    assert [shape for _, shape in layout.buffers] == [
        (1, 1, 4, 4, 1, 16),
        (1, 2, 4, 4, 1, 32),
        (1, 3, 4, 4, 1, 16),
        (1, 1, 4, 4, 1, 32),
    ]


@pytest.mark.parametrize(
    ("shape", "block", "batch", "blocked"),
    [
        ((1, 7, 5, 20), 16, 1, (1, 2, 7, 5, 1, 16)),
        ((1, 20), 4, 2, (1, 5, 1, 1, 2, 4)),
        ((1, 1, 1, 255), 32, 4, (1, 8, 1, 1, 4, 32)),
    ],
)
def test_blocked_shapes(
    shape: tuple[int, ...], block: int, batch: int, blocked: tuple[int, ...]
) -> None:
    assert blocked_shape(shape, block, batch) == blocked


def test_lives_of_buffers() -> None:
    layout = laid_out(residual(), cpu="stem softmax")
    # Moments: 0 stem, 1 pack, 2 body, 3 sum, 4 down, 5 pool, 6 dense, 7 unpack, 8 softmax.
    assert lives(layout) == [Life(1, 3), Life(2, 3), Life(3, 4), Life(4, 5), Life(5, 6), Life(6, 7)]


def test_buffers_share_memory_only_when_their_lives_do_not_meet() -> None:
    net = Draft("deep", (1, 40, 40, 16))
    x = "input"
    for k in range(6):
        y = net.conv(f"c{k}", x, 16 + 16 * (k % 3))
        x = net.add(f"a{k}", y, y)
    layout = laid_out(net.finish(x))
    offsets, end = place_buffers(layout, 8 * PAGE_BYTES)
    sizes = [shape[1] * shape[2] * shape[3] * 16 for _, shape in layout.buffers]
    spans = lives(layout)
    for a, b in combinations(range(len(sizes)), 2):
        apart = offsets[a] + sizes[a] <= offsets[b] or offsets[b] + sizes[b] <= offsets[a]
        assert apart or not spans[a].meets(spans[b])
    assert all(offset % PAGE_BYTES == 0 and offset >= 8 * PAGE_BYTES for offset in offsets)
    # No two of the widest live at once with anything else: three tensors' room is enough.
    assert end - 8 * PAGE_BYTES <= 3 * 48 * 40 * 40 + 3 * PAGE_BYTES
    assert sum(sizes) > 2 * (end - 8 * PAGE_BYTES)


def test_the_module_says_what_memory_it_needs() -> None:
    module = compile_graph(residual(), PYNQ_Z1)
    memory = module.memory
    assert module.arena_bytes == memory.constants + memory.activations + memory.micro_ops
    assert memory.activations < memory.activations_unshared
    constants, uops = module.segments
    assert (constants.offset, constants.data.size) == (0, memory.constants)
    assert uops.offset == memory.constants + memory.activations
    assert uops.data.size <= memory.micro_ops


def test_progress_counts_every_operator_twice() -> None:
    seen: list[tuple[int, int, str]] = []
    compile_graph(residual(), PYNQ_Z1, progress=lambda *step: seen.append(step))
    names = ["stem", "body", "sum", "down", "pool", "dense"]
    assert seen == [(k, 12, name) for k, name in enumerate(names * 2)]


def test_macs_leave_padding_out() -> None:
    module = compile_graph(residual(), PYNQ_Z1)
    macs = {layer.name: layer.macs for layer in module.layers}
    assert macs["down"] == 5 * 4 * 24 * 20
    assert macs["dense"] == 24 * 10
    assert macs["sum"] == 0


def test_unjoined_operators_make_a_program_each() -> None:
    graph = residual()
    joined, apart = (compile_graph(graph, PYNQ_Z1, without=w) for w in ((), ("join",)))
    assert (len(joined.programs), len(apart.programs)) == (1, 5)
    assert len(apart.buffers) == len(joined.buffers)


def test_without_layouts_every_result_goes_home_and_comes_back() -> None:
    module = compile_graph(residual(), PYNQ_Z1, without=("layout",))
    moved = [type(step) for step in module.steps if isinstance(step, (Pack, Unpack))]
    # Packed: an input of stem, down, pool and dense, and two of body with sum.
    assert (moved.count(Pack), moved.count(Unpack)) == (6, 5)


def test_without_the_memory_plan_no_two_buffers_share_a_place() -> None:
    module = compile_graph(residual(), PYNQ_Z1, without=("memory",))
    assert module.memory.activations == module.memory.activations_unshared


@pytest.mark.parametrize("name", PASSES)
def test_no_pass_changes_a_result(name: str) -> None:
    images = images_for(residual(), 2)
    run = vdla.compile(residual(), without=[name]).run(images, device="functional", check=True)
    assert run.bit_exact, run.first_difference
    (want,) = Interpreter(residual()).run(images).values()
    np.testing.assert_array_equal(next(iter(run.outputs.values())), want)


def test_a_pass_that_is_none_is_refused() -> None:
    with pytest.raises(ModelError, match=r"must be one of idle, .*, not 'nosuch'"):
        compile_graph(residual(), PYNQ_Z1, without=["nosuch"])


def test_a_network_larger_than_the_memory_is_refused_with_both_sizes() -> None:
    need = compile_graph(residual(), PYNQ_Z1).arena_bytes
    small = PYNQ_Z1.replace(memory_bytes=need // PAGE_BYTES // 2 * PAGE_BYTES)
    with pytest.raises(ModelError, match=r"'residual' takes [0-9,]+ bytes and custom has [0-9,]+"):
        compile_graph(residual(), small)
