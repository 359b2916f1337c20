"""The rows of ``vdla bench gpu``: what each model reads, and what it takes beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx

from vdla.compiler.gpu import GpuNetwork, compile_network
from vdla.compiler.gpu.banks import network_passes
from vdla.compiler.gpu.loads import Loads, loads_of, network_loads, unfused_networks
from vdla.compiler.onnx import import_onnx
from vdla.errors import VdlaError
from vdla.runtime.cli.gpu_models import CONVOLUTIONS, LSTM, NETWORKS, PRODUCTS, Measured
from vdla.runtime.cli.torch_peer import TorchLstm, TorchModel, missing_torch
from vdla.runtime.cli.versus import check_parts, in_turn, spread_of
from vdla.runtime.gpu_network import place_network

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
DTYPES = ("float32", "float16")
"""How floats lie in memory; of float16 products are computed by tensor cores, in CUDA C."""
APART = 1e-4
"""Of the largest output: sums of float32 in another order, and functions of another library."""
_HALF = 2.0**-11
"""By which rounding to float16 may change a value, of itself."""
_ROUNDED = ("conv2d", "conv_transpose2d", "dense", "depthwise_conv2d", "matmul")
"""Operators whose weights and activations are rounded to float16."""


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


@dataclass(frozen=True)
class _Made:
    """A model's kernels, and others that compute the same, to say what each thing is worth.

    Attributes
    ----------
    kernels : GpuNetwork
    others : mapping of str to tuple of GpuNetwork
        By what is different: each runs in the place of `kernels`.
    dtype : str
    within : float
        Of the largest output: how far PyTorch's in float32 may lie away.
    """

    kernels: GpuNetwork
    others: Mapping[str, tuple[GpuNetwork, ...]]
    dtype: str
    within: float


def rows_of(
    parts: Sequence[str],
    device: GpuDevice | None,
    settings: Settings,
    progress: Callable[[int, int, str], None],
    dtypes: Sequence[str] = DTYPES,
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
    dtypes : sequence of str
        Of `DTYPES`.

    Returns
    -------
    list of dict
        ``part``, ``name``, ``dtype``, ``what``, ``macs``, ``loads``, in float32 ``shared``, in
        float16 ``warp_calls``, kernels by tensor cores; ``why`` where nothing is measured, or
        ``milliseconds``, ``peer_milliseconds`` with their quartiles, ``ratio``, and ``effects``:
        how many times as long it takes otherwise, with quartiles.

    Raises
    ------
    InputError
        There is no such part.
    """
    check_parts(parts, PARTS)
    todo = [
        (part, name, make, dtype)
        for part in parts
        for name, make in PARTS[part].items()
        for dtype in dtypes
    ]
    rows = []
    for number, (part, name, make, dtype) in enumerate(todo):
        progress(number, len(todo), f"{name} in {dtype}")
        row: Row = {"part": part, "name": name, "dtype": dtype}
        try:
            row |= _row(make(), dtype, device, settings)
        except (VdlaError, RuntimeError) as error:  # PyTorch's too: what was measured stays
            row["why"] = str(error)
        rows.append(row)
    return rows


def _row(one: Measured, dtype: str, device: GpuDevice | None, settings: Settings) -> Row:
    graph, layouts = _in_own_layout(_imported(one.model))
    found: Row = {"what": one.what, "macs": sum(map(graph.macs, graph.nodes))}
    if dtype == "float32":
        counts, made = _in_floats(graph, timed=device is not None and not device.on_processor)
    else:
        counts, made = _in_halves(graph, warps=device is None or device.target == "cuda")
    found |= counts
    if device is None:
        return {**found, "why": "there is no device"}
    if device.on_processor:
        return {**found, "why": f"{device.name} is the processor"}
    return {**found, **_timed(one, made, layouts, device, settings)}


def _in_floats(graph: Graph, *, timed: bool) -> tuple[Row, _Made]:
    """Return what is counted of a network in float32, and its kernels."""
    made, one_piece = (compile_network(graph, virtual=virtual) for virtual in (True, False))
    alone = unfused_networks(graph)
    fused, apart = network_loads(made), network_loads(*alone)
    passes = {"pieces": network_passes(made), "one_piece": network_passes(one_piece)}
    counts = {
        "loads": {"fused": _counts(fused), "apart": _counts(apart)},
        "shared": {name: vars(found) for name, found in passes.items()},
    }
    others: dict[str, tuple[GpuNetwork, ...]] = {}
    if fused != apart:
        others["without fusion"] = alone
    if passes["pieces"] != passes["one_piece"]:
        others["without virtual threads"] = (one_piece,)
    by_winograd = compile_network(graph, winograd=4) if timed else made
    if network_loads(by_winograd) != fused:
        others["by Winograd's algorithm"] = (by_winograd,)
    return counts, _Made(made, others, "float32", APART)


