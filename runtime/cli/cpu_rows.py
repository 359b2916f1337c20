"""The rows of ``vdla bench cpu``: what is measured against what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.errors import InputError, VdlaError
from vdla.processor import available_cores, features
from vdla.runtime.cli.chains import CHAINED, chain
from vdla.runtime.cli.peers import PEERS, missing_peer, onnx_call, our_call, peer_call
from vdla.runtime.cli.versus import Sample, alternate, check_parts, compared, spread_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from vdla.compiler.graph import Graph

__all__ = ["PARTS", "Settings", "rows_of"]

Row = dict[str, Any]

FEW, MANY = 2, 6
"""Of how many convolutions the two models are whose difference tells what one takes."""

_NETWORKS = ("resnet18", "resnet50", "mobilenet_v2")


@dataclass(frozen=True)
class Settings:
    """How everything is measured.

    Attributes
    ----------
    threads : int
    repeats : int
        Samples of each side.
    least_seconds : float
        Of a sample.
    """

    threads: int
    repeats: int
    least_seconds: float = 0.05


def rows_of(
    parts: Sequence[str], settings: Settings, progress: Callable[[int, int, str], None]
) -> list[Row]:
    """Measure parts, row by row; what cannot be measured here says why.

    Parameters
    ----------
    parts : sequence of str
        Of `PARTS`.
    settings : Settings
    progress : callable

    Returns
    -------
    list of dict
        ``part``, ``name``, ``peer``, and what `compared` finds, or ``why`` not.

    Raises
    ------
    InputError
        There is no such part.
    """
    check_parts(parts, PARTS)
    todo = [
        ({"part": part, **title}, measure) for part in parts for title, measure in PARTS[part]()
    ]
    rows = []
    for number, (title, measure) in enumerate(todo):
        progress(number, len(todo), f"{title['part']}: {title['name']}")
        try:
            found = measure(settings)
        except VdlaError as error:
            found = {"why": str(error)}
        rows.append({**title, **found})
    return rows


_Measure = Callable[[Settings], Row]
_Part = Iterator[tuple[Row, _Measure]]


def _convolutions() -> _Part:
    """Yield each convolution against ONNX Runtime's in the same chain."""
    for name, conv in CHAINED.items():

        def measure(settings: Settings, name: str = name) -> Row:
            return _convolution(name, settings)

        yield {"name": name, "what": str(conv), "peer": "onnxruntime"}, measure


def _convolution(name: str, settings: Settings) -> Row:
    from vdla.compiler.onnx import import_onnx

    conv = CHAINED[name]
    why = missing_peer("onnxruntime")
    if why:
        return {"why": why}
    shape = (1, conv.inputs, conv.size, conv.size)
    image = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    calls = []
    for count in (FEW, MANY):
        model = chain(conv, count)
        calls.append(our_call(import_onnx(model), image, settings.threads))
        calls.append(onnx_call("onnxruntime", model, image, settings.threads))
    apart = _apart(calls[2](), calls[3]())
    taken = alternate(calls, settings.repeats, settings.least_seconds)
    ours, theirs = (
        [_one_of(few, many) for few, many in zip(taken[side], taken[side + 2], strict=True)]
        for side in (0, 1)
    )
    found = compared(ours, theirs, threads=settings.threads)
    rates = {
        f"{side}gflops": 2e-6 * conv.macs / found[f"{side}milliseconds"] for side in ("", "peer_")
    }
    return {**found, **rates, "apart": apart}


def _one_of(few: Sample, many: Sample) -> Sample:
    return (many - few) / (MANY - FEW)


def _networks() -> _Part:
    """Yield whole networks of float32 against every peer."""
    for name in _NETWORKS:
        for peer in PEERS:

            def measure(settings: Settings, name: str = name, peer: str = peer) -> Row:
                return _network(_zoo(name, quantized=False), peer, settings)

            yield {"name": f"{name} float32", "peer": peer}, measure


def _int8() -> _Part:
    """Yield int8 networks, at the levels of the processor that matter for them."""
    levels = [
        ("resnet18 int8", None, (), "onnxruntime"),
        ("resnet18 int8, VNNI", "x86-64-vnni", ("avx512_vnni",), "onnxruntime"),
        ("resnet18 int8, AMX", "x86-64-amx", ("amx_int8",), "openvino"),
    ]
    for name, level, wanted, peer in levels:

        def measure(
            settings: Settings,
            level: str | None = level,
            wanted: tuple[str, ...] = wanted,
            peer: str = peer,
        ) -> Row:
            lacking = [feature for feature in wanted if feature not in features()]
            if lacking:
                return {"why": f"this processor lacks {', '.join(lacking)}"}
            return _network(_zoo("resnet18", quantized=True), peer, settings, level)

        yield {"name": name, "peer": peer}, measure


def _network(graph: Graph, peer: str, settings: Settings, level: str | None = None) -> Row:
    why = missing_peer(peer)
    if why:
        return {"why": why}
    image = _image(graph)
    ours = our_call(graph, image, settings.threads, level=level)
    theirs = peer_call(peer, graph, image, settings.threads)
    apart = _apart(ours(), theirs())
    taken = alternate([ours, theirs], settings.repeats, settings.least_seconds)
    return {**compared(*taken, threads=settings.threads), "apart": apart}


def _threads() -> _Part:
    """Yield what a second thread brings, here and to ONNX Runtime."""
    for name in _NETWORKS[:1]:

        def measure(settings: Settings, name: str = name) -> Row:
            return _second_thread(name, settings)

        yield {"name": f"{name} float32, 2 threads over 1", "peer": "onnxruntime"}, measure


