"""A timeline as JSON that Perfetto and Chrome's tracing read, written event by event.

A cycle is a microsecond there: its integers stay integers at any clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from vdla.isa import TokenQueue, decode, line_of
from vdla.isa.listing import mnemonic_of
from vdla.runtime.streams import MODULES
from vdla.sim.cycle import Cause

from .timeline import Part, Timeline

__all__ = ["write_perfetto"]

Event = dict[str, Any]
Window = tuple[int, int]

_PID = 1
_LAYERS = 1  # tracks in the order in which they are shown
_TRACKS = {name.value: 2 + 2 * index for index, name in enumerate(MODULES)}
_DECODED_AT_ONCE = 1024  # instructions
_UNTOLD = (Cause.BUSY, Cause.IDLE)
"""Causes that are no waiting: the module's own track shows the first, the end is the second."""
_MEANING = {
    Cause.MEMORY: "memory",
    Cause.POP_PREV: "token of the module before",
    Cause.POP_NEXT: "token of the module behind",
    Cause.PUSH: "room in a token queue",
    Cause.PIPELINE: "pipeline",
    Cause.COMMAND: "instructions",
}


def write_perfetto(timeline: Timeline, file: IO[str], window: Window | None = None) -> int:
    """Write a timeline as a JSON trace.

    Tracks: the layers' windows; for each module the instructions that hold the part of it that
    works, and below it what it waits for; counters of each token queue and command queue.

    Parameters
    ----------
    timeline : Timeline
    file : text file
        Open for writing. One event is held in memory at a time, not the trace.
    window : (int, int), optional
        First cycle and the one past the last; what reaches beyond is cut, its arguments tell
        its own start and finish.

    Returns
    -------
    int
        Events written, without those that name tracks.
    """
    begin, end = (min(cycle, timeline.cycles) for cycle in window or (0, timeline.cycles))
    file.write('{"displayTimeUnit":"ms","otherData":')
    file.write(_json(_about(timeline, begin, end)) + ',"traceEvents":[\n')
    names = _names(timeline)
    file.write(",\n".join(_json(event) for event in names))
    count = 0
    for event in _events(timeline, (begin, end)) if begin < end else ():
        file.write(",\n" + _json(event))
        count += 1
    file.write("\n]}\n")
    return count


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _about(timeline: Timeline, begin: int, end: int) -> dict[str, Any]:
    return {
        "network": timeline.name,
        "configuration": timeline.config.name,
        "config_hash": f"{timeline.config.hash:016x}",
        "clock_mhz": timeline.config.clock_mhz,
        "unit": "1 microsecond shown is 1 cycle",
        "cycles": timeline.cycles,
        "window": [begin, end],
    }


def _events(timeline: Timeline, window: Window) -> Iterator[Event]:
    yield from _layers(timeline, window)
    for part in timeline.parts:
        for module in _TRACKS:
            yield from _instructions(part, module, window)
            yield from _waits(part, module, window)
    for queue in TokenQueue:
        levels = timeline.token_levels(queue.value)
        yield from _counter(f"tokens {queue.value}", "tokens", levels, window)
    for module in _TRACKS:
        levels = timeline.command_levels(module)
        yield from _counter(f"commands of {module}", "commands", levels, window)


def _names(timeline: Timeline) -> list[Event]:
    names = {_LAYERS: "layers"}
    for module, track in _TRACKS.items():
        names |= {track: module, track + 1: f"{module} waits for"}
    title = f"{timeline.name} on {timeline.config.name}, 1 us = 1 cycle"
    events: list[Event] = [_meta("process_name", 0, name=title)]
    for track, name in names.items():
        events.append(_meta("thread_name", track, name=name))
        events.append(_meta("thread_sort_index", track, sort_index=track))
    return events


def _meta(kind: str, track: int, **args: Any) -> Event:
    return {"ph": "M", "pid": _PID, "tid": track, "name": kind, "args": args}


def _slice(track: int, name: str, category: str, begin: int, end: int, args: Any) -> Event:
    return {
        "ph": "X",
        "pid": _PID,
        "tid": track,
        "name": name,
        "cat": category,
        "ts": begin,
        "dur": end - begin,
        "args": args,
    }


def _layers(timeline: Timeline, window: Window) -> Iterator[Event]:
    table = timeline.layers[["name", "op", "begin", "end", "macs", "bytes_read", "bytes_written"]]
    for row in table.to_dict("records"):
        begin, end = max(row["begin"], window[0]), min(row["end"], window[1])
        if begin < end:
            args = {k: v for k, v in row.items() if k != "name"}
            args["cycles"] = row["end"] - row["begin"]
            yield _slice(_LAYERS, row["name"], "layer", begin, end, args)


def _instructions(part: Part, module: str, window: Window) -> Iterator[Event]:
    low, high = window[0] - part.begin, window[1] - part.begin
    slices = part.slices(module)
    # Both ends ascend: what the window meets stands together.
    first = int(np.searchsorted(slices.end, low, "right"))
    last = int(np.searchsorted(slices.begin, high, "left"))
    program, log = part.result.program, part.result.state.log
    labels, layer_of = program.labels, program.layer_of
    for chunk in range(first, last, _DECODED_AT_ONCE):
        rows = slice(chunk, min(chunk + _DECODED_AT_ONCE, last))
        indices = slices.instruction[rows]
        words = program.instructions[indices]
        for index, instruction, begin, end, busy in zip(
            indices.tolist(),
            decode(words, program.config),
            slices.begin[rows].tolist(),
            slices.end[rows].tolist(),
            slices.busy[rows].tolist(),
            strict=True,
        ):
            layer = labels[layer_of[index]] if layer_of[index] >= 0 else ""
            times = {
                name: part.begin + int(log[name][index])
                for name in ("dispatch", "start", "ready", "finish")
            }
            args = {
                "program": part.index,
                "instruction": index,
                "listing": line_of(instruction),
                **times,
                "busy": busy,
            }
            name = f"{layer} {mnemonic_of(instruction)}".strip()
            begin, end = max(begin, low), min(end, high)
            yield _slice(_TRACKS[module], name, module, part.begin + begin, part.begin + end, args)


def _waits(part: Part, module: str, window: Window) -> Iterator[Event]:
    spans = part.result.spans(module)
    spans = spans[~np.isin(spans["cause"], _UNTOLD)]
    low, high = window[0] - part.begin, window[1] - part.begin
    inside = spans[(spans["end"] > low) & (spans["begin"] < high)]
    for begin, end, cause in inside.tolist():
        yield _slice(
            _TRACKS[module] + 1,
            _MEANING[Cause(cause)],
            "wait",
            part.begin + max(begin, low),
            part.begin + min(end, high),
            {"cause": Cause(cause).name.lower(), "cycles": end - begin},
        )


def _counter(
    name: str,
    unit: str,
    levels: tuple[NDArray[np.int64], NDArray[np.int64]],
    window: Window,
) -> Iterator[Event]:
    for cycle, level in within(*levels, window):
        yield {"ph": "C", "pid": _PID, "name": name, "ts": cycle, "args": {unit: level}}


def within(
    cycles: NDArray[np.int64], levels: NDArray[np.int64], window: Window
) -> Iterable[tuple[int, int]]:
    """Return the level at a window's begin, and each change in it."""
    first = int(np.searchsorted(cycles, window[0], "right"))
    last = int(np.searchsorted(cycles, window[1], "left"))
    at_begin = int(levels[first - 1]) if first else 0
    changes = zip(cycles[first:last].tolist(), levels[first:last].tolist(), strict=True)
    return [(window[0], at_begin), *changes]
