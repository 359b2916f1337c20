"""What can be quantized, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.arguments import arrays_by_name
from vdla.compiler.graph import Graph, Tensor
from vdla.errors import InputError, ModelError

__all__ = ["Samples", "check_finite", "check_graph", "check_samples"]

Array = npt.NDArray[Any]
Samples = dict[str, Array]
"""(n, ...) by graph input; float inputs as float64."""


def check_graph(graph: Graph) -> None:
    """Refuse a network that is quantized already, or whose weights are not numbers.

    Raises
    ------
    ModelError
    """
    for tensor in graph.tensors.values():
        if tensor.quant is not None:
            raise ModelError(
                f"A network to quantize must be float throughout; tensor {tensor.label} of "
                f"{graph.name!r} is {tensor.dtype} with a scale already. "
                "Compile it as it is, or quantize the network it was made from."
            )
        if tensor.data is not None and tensor.dtype.kind == "f":
            wrong = int((~np.isfinite(tensor.data)).sum())
            if wrong:
                raise ModelError(
                    f"Weights must be finite; {wrong} of {tensor.size} values of tensor "
                    f"{tensor.label} are NaN or infinite. Train or export the network again."
                )
    if not any(graph.tensors[name].dtype.kind == "f" for name in graph.inputs):
        raise ModelError(
            f"A network to quantize must take float images; {graph.name!r} takes "
            f"{', '.join(str(graph.tensors[name].dtype) for name in graph.inputs)}. "
            "Export it with a float input."
        )


def check_samples(graph: Graph, samples: Array | Mapping[str, Array]) -> Samples:
    """Return calibration inputs by name.

    Raises
    ------
    InputError
        One is missing, unknown, empty, of a wrong shape or dtype, or holds NaNs.
    """
    given = arrays_by_name(graph.name, graph.inputs, samples, "Calibration inputs")
    checked = {name: _checked(graph.tensors[name], array) for name, array in given.items()}
    counts = {name: len(array) for name, array in checked.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"Every calibration input must hold the same number, not {counts}.")
    return checked


def _checked(tensor: Tensor, array: Array) -> Array:
    rest = tensor.shape[1:]
    real = tensor.dtype.kind == "f"
    if array.dtype.kind not in ("fiub" if real else "iu"):
        raise InputError(
            f"Calibration input {tensor.name!r} must hold {'numbers' if real else 'integers'}, "
            f"not {array.dtype}. Convert it."
        )
    if array.shape == rest:
        array = array[np.newaxis]
    if array.shape[1:] != rest or not len(array):
        raise InputError(
            f"Calibration input {tensor.name!r} must have the shape "
            f"({', '.join(map(str, ('n', *rest)))}) with n at least 1, not {array.shape}. "
            "Scale, cut or transpose the images."
        )
    if not real:
        return array.astype(tensor.dtype)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(
            f"Calibration input {tensor.name!r} must be finite; "
            f"{int((~np.isfinite(array)).sum())} of its values are NaN or infinite. Drop those."
        )
    return array


def check_finite(graph: Graph, values: Mapping[str, Array]) -> None:
    """Refuse activations that are not numbers, naming the first layer that makes one.

    Raises
    ------
    ModelError
    """
    for node in graph.nodes:
        array = values[node.outputs[0]]
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelError(
                f"Activations must be finite; {node.name!r} ({node.op}) of {graph.name!r} makes "
                f"{int((~np.isfinite(array)).sum())} NaN or infinite values of the calibration "
                "images. Check how they are scaled."
            )
