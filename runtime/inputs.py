"""A user's arrays, checked, and cut into what runs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vdla.arguments import arrays_by_name
from vdla.batching import gather_images, split_images
from vdla.errors import InputError
from vdla.module import Module, TensorInfo

__all__ = ["SEED", "images_in", "join_outputs", "part_inputs", "random_input"]

Array = NDArray[Any]

SEED = 0
"""Of the noise that stands for an input."""


def part_inputs(
    module: Module, inputs: Array | Mapping[str, Array], at_once: int
) -> tuple[list[dict[str, Array]], bool]:
    """Return the inputs by name of each pass, and whether they have an axis of images.

    Where images may share a pass, each takes up to `at_once`, on axis 0; else one, in the network's
    own shapes.

    Parameters
    ----------
    module : Module
    inputs : array or mapping of str to array
        One image or (n, ...) images; an array alone serves a network with one input.
    at_once : int

    Raises
    ------
    InputError
        An input is missing, unknown, empty, or of the wrong shape or dtype.
    """
    given = _named(module, inputs)
    if not module.per_image:
        return split_images({name: module.tensors[name].shape for name in given}, given)
    given = {name: _images(module.tensors[name], array) for name, array in given.items()}
    counts = {name: len(array) for name, array in given.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"Every input must hold the same number of images, not {counts}.")
    images = next(iter(counts.values()))
    return [
        {name: array[first : first + at_once] for name, array in given.items()}
        for first in range(0, images, at_once)
    ], True


def images_in(module: Module, part: Mapping[str, Array]) -> int:
    """Return how many images a pass takes."""
    return len(next(iter(part.values()))) if module.per_image else 1


def join_outputs(
    module: Module, outputs: Sequence[Mapping[str, Array]], stacked: bool
) -> dict[str, Array]:
    """Return the outputs of all passes by name, as `part_inputs` found their inputs."""
    if not module.per_image:
        return gather_images(outputs, stacked)
    return {name: np.concatenate([part[name] for part in outputs]) for name in outputs[0]}


def _named(module: Module, inputs: Array | Mapping[str, Array]) -> dict[str, Array]:
    given = arrays_by_name(module.name, module.inputs, inputs)
    for name, array in given.items():
        info = module.tensors[name]
        if array.dtype != np.dtype(info.dtype):
            pixels = " Subtract 128 from uint8 pixels first." if info.dtype == "int8" else ""
            raise InputError(
                f"Input {name!r} must be of dtype {info.dtype}, not {array.dtype}: "
                f"convert it by the scale and zero point of the network.{pixels}"
            )
    return given


def _images(info: TensorInfo, array: Array) -> Array:
    one = info.shape[1:]
    rule = f"Input {info.name!r} must have the shape ({', '.join(map(str, one))}) or (n, ...)"
    if array.shape == one:
        array = array[np.newaxis]
    if array.shape[1:] != one:
        raise InputError(f"{rule}, not {array.shape}: scale, cut or transpose the images.")
    if not len(array):
        raise InputError(f"{rule} with n at least 1, not {array.shape}: give an image.")
    return array


def random_input(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return noise for a network's input, the same on every call.

    Parameters
    ----------
    shape : tuple of int
        What the network takes, batch first.
    dtype : dtype
        What the network takes.

    Returns
    -------
    numpy.ndarray
        Of `shape` and of `dtype`: integers over the type's whole range, floats
        of mean 0 and deviation 1.

    Raises
    ------
    InputError
        The type is neither of integers nor of floats.
    """
    kind, source = np.dtype(dtype), np.random.default_rng(SEED)
    if kind.kind == "f":
        drawn: Array = source.normal(0, 1, shape).astype(kind)
        return drawn
    if kind.kind not in "iu":
        raise InputError(
            f"Noise must go into an input of numbers, not of {kind}; "
            "give the tensor with --input FILE.npy"
        )
    limits = np.iinfo(kind)
    noise: Array = source.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    return noise