def _second_thread(name: str, settings: Settings) -> Row:
    if available_cores() < 2:
        return {"why": "this process has one core alone"}
    why = missing_peer("onnxruntime")
    if why:
        return {"why": why}
    graph = _zoo(name, quantized=False)
    image = _image(graph)
    calls = [our_call(graph, image, threads) for threads in (1, 2)]
    calls += [peer_call("onnxruntime", graph, image, threads) for threads in (1, 2)]
    taken = alternate(calls, settings.repeats, settings.least_seconds)
    one, two, peer_one, peer_two = taken

    def gain(alone: Sequence[Sample], both: Sequence[Sample]) -> tuple[float, float, float]:
        return spread_of([a.wall / b.wall for a, b in zip(alone, both, strict=True)])

    middle, low, high = gain(one, two)
    return {
        "milliseconds": 1e3 * spread_of([s.wall for s in two])[0],
        "peer_milliseconds": 1e3 * spread_of([s.wall for s in peer_two])[0],
        "ratio": middle,
        "ratio_low": low,
        "ratio_high": high,
        "peer_ratio": gain(peer_one, peer_two)[0],
        # Both threads work or wait awake all the time, so this is the same where nothing disturbs.
        "cpu_ratio": 2 * spread_of([a.cpu / b.cpu for a, b in zip(one, two, strict=True)])[0],
        "clock": "wall",
    }


def _compilation() -> _Part:
    """Yield what compiling takes in a process that has compiled nothing yet."""
    for name in ("resnet18 float32", "resnet18 int8"):

        def measure(settings: Settings, name: str = name) -> Row:
            model, kind = name.split()
            return {"cpu_seconds": _cold_seconds(model, kind == "int8")}

        yield {"name": name, "peer": None}, measure


_COLD = """\
import json, os, sys, time
import vdla
from vdla.compiler import cpu, zoo
from vdla.compiler.cpu import pipeline
from vdla.runtime import api

graph = getattr(zoo, sys.argv[1])(quantized=sys.argv[2] == "True")
begin = os.times()
vdla.compile(graph, target="cpu", cache=False)
end = os.times()
print(json.dumps(sum(end[:4]) - sum(begin[:4])))
"""


def _cold_seconds(model: str, quantized: bool) -> float:
    """Return CPU seconds of all processes, imports left out."""
    done = subprocess.run(
        [sys.executable, "-c", _COLD, model, str(quantized)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise InputError(f"Compiling {model} failed: {done.stderr.strip().splitlines()[-1]}")
    return float(json.loads(done.stdout))


def _effects() -> _Part:
    """Yield what each step of the compiler brings: time and arena without it, over those with."""
    from vdla.compiler.cpu.pipeline import STEPS

    for step, what in STEPS.items():
        quantized = step == "pairs"
        name = f"resnet18 {'int8' if quantized else 'float32'} without {step}"

        def measure(settings: Settings, step: str = step, quantized: bool = quantized) -> Row:
            return _without(_zoo("resnet18", quantized=quantized), step, settings)

        yield {"name": name, "what": what, "peer": f"without {step}"}, measure


def _without(graph: Graph, step: str, settings: Settings) -> Row:
    image = _image(graph)
    (ours, arena), (theirs, larger) = (
        _compiled(graph, image, settings.threads, without) for without in ((), (step,))
    )
    apart = _apart(ours(), theirs())
    taken = alternate([ours, theirs], settings.repeats, settings.least_seconds)
    return {
        **compared(*taken, threads=settings.threads),
        "apart": apart,
        "arena_bytes": arena,
        "peer_arena_bytes": larger,
    }


def _compiled(
    graph: Graph, image: npt.NDArray[Any], threads: int, without: tuple[str, ...]
) -> tuple[Callable[[], npt.NDArray[Any]], int]:
    """Return a call of a network compiled without some steps, and the bytes of its arena."""
    from vdla.compiler.cpu.pipeline import compile_runs
    from vdla.compiler.targets.cpu.target import host_target
    from vdla.runtime.native import Library, aligned

    code = compile_runs(graph, [graph.nodes], host_target(), without=without)
    (run,) = code.runs
    target = graph.tensors[run.outputs[0]]
    output = aligned(target.shape, str(target.dtype))
    constants = aligned(code.constants.shape, "uint8")
    constants[:] = code.constants
    arena = aligned((run.memory.arena_bytes,), "uint8")
    library = Library(code.library, threads=threads)
    bound = library.function(run.name).bind(image, output, constants, arena)

    def call() -> npt.NDArray[Any]:
        bound()
        return output

    return call, run.memory.arena_bytes


PARTS: dict[str, Callable[[], _Part]] = {
    "convs": _convolutions,
    "networks": _networks,
    "int8": _int8,
    "threads": _threads,
    "effects": _effects,
    "compile": _compilation,
}
"""What can be measured alone, by name."""


def _zoo(name: str, *, quantized: bool) -> Graph:
    from vdla.compiler import zoo

    found: Graph = getattr(zoo, name)(quantized=quantized)
    return found


def _image(graph: Graph) -> npt.NDArray[Any]:
    source = graph.tensors[graph.inputs[0]]
    draw = np.random.default_rng(1)
    if source.dtype.kind == "f":
        return draw.normal(0, 1, source.shape).astype(source.dtype)
    return draw.integers(-128, 128, source.shape).astype(source.dtype)


def _apart(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    """Return the largest difference as a share of the largest value; of integers in steps."""
    wide = ours.astype(np.float64), theirs.astype(np.float64)
    most = float(np.abs(wide[0] - wide[1]).max())
    return most if ours.dtype.kind in "iu" else most / float(np.abs(wide[1]).max())
