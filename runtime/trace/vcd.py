"""A timeline as a VCD file: the state of each unit and the levels of each queue.

A unit of time is a cycle, written as a nanosecond. Names of states, layers and mnemonics are
variables of type ``string``, as GTKWave and Surfer read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from vdla.isa import TokenQueue, decode
from vdla.isa.listing import mnemonic_of
from vdla.runtime.streams import MODULES
from vdla.sim.cycle import Cause

from .timeline import Part, Timeline

__all__ = ["write_vcd"]

Window = tuple[int, int]
Ints = NDArray[np.int64]

_CYCLES_AT_ONCE = 1 << 18
"""How many cycles' changes are in memory as text at a time."""
_NONE = -1
"""No instruction, no layer."""
_FIRST_CODE, _CODES = 33, 94  # printable characters


@dataclass(frozen=True)
class _Signal:
    """Changes of one variable from `before` on; `names` makes it a string, `bits` a number."""

    path: tuple[str, ...]
    cycles: Ints
    values: Ints
    bits: int = 0
    names: tuple[str, ...] = ()
    before: int = 0

    def text(self, value: int) -> str:
        if self.names:
            return f"s{self.names[value] if value != _NONE else '-'} "
        if value == _NONE:
            return "bx "
        return str(value) if self.bits == 1 else f"b{value:b} "


def write_vcd(timeline: Timeline, file: IO[str], window: Window | None = None) -> int:
    """Write a timeline as VCD.

    Variables: ``layer`` and ``program``; of each module its ``state`` (a cause, or ``busy``), the
    ``instruction`` and ``mnemonic`` that hold the part of it that works, and the ``commands`` in
    its queue; of each token queue its level.

    Parameters
    ----------
    timeline : Timeline
    file : text file
    window : (int, int), optional
        First cycle and the one past the last.

    Returns
    -------
    int
        Changes written.
    """
    begin, end = window or (0, timeline.cycles)
    end = min(end, timeline.cycles)
    signals = _signals(timeline)
    codes = [_code(index) for index in range(len(signals))]
    file.write(
        f"$version vdla cycle model, {_word(timeline.name)} on {_word(timeline.config.name)}, "
        "1 ns is 1 cycle $end\n$timescale 1 ns $end\n"
    )
    _declare(signals, codes, file)
    if begin >= end:
        return 0
    file.write(f"#{begin}\n$dumpvars\n")
    for signal, code in zip(signals, codes, strict=True):
        at = int(np.searchsorted(signal.cycles, begin, "right")) - 1
        value = int(signal.values[at]) if at >= 0 else signal.before
        file.write(f"{signal.text(value)}{code}\n")
    file.write("$end\n")
    count = 0
    for low in range(begin + 1, end, _CYCLES_AT_ONCE):
        count += _changes(signals, codes, file, low, min(low + _CYCLES_AT_ONCE, end))
    file.write(f"#{end}\n")
    return count


def _changes(signals: list[_Signal], codes: list[str], file: IO[str], low: int, high: int) -> int:
    """Write what changes in cycles low to high - 1."""
    cycles, who, values = [], [], []
    for index, signal in enumerate(signals):
        first, last = np.searchsorted(signal.cycles, [low, high], "left")
        cycles.append(signal.cycles[first:last])
        values.append(signal.values[first:last])
        who.append(np.full(last - first, index))
    times = np.concatenate(cycles)
    order = np.argsort(times, kind="stable")
    now = low - 1
    rows = (times[order], np.concatenate(who)[order], np.concatenate(values)[order])
    for time, index, value in zip(*(row.tolist() for row in rows), strict=True):
        if time != now:
            file.write(f"#{time}\n")
            now = time
        file.write(f"{signals[index].text(value)}{codes[index]}\n")
    return len(times)


