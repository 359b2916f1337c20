"""Traces of whole networks, held to what their formats are and to what their readers make of them.

The Chrome trace event format is checked by rules written here from its definition; the VCD goes
through GTKWave's own reader and back, and is compared with the cycle model's log.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from vdla.runtime.trace import Timeline, write_perfetto, write_vcd

MODULES = ("load", "compute", "store")


def problems(document: Any) -> list[str]:
    """What of a document breaks the Chrome trace event format (its object form)."""
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["a trace is an object with a list of traceEvents"]
    found = []
    if document.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit is ms or ns")
    last: dict[tuple[Any, ...], float] = {}
    open_slices: dict[tuple[Any, Any], list[tuple[str, float]]] = defaultdict(list)
    for index, event in enumerate(document["traceEvents"]):
        kind = event.get("ph")
        where = f"event {index} ({kind})"
        if not isinstance(event.get("name"), str) or not isinstance(event.get("pid"), int):
            found.append(f"{where}: name is a string and pid a number")
        if kind == "M":
            wanted = {"process_name": "name", "thread_name": "name"}
            wanted |= {"process_sort_index": "sort_index", "thread_sort_index": "sort_index"}
            if wanted.get(event["name"]) not in event.get("args", {}):
                found.append(f"{where}: args say what the metadata is of")
            continue
        if kind not in ("X", "B", "E", "C"):
            found.append(f"{where}: a kind that nothing here writes")
            continue
        time = event.get("ts")
        if not isinstance(time, int | float) or isinstance(time, bool) or time < 0:
            found.append(f"{where}: ts is a number of microseconds")
            continue
        if kind == "C":
            values = event.get("args", {}).values()
            if not values or not all(type(value) in (int, float) for value in values):
                found.append(f"{where}: a counter's args are numbers")
            track: tuple[Any, ...] = (event["pid"], "counter", event["name"], event.get("id"))
        else:
            if not isinstance(event.get("tid"), int):
                found.append(f"{where}: tid is a number")
            track = (event["pid"], event.get("tid"))
            stack = open_slices[event["pid"], event.get("tid")]
            if kind == "X":
                length = event.get("dur")
                if type(length) not in (int, float) or length < 0:
                    found.append(f"{where}: dur is a number that is not negative")
                    continue
                while stack and stack[-1][0] == "X" and stack[-1][1] <= time:
                    stack.pop()
                if stack and stack[-1][0] == "X" and stack[-1][1] < time + length:
                    found.append(f"{where}: slices of a track nest or follow each other")
                stack.append(("X", time + length))
            elif kind == "B":
                stack.append(("B", time))
            elif not stack or stack.pop()[0] != "B":
                found.append(f"{where}: an E ends a B")
        if time < last.get(track, 0):
            found.append(f"{where}: ts of a track do not fall")
        last[track] = time
    left = [kind for stack in open_slices.values() for kind, _ in stack if kind == "B"]
    return found + ["every B has an E"] * len(left)


def some(kind: str, **fields: Any) -> dict[str, Any]:
    return {"ph": kind, "name": "a", "pid": 1, "tid": 1, "ts": 5, **fields}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([some("X", dur=3), some("X", ts=8, dur=0), some("C", args={"n": 1})], None),
        ([some("B"), some("X", dur=3), some("E", ts=9)], "an E ends a B"),
        ([some("B"), some("B", ts=6), some("E", ts=7), some("E", ts=9)], None),
        ([some("B")], "every B has an E"),
        ([some("E")], "an E ends a B"),
        ([some("X")], "dur is a number"),
        ([some("X", dur=-1)], "dur is a number"),
        ([some("X", dur=9), some("X", ts=7, dur=1)], None),
        ([some("X", dur=9), some("X", ts=7, dur=20)], "nest or follow"),
        ([some("X", dur=1), some("X", ts=2, dur=1)], "do not fall"),
        ([some("X", dur=1), some("X", tid=2, ts=2, dur=1)], None),
        ([some("C", args={"n": "1"})], "numbers"),
        ([some("C", args={"n": True})], "numbers"),
        ([some("X", dur=1, ts="5")], "ts is a number"),
        ([some("M", name="thread_name", args={})], "metadata"),
        ([some("Q")], "a kind"),
    ],
)
def test_the_rules_find_what_breaks_them(
    events: list[dict[str, Any]], expected: str | None
) -> None:
    found = problems({"traceEvents": events})
    assert (found == []) if expected is None else any(expected in one for one in found)


@pytest.fixture(scope="module", params=["digits", "resnet8"])
def timeline(request: pytest.FixtureRequest, shared_data: Path) -> Timeline:
    name = request.param
    source = shared_data / "mlperf_tiny" / "resnet8_int8.tflite" if name == "resnet8" else name
    return Timeline.of(vdla.compile(source))


@pytest.mark.parametrize("part", [None, (1 / 3, 1 / 2)])
def test_a_trace_keeps_the_format(timeline: Timeline, part: tuple[float, float] | None) -> None:
    window = None if part is None else tuple(int(share * timeline.cycles) for share in part)
    file = io.StringIO()
    count = write_perfetto(timeline, file, window)  # type: ignore[arg-type]
    document = json.loads(file.getvalue(), parse_constant=lambda text: pytest.fail(text))
    assert problems(document) == []
    kinds = [event["ph"] for event in document["traceEvents"]]
    assert count > 30
    assert kinds.count("X") + kinds.count("C") == count
    assert {"X", "C", "M"} == set(kinds)


def vcd_of(path: Path) -> dict[str, list[tuple[int, str]]]:
    """Each variable's changes in a VCD, read by the format's rules: numbers in decimal."""
    scope: list[str] = []
    names: dict[str, str] = {}
    changes: dict[str, list[tuple[int, str]]] = defaultdict(list)
    time = 0
    head, _, body = path.read_text("utf-8").partition("$enddefinitions $end")
    for line in head.splitlines():
        words = line.split()
        if words[:1] == ["$scope"]:
            scope.append(words[2])
        elif words[:1] == ["$upscope"]:
            scope.pop()
        elif words[:1] == ["$var"]:
            names[words[3]] = ".".join([*scope, words[4]])
    for line in body.split("\n"):
        if line.startswith("#"):
            time = int(line[1:])
        elif line.startswith(("b", "s")):
            value, code = line[1:].split(" ")
            number = line[0] == "b" and not set(value) - {"0", "1"}
            changes[names[code]].append((time, str(int(value, 2)) if number else value))
        elif line[:1] in ("0", "1", "x"):
            changes[names[line[1:]]].append((time, line[0]))
    return dict(changes)


def at(changes: list[tuple[int, str]], times: np.ndarray) -> list[str]:
    return [changes[k][1] for k in (np.searchsorted([t for t, _ in changes], times, "right") - 1)]


def test_gtkwave_reads_what_the_log_says(timeline: Timeline, tmp_path: Path) -> None:
    for tool in ("vcd2fst", "fst2vcd"):
        if shutil.which(tool) is None:
            pytest.skip("needs GTKWave's reader; install it with: apt-get install gtkwave")
    ours, waves, back = (tmp_path / f"trace{end}" for end in (".vcd", ".fst", ".back"))
    with ours.open("w", encoding="utf-8") as file:
        write_vcd(timeline, file)
    subprocess.run(["vcd2fst", ours, waves], check=True, capture_output=True, timeout=60)
    subprocess.run(["fst2vcd", waves, "-o", back], check=True, capture_output=True, timeout=60)
    signals = vcd_of(back)

    times = np.random.default_rng(8).integers(0, timeline.cycles, 300)
    (part,) = timeline.parts
    log, module_of = part.result.state.log, part.result.table.columns["module"]
    for m, module in enumerate(MODULES):
        mine = np.flatnonzero(module_of == m)
        held = (log["first_write"][mine, None] <= times) & (times < log["end_write"][mine, None])
        want = [str(mine[k.argmax()]) if k.any() else None for k in held.T]
        got = at(signals[f"vdla.{module}.instruction"], times)
        assert [None if "x" in value else value for value in got] == want
        waiting = (log["dispatch"][mine, None] < times) & (log["start"][mine, None] >= times)
        got = at(signals[f"vdla.{module}.commands"], times)
        assert got == [str(count) for count in waiting.sum(axis=0)]
        # Every instruction begins as a transition of its own.
        begun = [(t, v) for t, v in signals[f"vdla.{module}.instruction"] if "x" not in v]
        some = mine[log["first_write"][mine] < log["end_write"][mine]]
        assert begun == sorted((int(log["first_write"][i]), str(i)) for i in some)
    names = [name for _, name in signals["vdla.layer"]]
    assert names == [name for name, _, _ in timeline.windows()]
