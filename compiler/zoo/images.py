"""Numbers and images from a seed, the same on every machine and with every numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["BELL_DEVIATION", "Bits", "sample_image"]

BELL_DEVIATION = float(np.sqrt(4 * (256**2 - 1) / 12))
"""Standard deviation of what `Bits.bell` gives: 147.8."""


class Bits:
    """A stream of bell-shaped integers that no change of numpy's samplers can alter."""

    def __init__(self, seed: int) -> None:
        self._source = np.random.PCG64(seed)

    def bell(self, count: int) -> npt.NDArray[np.int32]:
        """Return int32 (count,) in -510..510: the sum of four bytes, deviation 147.8."""
        words = self._source.random_raw(-(-count // 2))
        total = words.view(np.uint8).reshape(-1, 4).sum(axis=1, dtype=np.int32)
        bell: npt.NDArray[np.int32] = total[:count] - np.int32(510)
        return bell


def sample_image(seed: int = 0) -> npt.NDArray[np.int8]:
    """Return an image for the built-in networks: int8 (1, 224, 224, 3), noise of five sizes.

    Parameters
    ----------
    seed : int
    """
    bits = Bits(seed)
    image = np.zeros((224, 224, 3), np.float64)
    for detail in (56, 28, 14, 7, 1):
        side = 224 // detail
        noise = bits.bell(side * side * 3).reshape(side, side, 3)
        image += noise.repeat(detail, axis=0).repeat(detail, axis=1)
    pixels = np.clip(np.rint(image * (40 / 256)) + 128, 0, 255)
    return np.asarray(pixels - 128, np.int8)[None]
