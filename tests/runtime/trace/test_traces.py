"""Traces hold what the cycle model's log says: counted anew from the file that was written."""

from __future__ import annotations

import gzip
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.networks import residual
from vdla.config import TINY, Config
from vdla.errors import InputError
from vdla.isa import decode
from vdla.runtime.api import compile
from vdla.runtime.trace import Timeline, Trace, write_perfetto, write_trace, write_vcd

MODULES = ("load", "compute", "store")
QUEUES = ("load->compute", "compute->load", "compute->store", "store->compute")
SHALLOW = TINY.replace(token_queue_depth=2, command_queue_depth=4)
CASES: dict[str, tuple[Config, dict[str, str]]] = {
    "one program": (TINY, {}),
    "two programs": (TINY, {"sum": "cpu"}),
    "shallow queues": (SHALLOW, {}),
}


@pytest.fixture(scope="module", params=CASES)
def timeline(request: pytest.FixtureRequest) -> Timeline:
    config, place = CASES[request.param]
    found = Timeline.of(compile(residual(), config=config, place=place))
    assert len(found.parts) == (2 if place else 1)
    return found


def events_of(timeline: Timeline, window: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    file = io.StringIO()
    count = write_perfetto(timeline, file, window)
    events = json.loads(file.getvalue())["traceEvents"]
    assert sum(event["ph"] != "M" for event in events) == count
    return list(events)


def tracks_of(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[names[event["tid"]]].append(event)
    return dict(tracks)


def test_slices_of_a_track_follow_each_other(timeline: Timeline) -> None:
    for name, slices in tracks_of(events_of(timeline)).items():
        for before, after in zip(slices, slices[1:], strict=False):
            assert before["ts"] + before["dur"] <= after["ts"], name
        assert slices[0]["ts"] >= 0
        assert slices[-1]["ts"] + slices[-1]["dur"] <= timeline.cycles


def test_each_instruction_is_one_slice_with_its_times(timeline: Timeline) -> None:
    tracks = tracks_of(events_of(timeline))
    found = {}
    for module in MODULES:
        for event in tracks[module]:
            args = event["args"]
            found[args["program"], args["instruction"]] = event
            assert args["start"] <= event["ts"]
            assert event["ts"] + event["dur"] <= args["finish"] + 1
            layer = event["name"].rpartition(" ")[0]
            assert args["listing"].startswith(event["name"].split()[-1])
            program = timeline.module.programs[args["program"]]
            at = program.layer_of[args["instruction"]]
            assert layer == ("" if at < 0 else program.labels[at])
    want = {
        (k, i)
        for k, program in enumerate(timeline.module.programs)
        for i in range(program.finish + 1)
    }
    assert found.keys() == want
    first = timeline.parts[-1]
    event = found[first.index, 0]
    assert event["args"]["start"] == first.begin + first.result.start[0]
    assert event["args"]["finish"] == first.begin + first.result.finish[0]


def test_busy_and_waiting_cycles_are_the_counters(timeline: Timeline) -> None:
    tracks = tracks_of(events_of(timeline))
    for module, counted in timeline.counters.items():
        assert sum(e["args"]["busy"] for e in tracks[module]) == counted["busy"]
        waits: dict[str, int] = defaultdict(int)
        for event in tracks[f"{module} waits for"]:
            waits[event["args"]["cause"]] += event["dur"]
            assert event["dur"] == event["args"]["cycles"]
        told = {k: n for k, n in counted.items() if n and k not in ("busy", "idle")}
        assert waits == told


def test_layers_tile_the_run(timeline: Timeline) -> None:
    layers = tracks_of(events_of(timeline))["layers"]
    assert layers[0]["ts"] == 0
    assert sum(e["dur"] for e in layers) == timeline.cycles
    names = [e["name"] for e in layers]
    assert {"stem", "body", "down", "pool", "dense"} <= set(names)


def test_levels_follow_the_flags_and_end_at_none(timeline: Timeline) -> None:
    counters = defaultdict(list)
    for event in events_of(timeline):
        if event["ph"] == "C":
            (level,) = event["args"].values()
            counters[event["name"]].append((event["ts"], level))
    assert counters.keys() == {f"tokens {q}" for q in QUEUES} | {
        f"commands of {m}" for m in MODULES
    }
    for name, changes in counters.items():
        levels = [level for _, level in changes]
        depth = (
            timeline.config.token_queue_depth
            if name.startswith("tokens")
            else timeline.config.command_queue_depth
        )
        assert min(levels) >= 0
        assert max(levels) <= depth
        assert levels[-1] == 0
        assert [t for t, _ in changes] == sorted(t for t, _ in changes)
    # Pushes, counted from the instructions themselves, are what the levels rise by.
    pushes: dict[str, int] = defaultdict(int)
    for part in timeline.parts:
        program = timeline.module.programs[part.index]
        module_of = part.result.table.columns["module"]
        for index, instruction in enumerate(decode(program.instructions, program.config)):
            if index > program.finish:
                break
            who = MODULES[module_of[index]]
            at = MODULES.index(who)
            if instruction.push_prev:
                pushes[f"{who}->{MODULES[at - 1]}"] += 1
            if instruction.push_next:
                pushes[f"{who}->{MODULES[at + 1]}"] += 1
    for queue, count in pushes.items():
        levels = [level for _, level in counters[f"tokens {queue}"]]
        rises = sum(max(b - a, 0) for a, b in zip(levels, levels[1:], strict=False))
        assert 0 < rises <= count  # a push and a pop of one cycle leave the level


def test_a_window_holds_what_it_meets_and_no_more(timeline: Timeline) -> None:
    every = tracks_of(events_of(timeline))
    begin, end = timeline.cycles // 3, timeline.cycles // 2
    inside = tracks_of(events_of(timeline, (begin, end)))
    for name, slices in every.items():
        want = [
            (max(e["ts"], begin), min(e["ts"] + e["dur"], end), e["name"])
            for e in slices
            if e["ts"] + e["dur"] > begin and e["ts"] < end
        ]
        got = [(e["ts"], e["ts"] + e["dur"], e["name"]) for e in inside.get(name, [])]
        assert got == want
    assert events_of(timeline, (timeline.cycles, timeline.cycles + 5))[-1]["ph"] == "M"


def test_a_compressed_trace_is_the_same(timeline: Timeline, tmp_path: Path) -> None:
    write_trace(timeline, Trace(tmp_path / "a.json", (0, 500)))
    write_trace(timeline, Trace(tmp_path / "a.json.gz", (0, 500)))
    with gzip.open(tmp_path / "a.json.gz", "rt") as file:
        assert file.read() == (tmp_path / "a.json").read_text()


def signals_of(path: Path) -> dict[str, list[tuple[int, Any]]]:
    pywellen = pytest.importorskip(
        "pywellen", reason="needs a reader of waves; install it with: pip install 'vdla[verify]'"
    )
    return {v.full_name: list(v.signal) for v in pywellen.Waveform(str(path)).all_vars()}


def sampled(changes: list[tuple[int, Any]], times: np.ndarray) -> list[Any]:
    at = np.searchsorted([time for time, _ in changes], times, "right") - 1
    return [changes[k][1] for k in at.tolist()]


def test_a_vcd_reads_back_as_what_the_log_says(timeline: Timeline, tmp_path: Path) -> None:
    write_trace(timeline, Trace(tmp_path / "a.vcd"))
    signals = signals_of(tmp_path / "a.vcd")
    times = np.random.default_rng(3).integers(0, timeline.cycles, 400)
    for part in timeline.parts:
        result, program = part.result, timeline.module.programs[part.index]
        mine = times[(times >= part.begin) & (times < part.begin + result.cycles)] - part.begin
        log, module_of = result.state.log, result.table.columns["module"]
        for m, module in enumerate(MODULES):
            held = sampled(signals[f"vdla.{module}.instruction"], mine + part.begin)
            for time, value in zip(mine.tolist(), held, strict=True):
                who = np.flatnonzero(
                    (module_of == m) & (log["first_write"] <= time) & (time < log["end_write"])
                )
                assert value == (who[0] if len(who) else "x" * len(str(value)))
            waiting = (module_of == m)[:, None] & (log["dispatch"][:, None] < mine)
            waiting &= log["start"][:, None] >= mine
            commands = sampled(signals[f"vdla.{module}.commands"], mine + part.begin)
            assert commands == waiting.sum(axis=0).tolist()
        ends = np.array([layer.end for layer in result.layers])
        names = [result.layers[k].name for k in np.searchsorted(ends, mine, "right")]
        assert sampled(signals["vdla.layer"], mine + part.begin) == names
        assert sampled(signals["vdla.program"], mine + part.begin) == [part.index] * len(mine)
        assert program.config.hash == timeline.config.hash
    for module, counted in timeline.counters.items():
        states: dict[str, int] = defaultdict(int)
        changes = [*signals[f"vdla.{module}.state"], (timeline.cycles, "")]
        for (begin, state), (end, _) in zip(changes, changes[1:], strict=False):
            states[state] += end - begin
        assert states == {k: n for k, n in counted.items() if n}
    for queue in QUEUES:
        levels = [n for _, n in signals[f"vdla.tokens.{queue.replace('->', '_to_')}"]]
        assert min(levels) == levels[-1] == 0


def test_a_window_of_a_vcd_starts_with_every_value(timeline: Timeline, tmp_path: Path) -> None:
    begin, end = timeline.cycles // 3, timeline.cycles // 3 + 300
    write_trace(timeline, Trace(tmp_path / "all.vcd"))
    write_trace(timeline, Trace(tmp_path / "some.vcd", (begin, end)))
    every, some = signals_of(tmp_path / "all.vcd"), signals_of(tmp_path / "some.vcd")
    assert every.keys() == some.keys()
    times = np.arange(begin, end)
    for name, changes in some.items():
        assert changes[0][0] == begin
        assert sampled(changes, times) == sampled(every[name], times), name
    assert write_vcd(timeline, io.StringIO(), (timeline.cycles, timeline.cycles + 1)) == 0


def test_the_layers_table_sums_to_the_counters(timeline: Timeline) -> None:
    table = timeline.layers
    assert table["cycles"].sum() == timeline.cycles
    for module, counted in timeline.counters.items():
        for cause, count in counted.items():
            assert table[f"{module}_{cause}"].sum() == count
    assert (
        table["compute_gemm"] + table["compute_alu"] + table["compute_load"]
        == table["compute_busy"]
    ).all()
    slots = sum(
        int(part.result.state.log["busy"][part.result.table.columns["opcode"] == 2].sum())
        for part in timeline.parts
    )
    assert table["compute_gemm"].sum() == slots


def test_the_same_programs_on_another_memory() -> None:
    network = compile(residual(), config=TINY)
    plain = Timeline.of(network)
    slow = Timeline.of(network, dram_latency_cycles=300)
    assert slow.cycles > plain.cycles
    assert slow.config == TINY.replace(dram_latency_cycles=300)
    assert Timeline.of(network, dram_latency_cycles=TINY.dram_latency_cycles).cycles == plain.cycles


def test_what_needs_another_program_is_refused() -> None:
    network = compile(residual(), config=TINY)
    with pytest.raises(InputError, match="A timeline may change axi_burst_beats, .*, not block_in"):
        Timeline.of(network, block_in=8)


def test_a_network_on_the_cpu_has_no_timeline() -> None:
    network = compile(residual(), config=TINY, place={"*": "cpu"})
    with pytest.raises(InputError, match="A timeline needs a program, and nothing of residual"):
        Timeline.of(network)


@pytest.mark.parametrize(
    ("name", "window", "message"),
    [
        ("a.txt", None, "A trace must end in .json, .json.gz, .vcd, not be a.txt"),
        ("a.json", (5, 5), "A window must be START:STOP with 0 <= START < STOP"),
        ("no/such/a.vcd", None, "A trace must be in a folder that can be written: no/such/a.vcd"),
    ],
)
def test_what_cannot_be_written_is_refused(
    name: str, window: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        Trace(Path(name), window)
    assert message in str(error.value)
    assert not list(tmp_path.iterdir())
