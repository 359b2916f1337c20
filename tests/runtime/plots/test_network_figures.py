"""Figures of one network: what is drawn is what the cycle model's log says, counted anew."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'vdla[host]'")
import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from tests.networks import residual
from vdla.config import TINY
from vdla.errors import InputError
from vdla.isa import Gemm, MemoryType, decode, sram_depth
from vdla.runtime import plots
from vdla.runtime.api import compile
from vdla.runtime.plots.style import CAUSES, KINDS
from vdla.runtime.trace import Timeline
from vdla.runtime.trace.buffers import buffer_levels


@pytest.fixture(autouse=True)
def no_figure_stays() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.of(compile(residual(), config=TINY, place={"sum": "cpu"}))


def test_points_of_the_roofline(timeline: Timeline) -> None:
    one = Timeline.of(compile(residual(), config=TINY, place={"sum": "cpu"}, vthreads=1))
    ax = plots.roofline(timeline.layers, TINY, without=one.layers, labels=False)
    _, hollow, full = ax.collections
    for dots, drawn in ((hollow, one), (full, timeline)):
        want = []
        for layer in drawn.module.layers:
            window = next((w for w in drawn.windows() if w[0] == layer.name), None)
            if window is None or not layer.macs:
                continue
            row = drawn.layers[drawn.layers["name"] == layer.name].iloc[0]
            busier = max(row["bytes_read"], row["bytes_written"])
            seconds = (window[2] - window[1]) / (TINY.clock_mhz * 1e6)
            want.append([2 * layer.macs / busier, 2 * layer.macs / seconds / 1e9])
        np.testing.assert_allclose(np.asarray(dots.get_offsets()), want)
    roof = ax.lines[0].get_xydata()
    # TINY: 16 multiply-accumulates a cycle, 8 bytes, 100 MHz.
    assert roof[1].tolist() == pytest.approx([4.0, 3.2])
    assert roof[0][1] == pytest.approx(roof[0][0] * 0.8)
    assert roof[2][1] == pytest.approx(3.2)


def test_names_of_a_crowded_roofline_do_not_touch_and_begin_with_the_lowest(
    timeline: Timeline,
) -> None:
    import pandas as pd

    count = 60
    at = np.random.default_rng(6).integers(1, 30, (2, count))
    crowd = pd.DataFrame({"name": [f"layer{k // 3}_{k % 3}_conv{k % 3}" for k in range(count)]})
    crowd = crowd.assign(macs=4000 * at[0], cycles=2000 * at[1], bytes_written=1)
    crowd["bytes_read"] = 1000 + 5 * crowd["cycles"]
    crowd.loc[7, ["macs", "cycles"]] = 1000, 60_000
    ax = plots.roofline(crowd, TINY)
    figure = ax.get_figure(root=True)
    figure.canvas.draw()
    named = [text for text in ax.texts if text.get_text() in set(crowd["name"])]
    assert named[0].get_text() == crowd["name"][7]
    boxes = [text.get_window_extent() for text in named]
    assert len(boxes) > 3
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_layers_are_named_where_a_name_can_be_read(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def texts(characters: int) -> list[str]:
        monkeypatch.setattr("vdla.runtime.plots.occupancy._NAME_CHARACTERS", characters)
        return [text.get_text() for text in plots.unit_occupancy(timeline).axes[0].texts]

    names = [name for name, _, _ in timeline.windows()]
    assert texts(10_000) == names
    few = texts(60)
    assert 0 < len(few) < len(names)
    assert all(text in names or len(text) >= 8 for text in few)
    assert texts(1) == []


def test_a_slower_memory_lowers_the_slope() -> None:
    assert plots.bandwidth_gbytes(TINY.replace(dram_bytes_per_cycle=2)) == pytest.approx(0.2)


@pytest.mark.parametrize("module", ["load", "compute", "store"])
def test_bars_of_causes_stack_to_each_layers_cycles(timeline: Timeline, module: str) -> None:
    layers = timeline.layers
    ax = plots.cycles_by_cause(layers, module=module)
    ends = np.zeros(len(layers))
    seen = {}
    for bars in ax.containers:
        for row, patch in enumerate(bars.patches):
            assert patch.get_x() == pytest.approx(ends[row])
            ends[row] += patch.get_width()
        seen[to_hex(bars.patches[0].get_facecolor())] = [p.get_width() for p in bars.patches]
    assert ends.tolist() == layers["cycles"].tolist()
    causes = {to_hex(colour): cause for cause, (_, colour) in CAUSES.items()}
    for colour, widths in seen.items():
        cause = causes[colour]
        if colour == to_hex(CAUSES["busy"][1]):
            cause = "gemm" if module == "compute" else "busy"
        assert widths == layers[f"{module}_{cause}"].tolist()
    assert [t.get_text() for t in ax.get_yticklabels()] == layers["name"].tolist()
    ax = plots.cycles_by_cause(layers, module=module, share=True)
    total = sum(p.get_width() for bars in ax.containers for p in bars.patches)
    assert total == pytest.approx(len(layers))


def test_a_module_that_is_none_is_refused(timeline: Timeline) -> None:
    with pytest.raises(InputError, match="module must be one of load, compute, store, not 'dma'"):
        plots.cycles_by_cause(timeline.layers, module="dma")


def test_one_layer_leaves_room_for_its_names_and_the_legend(timeline: Timeline) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = plots.cycles_by_cause(timeline.layers.head(1))
        figure = ax.get_figure(root=True)
        figure.canvas.draw()
    drawn, height = figure.get_tightbbox(), figure.get_size_inches()[1]
    assert drawn.y0 >= 0
    assert drawn.y1 <= height
    with pytest.raises(InputError, match="A plot of causes needs a row, and the table has none"):
        plots.cycles_by_cause(timeline.layers.head(0))
    with pytest.raises(InputError, match="A plot of causes needs a column 'compute_gemm'"):
        plots.cycles_by_cause(timeline.layers[["name", "cycles"]])
    with pytest.raises(InputError, match="A roofline needs a column 'macs'"):
        plots.roofline(timeline.layers[["name", "cycles"]], timeline.config)


def test_bars_of_units_are_the_busy_cycles(timeline: Timeline) -> None:
    begin, end = timeline.cycles // 4, timeline.cycles - 50
    figure = plots.unit_occupancy(timeline, (begin, end))
    kinds = {to_hex(colour): kind for kind, (_, colour) in KINDS.items()}
    for unit, ax in zip(("load", "compute", "store"), figure.axes[1:4], strict=True):
        drawn = {}
        for bars in ax.collections:
            boxes = [path.get_extents() for path in bars.get_paths()]
            kind = kinds[to_hex(bars.get_facecolor()[0])]
            drawn[kind] = drawn.get(kind, 0) + sum(box.width for box in boxes)
        spans = [
            (max(part.begin + b, begin), min(part.begin + e, end))
            for part in timeline.parts
            for b, e, cause in part.result.spans(unit).tolist()
            if cause == 0
        ]
        assert sum(drawn.values()) == pytest.approx(sum(max(e - b, 0) for b, e in spans))
        if unit == "store":
            assert drawn.keys() == {"store"}
    tokens = figure.axes[4].patches
    assert [line.get_label() for line in tokens] == [
        "load->compute",
        "compute->load",
        "compute->store",
        "store->compute",
    ]
    for line in tokens:
        cycles, levels = timeline.token_levels(str(line.get_label()))
        values, edges, _ = line.get_data()
        assert (edges[0], edges[-1]) == (begin, end)
        every = np.concatenate([[0], levels])
        for level, low, high in zip(values, edges, edges[1:], strict=False):
            at = np.searchsorted(cycles, np.arange(low, high), "right")
            assert set(every[at].tolist()) == {level}


def test_long_windows_show_shares_of_the_same_cycles(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vdla.runtime.plots.occupancy._MOST_BARS", 0)
    figure = plots.unit_occupancy(timeline)
    for unit, ax in zip(("load", "compute", "store"), figure.axes[1:4], strict=True):
        area = 0.0
        for patch in ax.patches:
            values, edges, baseline = patch.get_data()
            area += float(((values - baseline) * np.diff(edges)).sum())
        assert area == pytest.approx(timeline.counters[unit]["busy"])
        edges, cycles = plots.occupancy_bins(timeline, unit, bins=50)
        assert sum(counted.sum() for counted in cycles.values()) == round(area)
        assert len(edges) == 51


def test_a_window_past_the_end_is_refused(timeline: Timeline) -> None:
    late = (timeline.cycles, timeline.cycles + 10)
    with pytest.raises(InputError, match=f"A window must hold cycles of the run, 0:{late[0]}"):
        plots.unit_occupancy(timeline, late)


def settle(live: np.ndarray, begin: int, end: int) -> None:
    if end > begin:
        live[begin:end] += 1


def live_by_hand(timeline: Timeline, kind: MemoryType) -> np.ndarray:
    """Live entries of INP or WGT in each cycle, an entry and a cycle at a time."""
    live = np.zeros(timeline.cycles + 1, np.int64)
    for part in timeline.parts:
        program = timeline.module.programs[part.index]
        memory = timeline.memory()
        log, finish = part.result.state.log, part.result.finish
        uops = np.zeros(TINY.uop_depth, np.uint32)
        held: dict[int, list[int]] = {}
        mine = live[part.begin :]
        for index, one in enumerate(decode(program.instructions, TINY)):
            if index > program.finish:
                break
            where = getattr(one, "memory_type", None)
            if where is MemoryType.UOP and one.opcode.name == "LOAD":
                words = memory.view("<u4")[one.dram_base : one.dram_base + one.x_size]
                uops[one.sram_base : one.sram_base + one.x_size] = words
            elif where is kind and one.opcode.name == "LOAD":
                rows = one.y_pad_0 + one.y_size + one.y_pad_1
                width = one.x_pad_0 + one.x_size + one.x_pad_1
                for entry in range(one.sram_base, one.sram_base + rows * width):
                    settle(mine, *held.pop(entry, (0, 0)))
                    held[entry] = [int(log["first_write"][index]), -1]
            elif isinstance(one, Gemm) and not one.reset:
                dst, src = TINY.dst_index_bits, TINY.src_index_bits
                for outer in range(one.iter_out):
                    for inner in range(one.iter_in):
                        for word in uops[one.uop_begin : one.uop_end].tolist():
                            if kind is MemoryType.INP:
                                entry = word >> dst & (1 << src) - 1
                                factors = one.src_factor_out, one.src_factor_in
                            else:
                                entry = word >> (dst + src)
                                factors = one.wgt_factor_out, one.wgt_factor_in
                            entry += outer * factors[0] + inner * factors[1]
                            held[entry][1] = int(finish[index]) + 1
        for entry in list(held):
            settle(mine, *held.pop(entry, (0, 0)))
    return live


@pytest.mark.parametrize("kind", [MemoryType.INP, MemoryType.WGT])
def test_live_entries_are_those_of_a_walk_by_hand(timeline: Timeline, kind: MemoryType) -> None:
    cycles, levels = buffer_levels(timeline)[kind.name.lower()]
    want = live_by_hand(timeline, kind)
    at = np.searchsorted(cycles, np.arange(timeline.cycles), "right")
    got = np.concatenate([[0], levels])[at]
    assert want.max() > 0
    np.testing.assert_array_equal(got, want[: timeline.cycles])


def test_every_buffer_is_empty_in_the_end_and_never_over_full(timeline: Timeline) -> None:
    for name, (_, levels) in buffer_levels(timeline).items():
        assert levels[-1] == 0
        assert 0 <= levels.min() < levels.max() <= sram_depth(MemoryType[name.upper()], TINY)


def test_buffers_as_drawn(timeline: Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = buffer_levels(timeline)
    monkeypatch.setattr("vdla.runtime.plots.occupancy._MOST_BARS", 10)
    monkeypatch.setattr("vdla.runtime.plots.occupancy._BINS", 40)
    figure = plots.buffer_occupancy(timeline)
    names = [ax.get_ylabel() for ax in figure.axes]
    assert names == ["UOP", "INP", "WGT", "ACC", "OUT"]
    for name, ax in zip(names, figure.axes, strict=True):
        cycles, counts = levels[name.lower()]
        at = np.searchsorted(cycles, np.arange(timeline.cycles), "right")
        every = np.concatenate([[0], counts])[at] * 100 / sram_depth(MemoryType[name], TINY)
        most, mean = ax.patches
        for patch, reduce in ((most, np.max), (mean, np.mean)):
            values, edges, _ = patch.get_data()
            want = [reduce(every[int(a) : int(b)]) for a, b in zip(edges, edges[1:], strict=False)]
            np.testing.assert_allclose(values, want)
