"""The stages of post-training quantization, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from vdla.compiler.graph import Graph
from vdla.compiler.passes import run_passes
from vdla.errors import InputError

from .bias import correct_biases
from .checks import check_graph, check_samples
from .concatenation import share_ranges
from .equalize import equalize_channels
from .evaluate import Tell
from .ranges import CALIBRATIONS, DEFAULT_PERCENTILE, Range, find_ranges
from .report import LayerNoise, measure_noise
from .rewrite import rewrite
from .scales import scales_as_depthwise

__all__ = ["ENDS", "Quantized", "quantize"]

Progress = Callable[[int, int, str], None]

ENDS = ("float", "int8")
"""What the quantized network takes and gives."""


@dataclass(frozen=True, eq=False)
class Quantized:
    """A quantized network, and how far it is from the float network.

    Attributes
    ----------
    graph : Graph
    layers : sequence of LayerNoise
        A row a node, in order.
    """

    graph: Graph
    layers: Sequence[LayerNoise]


def quantize(
    graph: Graph,
    samples: npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]],
    *,
    calibration: str = "minmax",
    percentile: float = DEFAULT_PERCENTILE,
    bias_correction: bool = True,
    equalize: bool = False,
    known: Mapping[str, Range] | None = None,
    ends: str = "int8",
    report: bool = True,
    progress: Progress | None = None,
) -> Quantized:
    """Quantize a float network after training.

    Activations become int8 with one scale and zero point a tensor, weights int8 with a scale a
    channel and no zero point, biases int32 at the product of input and weight scale. Operators
    without an integer form stay float, between a dequantize and a quantize node. Tensors that are
    concatenated have the scale of the whole, where they can.

    Everything is worked out in float64 and ranges are rounded outwards to ten significant bits,
    so that the result is the same on every machine.

    Parameters
    ----------
    graph : Graph
        Of float32 activations. Graph passes run on it first: batch norms and activation functions
        join the convolutions before them.
    samples : array or mapping of str to array
        (n, ...) typical inputs, as the network takes them; by name where it has several.
    calibration : str
        How a tensor's range is chosen from the values it takes: ``minmax`` all of them,
        ``percentile`` without outliers, ``entropy`` the least Kullback-Leibler divergence.
    percentile : float
        Share of the values, in percent, that ``percentile`` keeps below the upper end.
    bias_correction : bool
        Move biases so that the mean of each channel stays what it was.
    equalize : bool
        Balance the gains of channels between neighbouring layers first: for depthwise networks,
        whose channels differ much.
    known : mapping of str to Range, optional
        Ranges that need no calibration, by tensor: of an input of pixels, say.
    ends : str
        ``int8``: the network takes and gives integers; ``float``: it takes and gives what the
        float network does, with a quantize and a dequantize node at its ends.
    report : bool
        Measure each layer's noise on `samples`.
    progress : callable, optional
        Called with the steps done, the steps in all, and what is being worked on.

    Returns
    -------
    Quantized

    Raises
    ------
    InputError
        `samples` do not fit the network, or an option is unknown.
    ModelError
        The network is quantized already, or weights or activations are not finite.
    """
    if calibration not in CALIBRATIONS:
        raise InputError(
            f"calibration must be one of {', '.join(CALIBRATIONS)}, not {calibration!r}."
        )
    if not 50 < percentile <= 100:
        raise InputError(f"percentile must be above 50 and at most 100, not {percentile}.")
    if ends not in ENDS:
        raise InputError(f"ends must be one of {', '.join(ENDS)}, not {ends!r}.")
    check_graph(graph)
    inputs = check_samples(graph, samples)
    stages = 1 + equalize + (calibration != "minmax") + bias_correction + report
    tell = _counting(progress, stages * len(next(iter(inputs.values()))))
    real = scales_as_depthwise(run_passes(graph))
    if equalize:
        real = equalize_channels(real, inputs, tell)
    found = find_ranges(real, inputs, calibration, percentile, tell)
    ranges = share_ranges(real, {**found, **(known or {})})
    integer = rewrite(real, ranges, ends)
    if bias_correction:
        integer = correct_biases(real, integer, inputs, tell)
    noise = measure_noise(real, integer, inputs, tell) if report else ()
    return Quantized(integer, noise)


def _counting(progress: Progress | None, total: int) -> Tell:
    done = 0

    def tell(doing: str, images: int) -> None:
        nonlocal done
        done += images
        if progress is not None:
            progress(done, total, doing)

    return tell