def _declare(signals: list[_Signal], codes: list[str], file: IO[str]) -> None:
    scope: tuple[str, ...] = ()
    for signal, code in zip(signals, codes, strict=True):
        *wanted, name = signal.path
        while scope != tuple(wanted[: len(scope)]):
            file.write("$upscope $end\n")
            scope = scope[:-1]
        for part in wanted[len(scope) :]:
            file.write(f"$scope module {part} $end\n")
            scope = (*scope, part)
        kind = f"string 1 {code} {name}" if signal.names else f"wire {signal.bits} {code} {name}"
        file.write(f"$var {kind} $end\n")
    file.write("$upscope $end\n" * len(scope) + "$enddefinitions $end\n")


def _signals(timeline: Timeline) -> list[_Signal]:
    windows = list(timeline.windows())
    names = tuple(dict.fromkeys(_word(name) for name, _, _ in windows)) or ("none",)
    index_of = {name: index for index, name in enumerate(names)}
    begins = np.array([begin for _, begin, _ in windows], np.int64)
    layer = np.array([index_of[_word(name)] for name, _, _ in windows], np.int64)
    parts = timeline.parts
    found = [
        _Signal(("vdla", "layer"), begins, layer, names=names),
        _Signal(
            ("vdla", "program"),
            np.array([part.begin for part in parts]),
            np.array([part.index for part in parts]),
            bits=_bits(max(part.index for part in parts)),
        ),
    ]
    for module in MODULES:
        found += _of_module(timeline, module.value)
    for queue in TokenQueue:
        cycles, levels = timeline.token_levels(queue.value)
        name = queue.value.replace("->", "_to_")
        bits = _bits(timeline.config.token_queue_depth)
        found.append(_Signal(("vdla", "tokens", name), cycles, levels, bits))
    return found


def _of_module(timeline: Timeline, module: str) -> Iterator[_Signal]:
    states = [(part.begin, part.result.spans(module)) for part in timeline.parts]
    yield _Signal(
        ("vdla", module, "state"),
        np.concatenate([begin + spans["begin"] for begin, spans in states]),
        np.concatenate([spans["cause"].astype(np.int64) for _, spans in states]),
        names=tuple(cause.name.lower() for cause in Cause),
    )
    held = [_held(part, module) for part in timeline.parts]
    cycles = np.concatenate([at for at, _, _ in held])
    most = max(len(part.result.start) for part in timeline.parts)
    indices = np.concatenate([index for _, index, _ in held])
    yield _Signal(("vdla", module, "instruction"), cycles, indices, _bits(most), before=_NONE)
    words = [word for _, _, named in held for word in named]
    known = tuple(dict.fromkeys(words)) or ("-",)
    code = {word: index for index, word in enumerate(known)} | {"": _NONE}
    named = np.array([code[word] for word in words], np.int64)
    yield _Signal(("vdla", module, "mnemonic"), cycles, named, names=known, before=_NONE)
    cycles, levels = timeline.command_levels(module)
    bits = _bits(timeline.config.command_queue_depth)
    yield _Signal(("vdla", module, "commands"), cycles, levels, bits)


def _held(part: Part, module: str) -> tuple[Ints, Ints, list[str]]:
    """Return when what holds a module changes, to which instruction (or none), its mnemonic."""
    slices = part.slices(module)
    some = slices.begin < slices.end
    begin, end = slices.begin[some], slices.end[some]
    indices = slices.instruction[some]
    program = part.result.program
    words = [mnemonic_of(i) for i in decode(program.instructions[indices], program.config)]
    # An end is a change of its own where the next does not begin in the same cycle.
    free = np.append(end[:-1] < begin[1:], end[-1:] < part.result.cycles)
    cycles = np.concatenate([begin, end[free]])
    order = np.argsort(cycles, kind="stable")
    every = [*words, *[""] * int(free.sum())]
    values = np.concatenate([indices, np.full(int(free.sum()), _NONE)])
    return part.begin + cycles[order], values[order], [every[at] for at in order.tolist()]


def _bits(most: int) -> int:
    return max(int(most).bit_length(), 1)


def _word(name: str) -> str:
    return "_".join(name.split()) or "-"


def _code(index: int) -> str:
    """Return the short name that VCD has for variable number `index`."""
    text = ""
    while True:
        index, digit = divmod(index, _CODES)
        text += chr(_FIRST_CODE + digit)
        if index == 0:
            return text
