"""Constant weights of 8 bits less their zero points, in numbers that 8 bits hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler.cpu.define.indexing import chosen
from vdla.compiler.cpu.define.site import Array, Site
from vdla.compiler.cpu.define.windows import centred
from vdla.compiler.te import Expr, minimum

__all__ = ["Weights", "weights_of"]

_LOW, _HIGH = -128, 127


@dataclass(frozen=True)
class Weights:
    """Weights that 8 bits hold.

    Attributes
    ----------
    data : int8 or uint8 array
        Terms along the last dimension.
    channels : tuple of int
        The channel of the input that each of these is multiplied with.
    """

    data: Array
    channels: tuple[int, ...]

    def channel(self, term: Expr) -> Expr:
        """Return the channel of a term."""
        last = self.channels[-1]
        if self.channels == tuple(min(k, last) for k in range(len(self.channels))):
            return term if len(self.channels) == last + 1 else minimum(term, last)
        return chosen(self.channels, term)

    def padded(self, multiple: int) -> Weights:
        """Return them with weights of 0 for the last channel, up to a multiple of terms."""
        more = -len(self.channels) % multiple
        pads = [(0, 0)] * (self.data.ndim - 1) + [(0, more)]
        return Weights(np.pad(self.data, pads), (*self.channels, *self.channels[-1:] * more))


def weights_of(site: Site, order: tuple[int, ...]) -> Weights:
    """Return a node's weights; ``order`` puts their channels of the input last.

    Weights less their zero point take 9 bits: those that 8 do not hold are sums of some that do,
    and the channels in which there are any follow the others again.
    """
    data = site.value(1)
    assert data is not None
    wide = (centred(site, data, 0) if site.quantized else data).transpose(order)
    parts, channels = [wide], np.arange(wide.shape[-1])
    while parts[-1].dtype == np.int16:
        low = parts[-1].clip(_LOW, _HIGH)
        rest = parts[-1] - low
        again = np.flatnonzero(rest.any(axis=tuple(range(rest.ndim - 1))))
        own = channels[len(channels) - rest.shape[-1] :]
        parts[-1] = low.astype(np.int8)
        if again.size:
            parts.append(rest[..., again])
            channels = np.append(channels, own[again])
    return Weights(np.concatenate(parts, axis=-1), tuple(channels.tolist()))
