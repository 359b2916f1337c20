"""The tile search: what it offers fits, and what it thinks is fast is."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.compiler.ops import nodes
from tests.configs import MATRIX
from vdla.compiler.ops import Scheduling, lower_node
from vdla.compiler.ops.conv2d import Conv2d, ConvTensors, ConvTile, conv2d
from vdla.compiler.ops.conv_schedule import schedule_conv2d
from vdla.compiler.ops.tiling import candidates, choose_tile
from vdla.compiler.ops.timeline import play
from vdla.compiler.targets.vdla.build import build
from vdla.compiler.te import Schedule
from vdla.compiler.zoo import resnet18
from vdla.config import PYNQ_Z1, Config
from vdla.sim import cycle


def drawn_conv(rng: np.random.Generator) -> Conv2d:
    """A small convolution of one to eight blocks."""
    kernel, size = int(rng.choice([1, 1, 3, 3, 5])), int(rng.choice([4, 7, 14, 21]))
    stride, depthwise = int(rng.choice([1, 1, 2])), bool(rng.random() < 0.3)
    blocks = int(rng.integers(1, 9))
    return Conv2d(
        batch_blocks=int(rng.integers(1, 3)),
        in_blocks=blocks,
        out_blocks=blocks if depthwise else int(rng.integers(1, 9)),
        height=size,
        width=size,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        padding=((kernel // 2, kernel // 2),) * 2,
        grouped=depthwise,
    )


def measured(conv: Conv2d, tile: ConvTile, config: Config) -> int:
    tensors = conv2d(conv, config)
    return timed(schedule_conv2d(tensors, tile, config), tensors, config)


def timed(schedule: Schedule, t: ConvTensors, config: Config) -> int:
    operator = build(schedule, [t.data, t.weights, t.params, t.result], config)
    return cycle.time(operator.program, operator.memory({})).cycles


@pytest.mark.parametrize("config", MATRIX, ids=lambda config: config.name)
def test_every_candidate_builds(config: Config) -> None:
    rng = np.random.default_rng(len(config.name))
    for _ in range(5):
        conv = drawn_conv(rng)
        square = config.block_in == config.block_out
        if conv.uops > 25_000 or (conv.grouped and not square):
            continue
        for vthreads in (1, 2):
            found = list(candidates(conv, config, vthreads))
            for n in rng.permutation(len(found))[:3]:
                assert measured(conv, found[n], config) > 0


def ranks(values: list[int]) -> np.ndarray:
    return np.argsort(np.argsort(values))


def test_estimates_rank_like_the_cycle_model() -> None:
    """Of layers and tiles drawn at random, good and bad ones alike."""
    rng = np.random.default_rng(5)
    truth: list[int] = []
    estimates: list[int] = []
    within: list[float] = []
    while len(truth) < 50:
        conv = drawn_conv(rng)
        if conv.uops > 60_000:
            continue
        found = list(candidates(conv, PYNQ_Z1, 2))
        tiles = [found[n] for n in rng.permutation(len(found))[:5]]
        truth += [measured(conv, tile, PYNQ_Z1) for tile in tiles]
        estimates += [play(conv, tile, PYNQ_Z1) for tile in tiles]
        if len(tiles) == 5:
            a, b = ranks(truth[-5:]), ranks(estimates[-5:])
            within.append(float(np.corrcoef(a, b)[0, 1]))
    error = np.abs(np.array(estimates) / np.array(truth) - 1)
    assert np.corrcoef(ranks(truth), ranks(estimates))[0, 1] > 0.99
    assert np.median(error) < 0.03
    assert np.mean(within) > 0.93


def test_a_measure_decides_among_the_best_estimates() -> None:
    conv = Conv2d(batch_blocks=1, in_blocks=4, out_blocks=8, height=14, width=14, kernel=(1, 1))
    asked: dict[ConvTile, int] = {}

    def measure(tile: ConvTile) -> int:
        asked[tile] = measured(conv, tile, PYNQ_Z1)
        return asked[tile]

    tile, cycles = choose_tile(conv, PYNQ_Z1, measure=measure)
    assert len(asked) > 5
    assert cycles == asked[tile] == min(asked.values())
    assert choose_tile(conv, PYNQ_Z1)[0] in asked


def test_a_node_is_lowered_with_the_measured_best() -> None:
    graph = nodes.conv2d((1, 14, 14, 64), 128, (1, 1))
    cycles: list[int] = []

    def rank(schedule: Schedule, tensors: ConvTensors) -> int:
        cycles.append(timed(schedule, tensors, PYNQ_Z1))
        return cycles[-1]

    lowered = lower_node(graph, graph.nodes[0], PYNQ_Z1, Scheduling(rank=rank))
    assert lowered.estimate_cycles == min(cycles)


@pytest.mark.parametrize(
    ("node", "utilization"),
    [("layer2_0_downsample", 0.70), ("layer3_0_downsample", 0.77), ("layer4_0_conv2", 0.98)],
)
def test_resnet18_layers_keep_the_core_busy(node: str, utilization: float) -> None:
    """Alone, start to done; requantization itself caps the first at 80 %, the second at 89 %."""
    graph = resnet18()
    lowered = lower_node(graph, graph.node(node), PYNQ_Z1)
    operator = build(
        lowered.schedule, [*lowered.inputs, *lowered.constants, lowered.result], PYNQ_Z1
    )
    cycles = cycle.time(operator.program, operator.memory({})).cycles
    assert graph.macs(graph.node(node)) / PYNQ_Z1.macs_per_cycle / cycles > utilization
    assert abs(lowered.estimate_cycles / cycles - 1) < 0.03


@pytest.mark.bench
def test_a_search_takes_half_a_second() -> None:
    conv = Conv2d(
        batch_blocks=1,
        in_blocks=32,
        out_blocks=32,
        height=7,
        width=7,
        kernel=(3, 3),
        padding=((1, 1), (1, 1)),
    )
    start = time.process_time()
    choose_tile(conv, PYNQ_Z1)
    assert time.process_time() - start < 0.5
