"""Checks of the arrays that a user gives a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError
from vdla.module import Module, TensorInfo

__all__ = ["checked_inputs"]

Array = NDArray[Any]


def checked_inputs(module: Module, inputs: Array | Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs by name, each with an image axis.

    Parameters
    ----------
    module : Module
    inputs : array or mapping of str to array
        One image or (n, ...) images; an array alone serves a network with one input.

    Raises
    ------
    InputError
        An input is missing, unknown, empty, or of the wrong shape or dtype.
    """
    names = module.inputs
    if not isinstance(inputs, Mapping):
        if len(names) != 1:
            raise InputError(
                f"A network with several inputs takes a mapping by name, not one array: "
                f"{module.name!r} reads {', '.join(names)}."
            )
        inputs = {names[0]: inputs}
    if set(inputs) != set(names):
        raise InputError(
            f"The inputs of {module.name!r} must be {', '.join(names)}, not "
            f"{', '.join(sorted(inputs)) or 'none'}: give each by its name."
        )
    given = {name: _checked(module.tensors[name], inputs[name]) for name in names}
    counts = {name: len(array) for name, array in given.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"Every input must hold the same number of images, not {counts}.")
    return given


def _checked(info: TensorInfo, values: Array) -> Array:
    array = np.asarray(values)
    one = info.shape[1:]
    rule = f"Input {info.name!r} must have the shape ({', '.join(map(str, one))}) or (n, ...)"
    if array.dtype != np.dtype(info.dtype):
        pixels = " Subtract 128 from uint8 pixels first." if info.dtype == "int8" else ""
        raise InputError(
            f"Input {info.name!r} must be of dtype {info.dtype}, not {array.dtype}: "
            f"convert it by the scale and zero point of the network.{pixels}"
        )
    if array.shape == one:
        array = array[np.newaxis]
    if array.shape[1:] != one:
        raise InputError(f"{rule}, not {array.shape}: scale, cut or transpose the images.")
    if not len(array):
        raise InputError(f"{rule} with n at least 1, not {array.shape}: give an image.")
    return array
