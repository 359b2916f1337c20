"""The rows of ``vdla bench gpu``: what each model reads, and what it takes beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from vdla.compiler.gpu import GpuNetwork, compile_network
from vdla.compiler.gpu.banks import network_passes
from vdla.compiler.gpu.loads import Loads, network_loads, unfused_loads
from vdla.compiler.onnx import import_onnx
from vdla.errors import VdlaError
from vdla.runtime.cli.gpu_models import CONVOLUTIONS, NETWORKS, PRODUCTS, Measured
from vdla.runtime.cli.torch_peer import TorchModel, missing_torch
from vdla.runtime.cli.versus import check_parts, in_turn, spread_of
from vdla.runtime.gpu_network import PlacedRun, place_network

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph
    from vdla.runtime.gpu import GpuDevice

__all__ = ["PARTS", "Settings", "rows_of"]

Row = dict[str, Any]

PARTS: Mapping[str, Mapping[str, Callable[[], Measured]]] = {
    "convs": CONVOLUTIONS,
    "products": PRODUCTS,
    "networks": NETWORKS,
}
APART = 1e-4
"""Of the largest output: sums of float32 in another order, and functions of another library."""


@dataclass(frozen=True)
class Settings:
    """How everything is measured.

    Attributes
    ----------
    repeats : int
        Samples of each side.
    least_seconds : float
        Of a sample: so many runs in a row.
    """

    repeats: int = 20
    least_seconds: float = 0.02


@dataclass(frozen=True)
class _Layouts:
    """Orders of axes: from the model's image to a network's, and from its output to the model's."""

    image: tuple[int, ...]
    output: tuple[int, ...]


def rows_of(
    parts: Sequence[str],
    device: GpuDevice | None,
    settings: Settings,
    progress: Callable[[int, int, str], None],
) -> list[Row]:
    """Count and measure, row by row; what cannot be measured here says why.

    Parameters
    ----------
    parts : sequence of str
        Of `PARTS`.
    device : GpuDevice or None
        None where there is none: then all is counted alone.
    settings : Settings
    progress : callable

    Returns
    -------
    list of dict
        ``part``, ``name``, ``what``, ``loads``, ``shared``; ``why`` where nothing is measured, or
        ``milliseconds``, ``peer_milliseconds`` with their quartiles, and ``ratio``.

    Raises
    ------
    InputError
        There is no such part.
    """
    check_parts(parts, PARTS)
    todo = [(part, name, make) for part in parts for name, make in PARTS[part].items()]
    rows = []
    for number, (part, name, make) in enumerate(todo):
        progress(number, len(todo), name)
        row: Row = {"part": part, "name": name}
        try:
            row |= _row(make(), device, settings)
        except VdlaError as error:
            row["why"] = str(error)
        rows.append(row)
    return rows


def _row(one: Measured, device: GpuDevice | None, settings: Settings) -> Row:
    graph, layouts = _in_own_layout(_imported(one.model))
    made = compile_network(graph)
    found: Row = {"what": one.what, "macs": sum(map(graph.macs, graph.nodes))}
    found["loads"] = {"fused": _counts(network_loads(made)), "apart": _counts(unfused_loads(graph))}
    plain = compile_network(graph, virtual=False)
    found["shared"] = {
        "pieces": vars(network_passes(made)),
        "one_piece": vars(network_passes(plain)),
    }
    if device is None:
        return {**found, "why": "there is no device"}
    if device.on_processor:
        return {**found, "why": f"{device.name} is the processor"}
    return {**found, **_timed(one, made, layouts, device, settings)}


def _imported(model: onnx.ModelProto) -> Graph:
    with TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "model.onnx")
        return import_onnx(Path(folder) / "model.onnx")


def _in_own_layout(graph: Graph) -> tuple[Graph, _Layouts]:
    """Return a graph without the transposes of its ends: neither side is charged for layouts.

    Before: ``image (1, 3, 8, 8) -> transpose -> conv2d -> transpose``. After: ``conv2d``, and the
    orders of axes ``(0, 2, 3, 1)`` and ``(0, 3, 1, 2)``.
    """
    (image,), (output,) = graph.inputs, graph.outputs
    nodes, orders = list(graph.nodes), []
    readers, (maker,) = graph.consumers(image), (n for n in nodes if output in n.outputs)
    for node, alone in ((readers[0], len(readers) == 1), (maker, not graph.consumers(output))):
        rank = len(graph.tensors[node.inputs[0]].shape)
        moves = node.op == "transpose" and alone
        orders.append(tuple(node.attrs["perm"]) if moves else tuple(range(rank)))
        if moves:
            nodes.remove(node)
    first, last = orders
    return graph.part(nodes), _Layouts(first, last)


def _counts(loads: Loads) -> dict[str, int]:
    return {**vars(loads), "unshared": loads.unshared}


def _timed(
    one: Measured, made: GpuNetwork, layouts: _Layouts, device: GpuDevice, settings: Settings
) -> Row:
    """Compare the output with PyTorch's, and then what both take, in turn."""
    why = missing_torch()
    if why:
        return {"why": why}
    placed, peer = place_network(made, device), TorchModel(one.model, one.image)
    (name,) = placed.code.inputs
    placed.write({name: np.ascontiguousarray(one.image.transpose(layouts.image))})
    placed.enqueue()
    peer.run()
    (made_here,), want = placed.read().values(), peer.output()
    found = made_here.transpose(layouts.output)
    apart = float(np.abs(found - want).max() / np.abs(want).max())
    if not apart <= APART:
        return {"apart": apart, "why": f"the outputs differ by {apart:.1e} of the largest"}
    return {"apart": apart, **_compared(placed, peer, device, settings)}


def _compared(placed: PlacedRun, peer: TorchModel, device: GpuDevice, settings: Settings) -> Row:
    sides: list[tuple[GpuDevice | TorchModel, Callable[[], None]]] = [
        (device, device.recorded(placed.enqueue)),
        (peer, peer.recorded()),
    ]
    calls = []
    for side, work in sides:
        side.seconds(work, 3)  # clocks rise
        once = side.seconds(work, 3)
        count = max(1, round(settings.least_seconds / max(once, 1e-7)))
        calls.append(partial(side.seconds, work, count))
    ours, theirs = in_turn(calls, settings.repeats)
    row: Row = {}
    for key, taken in (("", ours), ("peer_", theirs)):
        names = ("milliseconds", "milliseconds_low", "milliseconds_high")
        row |= {f"{key}{name}": 1e3 * t for name, t in zip(names, spread_of(taken), strict=True)}
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    names = ("ratio", "ratio_low", "ratio_high")
    return row | dict(zip(names, spread_of(ratios), strict=True))
