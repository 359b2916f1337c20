"""``vdla run --target opencl``, ``cuda``, ``ptx`` or ``metal``: kernels, run or written out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vdla.errors import InputError
from vdla.runtime.cli.inputs import given_inputs
from vdla.runtime.cli.output import emit_json, progress_bar
from vdla.runtime.cli.report import show_classes, top_classes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vdla.runtime.network import Network

__all__ = ["emit_kernels", "run_kernels"]


def emit_kernels(network: Network, target: str, folder: Path, *, as_json: bool) -> None:
    """Write a network's kernels as source, and say what was written; no device is needed.

    Raises
    ------
    InputError
        The network is not kernels alone, or of another language; or the folder cannot be written.
    """
    from vdla.runtime.emit import emit_source

    gpu = network.module.gpu
    if gpu is not None and gpu.target != _language(target):
        raise InputError(
            f"Kernels are written in the language that they were compiled to, and those of "
            f"{network.module.name} are for {gpu.target}, not for {target}: name the target "
            f"{gpu.target}, or compile the network anew."
        )
    files = emit_source(network.module, folder)
    if as_json:
        emit_json({"folder": str(folder), "files": [file.name for file in files]})
        return
    typer.echo(f"{folder}: {len(files)} files, {_counts(network)}")


def run_kernels(
    network: Network,
    target: str,
    device: str | None,
    image: Path | None,
    input_file: Path | None,
    *,
    as_json: bool,
) -> None:
    """Run a network on a GPU and print what it gave.

    Raises
    ------
    DeviceError
        There is no such device, it fails, or the network has no kernels for it.
    """
    place = _language(target)
    network.to(place if device is None else f"{place}:{device}")
    inputs = given_inputs(network.inputs, image, input_file)
    with progress_bar("running") as progress:
        found = network.run(_by_passes(network, inputs), progress=progress)
    name, scores = list(found.outputs.items())[-1]
    shape = network.module.tensors[name].shape
    if not network.module.per_image:
        scores = scores.reshape(-1, *shape[1:])
    classes = top_classes(scores, network.labels)
    if as_json:
        gpu = network.module.gpu
        assert gpu is not None  # `to` has loaded it
        calls = sum(len(run.calls) for run in gpu.runs)
        counts = {"device": network.gpu, "calls": calls, "kernels": len(gpu.kernels)}
        emit_json({**counts, "classes": classes})
        return
    typer.echo(f"{_counts(network)} on {network.gpu}")
    show_classes(classes, None)


def _language(target: str) -> str:
    """Return the language of a target's kernels, and what drives the GPUs that run them."""
    return "cuda" if target == "ptx" else target


def _counts(network: Network) -> str:
    gpu = network.module.gpu
    assert gpu is not None  # whoever counts has used it
    return f"{sum(len(run.calls) for run in gpu.runs)} calls of {len(gpu.kernels)} kernels"


def _by_passes(
    network: Network, inputs: NDArray[Any] | Mapping[str, NDArray[Any]]
) -> NDArray[Any] | Mapping[str, NDArray[Any]]:
    """Return images as a network takes them that has several in a pass: on an axis of passes."""
    if isinstance(inputs, Mapping) or network.module.per_image:
        return inputs
    at_once = network.input_shape[0]
    if len(inputs) % at_once:
        raise InputError(
            f"--input must hold a multiple of {at_once} images, which the network takes at a time, "
            f"not {len(inputs)}: cut them, or bind its batch to another size."
        )
    return inputs.reshape(-1, *network.input_shape)
