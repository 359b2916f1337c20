"""What a graph node becomes before code is emitted for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.te import Schedule, Tensor

if TYPE_CHECKING:
    from vdla.compiler.tune.space import Point

    from .template import ConvTemplate

__all__ = ["Array", "LoweredNode", "blocks_of"]

Array = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class LoweredNode:
    """A scheduled operator with its packed constants.

    Attributes
    ----------
    schedule : Schedule
    inputs : tuple of Tensor
        Placeholders of the activations, in the node's order; int8 of shape
        ``(N / batch, ceil(C / input_block), H, W, batch, input_block)``, or the same bytes in
        another shape for element-wise operators.
    constants : dict of Tensor to ndarray
        Packed weights and parameters.
    result : Tensor
        int8, blocked by ``output_block`` as the inputs are by ``input_block``.
    input_block, output_block : int
    estimate_cycles : int
        Analytic estimate of the schedule.
    template : ConvTemplate or None
        Of a convolution: what else its schedule could have been.
    point : mapping or None
        What it is.
    """

    schedule: Schedule
    inputs: tuple[Tensor, ...]
    constants: dict[Tensor, Array]
    result: Tensor
    input_block: int
    output_block: int
    estimate_cycles: int
    template: ConvTemplate | None = None
    point: Point | None = None


def blocks_of(channels: int, block: int) -> int:
    """Return how many blocks hold some channels; the last one may be padded."""
    return -(-channels // block)
