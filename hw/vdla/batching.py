"""Images through a network that takes one at a time, and their outputs together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import InputError

__all__ = ["gather_images", "split_images"]

Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]


def split_images(shapes: Shapes, given: Mapping[str, Array]) -> tuple[list[dict[str, Array]], bool]:
    """Return each image's inputs, of the network's own shapes.

    Parameters
    ----------
    shapes : mapping of str to tuple
        The network's inputs by name.
    given : mapping of str to array
        Each of its input's shape, with an axis of n images before it, or, where its first
        dimension is 1, with n there, or without it.

    Returns
    -------
    images : list of dict
    stacked : bool
        Whether any input had an axis of images; one without serves every image.

    Raises
    ------
    InputError
        An input has another shape, or the numbers of images differ.
    """
    counted: dict[str, Array] = {}
    alone: dict[str, Array] = {}
    for name, array in given.items():
        shape = shapes[name]
        if array.shape == shape:
            alone[name] = array
        elif shape[:1] == (1,) and array.shape == shape[1:]:
            alone[name] = array[np.newaxis]
        elif array.ndim and len(array) and array.shape[1:] == shape:
            counted[name] = array
        elif array.ndim and len(array) and shape[:1] == (1,) and array.shape[1:] == shape[1:]:
            counted[name] = array[:, np.newaxis]
        else:
            raise InputError(
                f"Input {name!r} must have the shape {shape}, or (n, ...) with images before or "
                f"in place of a first dimension of 1, not {array.shape}. Reshape it."
            )
    counts = {name: len(array) for name, array in counted.items()}
    if len(set(counts.values())) > 1:
        raise InputError(
            f"Every input must hold the same number of images, not {counts}. Trim them."
        )
    images = next(iter(counts.values()), 1)
    parts = [{**alone, **{name: a[i] for name, a in counted.items()}} for i in range(images)]
    return parts, bool(counted)


def gather_images(parts: Sequence[Mapping[str, Array]], stacked: bool) -> dict[str, Array]:
    """Return the outputs of all images by name.

    With `stacked`, images stand in the place of a first dimension of 1, or on an axis before the
    others; without, there is one image, whose outputs keep their shapes.
    """
    if not stacked:
        return dict(parts[0])
    together: dict[str, Array] = {}
    for name, first in parts[0].items():
        join = np.concatenate if first.shape[:1] == (1,) else np.stack
        together[name] = join([part[name] for part in parts])
    return together
