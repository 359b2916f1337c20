"""A network that reads handwritten digits, trained by `train`, with images it was not shown."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph

__all__ = ["HELD_OUT", "MODEL", "Digits", "digits", "digits_held_out", "int8_pixels"]

MODEL = Path(__file__).with_name("digits.onnx")
HELD_OUT = Path(__file__).with_name("held_out.npz")


class Digits(NamedTuple):
    """Images and what they show.

    Attributes
    ----------
    images : int8 (n, 8, 8, 1)
        Black -128, white 127.
    labels : int64 (n,)
        0..9.
    """

    images: npt.NDArray[np.int8]
    labels: npt.NDArray[np.int64]


def digits() -> Graph:
    """Return a quantized network for handwritten digits of 8 x 8 pixels.

    Returns
    -------
    Graph
        ``input`` int8 (1, 8, 8, 1), white on black, to ``dense.out`` int8 (1, 10).
    """
    from vdla.compiler.onnx import import_onnx

    return import_onnx(MODEL)


def digits_held_out() -> Digits:
    """Return the 450 images that the network was neither trained nor calibrated on."""
    with np.load(HELD_OUT) as arrays:
        return Digits(int8_pixels(arrays["images"]), arrays["labels"].astype(np.int64))


def int8_pixels(shades: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
    """Return (n, 8, 8) shades 0..16, as scikit-learn has them, as the network takes them."""
    pixels = np.rint(shades.astype(np.float64) * (255 / 16)) - 128
    return pixels.astype(np.int8)[..., np.newaxis]