def _in_halves(graph: Graph, *, warps: bool) -> tuple[Row, _Made]:
    """Return what is counted of a network in float16, and its kernels."""
    plain = compile_network(graph, dtype="float16")
    by_warps = compile_network(graph, dtype="float16", matrices=True)
    kinds = {"matrices": by_warps, "plain": plain}
    counts: Row = {"loads": {name: _counts(network_loads(one)) for name, one in kinds.items()}}
    counts["warp_calls"] = sum(loads_of(one.kernel).warp_products > 0 for one in by_warps.calls)
    rounded = sum(node.op in _ROUNDED for node in graph.nodes)
    within = 2 * (rounded + 1) * _HALF
    if not (warps and counts["warp_calls"]):
        return counts, _Made(plain, {}, "float16", within)
    return counts, _Made(by_warps, {"without tensor cores": (plain,)}, "float16", within)


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
    one: Measured, made: _Made, layouts: _Layouts, device: GpuDevice, settings: Settings
) -> Row:
    """Compare the output with PyTorch's in float32, and then what both take, in turn."""
    why = missing_torch()
    if why:
        return {"why": why}
    placed, exact = _Placed(made.kernels, device), TorchModel(one.model, one.image)
    exact.run()
    want = exact.output()
    image = np.ascontiguousarray(one.image.transpose(layouts.image))

    def apart(found: npt.NDArray[Any]) -> float:
        return float(np.abs(found - want).max() / np.abs(want).max())

    distance = apart(placed.output(image).transpose(layouts.output))
    if not distance <= made.within:
        why = f"the outputs differ by {distance:.1e} of the largest"
        return {"apart": distance, "why": why}
    peers = [exact] if made.dtype == "float32" else _in_half(one)
    if one.model.graph.name == LSTM:
        peers.append(TorchLstm(one.model, one.image, dtype=made.dtype))
    for peer in peers:
        peer.run()
        theirs = apart(peer.output())
        if not theirs <= made.within:
            why = f"PyTorch's output differs by {theirs:.1e} of the largest"
            return {"apart": distance, "why": why}
    others: dict[str, _Placed | _Sequence] = {}
    for what, networks in made.others.items():
        if len(networks) > 1:
            others[what] = _Sequence(networks, device)
            continue
        other = _Placed(networks[0], device)
        if apart(other.output(image).transpose(layouts.output)) <= made.within:
            others[what] = other
    return {"apart": distance, **_compared(placed, peers, others, device, settings)}


def _in_half(one: Measured) -> list[TorchModel]:
    """Return PyTorch's sides in float16: it depends on the operators which layout is the faster."""
    return [
        TorchModel(one.model, one.image, dtype="float16", pixels=pixels)
        for pixels in (False, True)[: 1 + (one.image.ndim == 4)]
    ]


class _Placed:
    """A whole network on a device."""

    def __init__(self, made: GpuNetwork, device: GpuDevice) -> None:
        self._run = place_network(made, device)
        self.enqueue = self._run.enqueue

    def output(self, image: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what becomes of an image, which stays there."""
        (name,) = self._run.code.inputs
        (found,) = self._run.run({name: image}).values()
        return found


class _Sequence:
    """Networks on a device, one after the other, on whatever lies in memory."""

    def __init__(self, networks: Sequence[GpuNetwork], device: GpuDevice) -> None:
        self._runs = [place_network(made, device) for made in networks]

    def enqueue(self) -> None:
        """Ask the device for all of them."""
        for run in self._runs:
            run.enqueue()


def _compared(
    placed: _Placed,
    peers: Sequence[TorchModel],
    others: Mapping[str, _Placed | _Sequence],
    device: GpuDevice,
    settings: Settings,
) -> Row:
    by_peer = [(peer, peer.recorded()) for peer in peers]
    fastest = min(by_peer, key=lambda one: _seconds(*one))
    sides: list[tuple[GpuDevice | TorchModel, Callable[[], None]]] = [
        (device, device.recorded(placed.enqueue)),
        fastest,
        *((device, device.recorded(other.enqueue)) for other in others.values()),
    ]
    calls = []
    for side, work in sides:
        count = max(1, round(settings.least_seconds / max(_seconds(side, work), 1e-7)))
        calls.append(partial(side.seconds, work, count))
    ours, theirs, *rest = in_turn(calls, settings.repeats)
    row: Row = {}
    for key, taken in (("", ours), ("peer_", theirs)):
        names = ("milliseconds", "milliseconds_low", "milliseconds_high")
        row |= {f"{key}{name}": 1e3 * t for name, t in zip(names, spread_of(taken), strict=True)}
    names = ("ratio", "ratio_low", "ratio_high")
    row |= dict(zip(names, spread_of(_ratios(theirs, ours)), strict=True))
    row["effects"] = {
        what: spread_of(_ratios(taken, ours)) for what, taken in zip(others, rest, strict=True)
    }
    return row


def _seconds(side: GpuDevice | TorchModel, work: Callable[[], None]) -> float:
    side.seconds(work, 3)  # clocks rise
    return side.seconds(work, 3)


def _ratios(taken: Sequence[float], ours: Sequence[float]) -> list[float]:
    return [b / a for a, b in zip(ours, taken, strict=True)]
