"""Networks in float16: weights and activations in half floats, the caller's arrays as they were."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph import Graph
from vdla.compiler.graph.tensor import Array
from vdla.errors import ModelError

from .draft import Draft

__all__ = ["in_halves"]

_SINGLE, _HALF = np.dtype(np.float32), np.dtype(np.float16)


def in_halves(graph: Graph) -> Graph:
    """Return a graph whose weights and activations are float16 wherever they were float32.

    Before: ``input (float32), conv2d, relu, output (float32)``. After: ``input (float32), cast,
    conv2d (float16), relu (float16), cast, output (float32)``. Inputs and outputs keep their dtype,
    and so does what is no float32. What an operator computes with in between is its own affair.

    Parameters
    ----------
    graph : Graph

    Raises
    ------
    ModelError
        A weight is beyond the range of float16.
    """
    draft = Draft(graph)
    edges = {*graph.inputs, *graph.outputs}
    for tensor in graph.tensors.values():
        if tensor.dtype != _SINGLE or tensor.name in edges:
            continue
        data = None if tensor.data is None else _narrowed(tensor.data, tensor.name)
        draft.retype(tensor.name, dtype=_HALF, data=data)
    for name in graph.inputs:
        readers = draft.readers(name)
        if graph.tensors[name].dtype == _SINGLE and readers:
            half = draft.add(f"{name}.half", "cast", [name], {}, dtype=_HALF)
            _redirect(draft, name, half, skipped=half)
    for name in graph.outputs:
        producer = draft.producer(name)
        if graph.tensors[name].dtype == _SINGLE and producer is not None:
            draft.put_behind(producer, "cast", {}, changed=producer, dtype=_HALF)
            behind = draft.producer(name)
            assert behind is not None
            _redirect(draft, name, behind.inputs[0], skipped=name)
    return draft.finish()


def _narrowed(data: Array, name: str) -> Array:
    with np.errstate(over="ignore"):
        narrow = data.astype(_HALF)
    lost = np.isfinite(data) & ~np.isfinite(narrow)
    if lost.any():
        raise ModelError(
            f"A weight in float16 must be at most {np.finfo(_HALF).max:,}, and {name} reaches "
            f"{np.abs(data[lost]).max():,}: leave the network in float32."
        )
    return narrow


def _redirect(draft: Draft, old: str, new: str, *, skipped: str) -> None:
    """Let whoever reads one tensor read another, but for the node that computes `skipped`."""
    for reader in draft.readers(old):
        if reader.outputs[0] != skipped:
            draft.change(reader, inputs=tuple(new if t == old else t for t in reader.inputs))
