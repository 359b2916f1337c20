"""One point: compiled, run, and what is said of it; an error is a result as well."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.errors import VdlaError
from vdla.runtime import api

from .points import Point

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph
    from vdla.module import Module

__all__ = ["FAILED", "OK", "build", "failure", "measure"]

OK, FAILED = "ok", "failed"

_PASSING = (OSError, MemoryError)
"""What another attempt may not meet: a row, but nothing to keep."""


def build(point: Point, network: str | Path | Graph) -> Module | dict[str, Any]:
    """Compile a point; what cannot be compiled becomes its result.

    Parameters
    ----------
    point : Point
    network : str, Path or Graph
        As `vdla.compile` takes it.
    """
    from vdla.compiler.passes import PASSES

    options = point.options
    try:
        compiled = api.compile(
            network,
            config=point.config(),
            vthreads=options["vthreads"],
            place=options["place"],
            rank=options["rank"],
            # Passes over a file's graph were left out when it was read.
            without=[name for name in options["without"] if name not in PASSES],
            cache=False,
        )
    except Exception as error:
        return failure(error)
    return compiled.module


def measure(point: Point, built: Module | dict[str, Any]) -> dict[str, Any]:
    """Run what `build` gave on noise, and return the figures of the run, or of the failure.

    ``cycles`` are those of one pass of ``images`` images.
    """
    if isinstance(built, dict):
        return built
    from vdla.runtime.network import Network

    try:
        network = Network(built)
        run = network.run(
            _noise(network, point.seed), device=point.options["device"], check=point.check
        )
        summary = run.summary()
    except Exception as error:
        return failure(error)
    on_vdla = [layer for layer in built.layers if layer.device == "vdla"]
    result: dict[str, Any] = {
        "status": OK,
        "reason": "",
        "cycles": summary["cycles"],
        "mac_utilization": summary["mac_utilization"],
        "macs": sum(layer.macs for layer in on_vdla),
        "images": run.images_a_pass,
        "dram_bytes": None
        if summary["cycles"] is None
        else sum(layer["dram_bytes"] or 0 for layer in summary["layers"]),
        "memory_bytes": built.arena_bytes,
        "layers_vdla": len(on_vdla),
        "layers_cpu": len(built.layers) - len(on_vdla),
    }
    if point.check:
        result["bit_exact"] = run.bit_exact
    return result


def failure(error: BaseException) -> dict[str, Any]:
    """Return an error as the result of a point; ``passing`` where it may not come again."""
    text = " ".join(str(error).split())
    if not isinstance(error, VdlaError):
        text = f"{type(error).__name__}: {text}"
    return {"status": FAILED, "reason": text, "passing": isinstance(error, _PASSING)}


def _noise(network: Any, seed: int) -> Mapping[str, Any]:
    """Return as many images as go through the machine at once."""
    import numpy as np

    source = np.random.default_rng(seed)
    found = {}
    for name, tensor in network.inputs.items():
        shape = tensor.shape
        if network.module.per_image:
            shape = (network.config.batch, *shape[1:])
        kind = np.dtype(tensor.dtype)
        if kind.kind == "f":
            found[name] = source.normal(0, 1, shape).astype(kind)
        else:
            limits = np.iinfo(kind)
            found[name] = source.integers(limits.min, limits.max, shape, kind, endpoint=True)
    return found
