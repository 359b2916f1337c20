"""Calibration images from a folder of pictures, an ``.npy`` or an ``.npz`` file."""

from __future__ import annotations

import tokenize
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph, Tensor
from vdla.errors import InputError

from .ranges import Range

__all__ = ["LAYOUTS", "Preprocessing", "SampleSet", "read_samples"]

Array = npt.NDArray[Any]

LAYOUTS = ("model", "nhwc", "nchw")
_COLOURS = (1, 3)
_PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,  # numpy parses the header as Python
    zipfile.BadZipFile,
)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What happens to an image before the network: ``(pixel * scale - mean) / std``.

    Parameters
    ----------
    scale : float
        1/255 where the network was trained on pixels in 0..1.
    mean, std : sequence of float
        One for all channels, or one a channel.
    layout : str
        Order of the axes in arrays: ``nhwc``, ``nchw``, or ``model``, the network's.

    Raises
    ------
    InputError
        A standard deviation is not positive, or the layout is unknown.
    """

    scale: float = 1.0
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    layout: str = "model"

    def __post_init__(self) -> None:
        if not all(value > 0 for value in self.std):
            raise InputError(
                f"Standard deviations must be above 0, not {', '.join(map(str, self.std))}."
            )
        if self.layout not in LAYOUTS:
            raise InputError(f"layout must be one of {', '.join(LAYOUTS)}, not {self.layout!r}.")

    def __call__(self, pixels: Array, channel_axis: int) -> Array:
        """Return float64 inputs of (n, ...) pixels with channels along `channel_axis`.

        Raises
        ------
        InputError
            The means or deviations are not as many as the channels.
        """
        channels = pixels.shape[channel_axis]
        for what, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, channels):
                raise InputError(
                    f"{what} must have 1 value or one for each of {channels} channels, "
                    f"not {len(values)}."
                )
        shape = [1] * pixels.ndim
        shape[channel_axis] = -1
        centred = pixels.astype(np.float64) * self.scale - np.reshape(self.mean, shape)
        reals: Array = centred / np.reshape(self.std, shape)
        return reals

    def pixel_range(self) -> Range:
        """Return the range of what pixels 0..255 become, zero and every channel in it."""
        ends = np.array([[0.0], [255 * self.scale]])
        reals = (ends - np.array(self.mean)) / np.array(self.std)
        return Range(min(0.0, float(reals.min())), max(0.0, float(reals.max())))


class SampleSet(NamedTuple):
    """Calibration inputs, and what is known of them.

    Attributes
    ----------
    values : dict of str to array
        (n, ...) by input name.
    ranges : dict of str to Range
        Of inputs that are pixels: what 0 and 255 become, seen or not.
    """

    values: dict[str, Array]
    ranges: dict[str, Range]


def read_samples(
    path: str | Path,
    graph: Graph,
    preprocessing: Preprocessing | None = None,
    *,
    limit: int | None = None,
) -> SampleSet:
    """Read calibration images.

    Parameters
    ----------
    path : path
        A folder of pictures, which are scaled and cut to the network's input; an ``.npy`` file of
        (n, ...); or an ``.npz`` file with an array for each input by its name, or for one input
        with one called ``images`` or without a name.
    graph : Graph
        The float network.
    preprocessing : Preprocessing, optional
        By default none: pixels 0..255, arrays as they are.
    limit : int, optional
        How many images to take, evenly out of all.

    Returns
    -------
    SampleSet

    Raises
    ------
    InputError
        There is nothing of the kind, or it does not fit the network.
    """
    path, ready = Path(path), preprocessing or Preprocessing()
    if limit is not None and limit < 1:
        raise InputError(f"At least 1 calibration image must be taken, not {limit}.")
    if path.is_dir():
        tensor = graph.tensors[graph.inputs[0]]
        axis = _image_channels(graph, path)
        pixels = np.moveaxis(_pictures(path, tensor.shape, axis, limit), -1, axis)
        return SampleSet({tensor.name: ready(pixels, axis)}, {tensor.name: ready.pixel_range()})
    if path.suffix not in (".npy", ".npz") or not path.exists():
        raise InputError(
            f"Calibration images must be a folder of pictures, an .npy or an .npz file, not {path}"
            f"{'' if path.exists() else ', which does not exist'}. Name one of those."
        )
    found = SampleSet({}, {})
    for name, array in _arrays(path, graph).items():
        tensor = graph.tensors[name]
        if tensor.dtype.kind == "f" and array.dtype.kind in "fiub":
            array = _arranged(array, tensor, ready.layout, path)
            chosen = array[_chosen(len(array), limit)]
            found.values[name] = ready(chosen, _channel_axis(tensor.shape))
            if array.dtype == np.uint8:
                found.ranges[name] = ready.pixel_range()
        else:
            found.values[name] = array[_chosen(len(array), limit)] if array.ndim else array
    return found


def _channel_axis(shape: tuple[int, ...]) -> int:
    """Return 1 for an input that can only be channels first, else the last axis."""
    first = len(shape) == 4 and shape[3] not in _COLOURS and shape[1] in _COLOURS
    return 1 if first else len(shape) - 1


def _chosen(count: int, limit: int | None) -> npt.NDArray[np.int64]:
    taken = count if limit is None else min(count, limit)
    return np.arange(taken) * count // max(taken, 1)


def _image_channels(graph: Graph, path: Path) -> int:
    shape = graph.tensors[graph.inputs[0]].shape
    axis = _channel_axis(shape)
    if len(graph.inputs) != 1 or len(shape) != 4 or shape[axis] not in _COLOURS:
        raise InputError(
            f"A folder of pictures needs a network with one input of 1 or 3 channels; that of "
            f"{graph.name!r} is {shape}. Give the tensors in an .npz file, not in {path}."
        )
    return axis


def _pictures(path: Path, shape: tuple[int, ...], axis: int, limit: int | None) -> Array:
    """Return uint8 (n, height, width, channels)."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    channels = shape[axis]
    height, width = (d for i, d in enumerate(shape) if i not in (0, axis))
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in _PICTURES)
    if not files:
        raise InputError(
            f"A calibration folder must hold pictures ({', '.join(_PICTURES)}); {path} holds none. "
            "Name the folder that has them."
        )
    pixels = []
    for file in (files[i] for i in _chosen(len(files), limit)):
        try:
            with Image.open(file) as opened:
                upright = ImageOps.exif_transpose(opened)
                picture = upright.convert("RGB" if channels == 3 else "L")
        except (*_UNREADABLE, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise InputError(
                f"A calibration picture must be one that Pillow can read: {file}: {error}. "
                "Take it out of the folder."
            ) from None
        if picture.size != (width, height):
            picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
        pixels.append(np.asarray(picture, np.uint8).reshape(height, width, channels))
    return np.stack(pixels)


def _arrays(path: Path, graph: Graph) -> Mapping[str, Array]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {graph.inputs[0]: loaded}
        with loaded:
            return {name: loaded[key] for name, key in _keys(loaded.files, graph, path).items()}
    except _UNREADABLE as error:
        raise InputError(
            f"Calibration arrays must be what numpy.save or numpy.savez wrote: {path}: {error}. "
            "Write them anew."
        ) from None


def _keys(files: Sequence[str], graph: Graph, path: Path) -> dict[str, str]:
    if set(graph.inputs) <= set(files):
        return {name: name for name in graph.inputs}
    if len(graph.inputs) == 1:
        for key in ("images", "arr_0"):  # the second is numpy's for an array without a name
            if key in files:
                return {graph.inputs[0]: key}
    raise InputError(
        f"A calibration archive must hold an array for each input of {graph.name!r} "
        f"({', '.join(graph.inputs)}), or one called images; {path} holds "
        f"{', '.join(files) or 'nothing'}. Rename its arrays."
    )


def _arranged(array: Array, tensor: Tensor, layout: str, path: Path) -> Array:
    """Return an array with its axes as the network has them."""
    shape = tensor.shape[1:]
    theirs = "nchw" if _channel_axis(tensor.shape) == 1 and len(shape) == 3 else "nhwc"
    if array.ndim in (3, 4) and len(shape) == 3 and layout not in ("model", theirs):
        array = np.moveaxis(array, *((-3, -1) if layout == "nchw" else (-1, -3)))
    if array.shape == shape:
        array = array[np.newaxis]
    if array.shape[1:] != shape or not len(array):
        other = "nhwc" if theirs == "nchw" else "nchw"
        turned = (
            array.ndim == 4
            and np.moveaxis(array, *((1, -1) if other == "nchw" else (-1, 1))).shape[1:] == shape
        )
        remedy = f"Say --layout {other}." if turned else "Scale, cut or transpose them."
        raise InputError(
            f"Calibration images must have the shape ({', '.join(map(str, ('n', *shape)))}) with "
            f"n at least 1, not {array.shape}: {path}. {remedy}"
        )
    return array
