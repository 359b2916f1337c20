"""``vdla run --target opencl``: a network as kernels, on a GPU or through PoCL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vdla.errors import InputError
from vdla.runtime.cli.inputs import given_inputs
from vdla.runtime.cli.output import emit_json
from vdla.runtime.cli.report import show_classes, top_classes
from vdla.runtime.cli.streaming import read_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vdla.compiler.graph import Graph
    from vdla.runtime.opencl_network import OpenClNetwork

__all__ = ["run_opencl"]


def run_opencl(
    file: str,
    image: Path | None,
    input_file: Path | None,
    device: str | None,
    bind: Mapping[str, int] | None,
    labels: Path | None,
    *,
    as_json: bool,
) -> None:
    """Compile a network, run it on an OpenCL device, and print what it gave.

    Raises
    ------
    LoweringError
        No kernel can be made of an operator.
    DeviceError
        There is no such device, or it fails.
    """
    from vdla.compiler.gpu import compile_network
    from vdla.runtime.api import read_graph
    from vdla.runtime.opencl import OpenClDevice
    from vdla.runtime.opencl_network import OpenClNetwork

    if file.lower().endswith(".vdla"):
        raise InputError(f"--target opencl compiles a model, not a compiled file: {file}")
    graph = read_graph(file, bind)
    made = compile_network(graph)
    on = OpenClDevice(device)
    inputs = given_inputs({name: graph.tensors[name] for name in graph.inputs}, image, input_file)
    outputs = _run(OpenClNetwork(made, on), inputs, graph)
    names = () if labels is None else read_labels(labels)
    classes = top_classes(list(outputs.values())[-1], names)
    counts = {"device": on.name, "calls": len(made.calls), "kernels": len(made.kernels)}
    if as_json:
        emit_json({**counts, "classes": classes})
        return
    typer.echo(f"{len(made.calls)} calls of {len(made.kernels)} kernels on {on.name}")
    show_classes(classes, None)


def _run(
    network: OpenClNetwork, inputs: NDArray[Any] | Mapping[str, NDArray[Any]], graph: Graph
) -> dict[str, NDArray[Any]]:
    """Run a network on images, as many at a time as it takes."""
    import numpy as np

    if isinstance(inputs, Mapping):
        return network.run(inputs)
    (name,) = graph.inputs
    at_once = graph.tensors[name].shape[0]
    if len(inputs) % at_once:
        raise InputError(
            f"--input must hold a multiple of {at_once} images, which the network takes at a time, "
            f"not {len(inputs)}: cut them, or bind its batch to another size."
        )
    passes = [network.run({name: inputs[k : k + at_once]}) for k in range(0, len(inputs), at_once)]
    return {output: np.concatenate([one[output] for one in passes]) for output in passes[0]}
