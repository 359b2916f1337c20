"""Writing a network with drawn weights, float or quantized, one layer a call."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.compiler.graph.quantization import tensor_quant
from vdla.compiler.graph.shapes import same_padding, window_output
from vdla.compiler.graph.tensor import Array
from vdla.compiler.quantize import Range, clip_levels, quantize

from .images import BELL_DEVIATION, Bits, sample_image

__all__ = ["INPUT_RANGE", "OPEN", "RELU", "RELU6", "Builder", "calibrated"]

INPUT_RANGE = Range(-2.1179, 2.64)
"""ImageNet pixels less their mean, over their deviation: what 0 and 255 become."""

OPEN = (-np.inf, np.inf)
RELU = (0.0, np.inf)
RELU6 = (0.0, 6.0)
Clip = tuple[float, float]

_PERCENTILE = 99.98


class Builder:
    """A network being written: each method adds a node and returns its output's name.

    Batch normalization is folded; weights and biases are drawn, not trained, so the outputs mean
    nothing but every layer's work and arithmetic is the true one.

    Parameters
    ----------
    name : str
    shape : tuple of int
        Of the input.
    ranges : mapping of str to (float, float), optional
        Of each node's output: the network is then quantized, else it is float32.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        ranges: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self._name = name
        self._ranges = ranges
        self._bits = Bits(0)
        self._nodes: list[Node] = []
        self._tensors: dict[str, Tensor] = {}
        self._activation("input", shape, INPUT_RANGE)

    def conv(
        self,
        name: str,
        source: str,
        channels: int,
        window: int,
        stride: int = 1,
        clip: Clip = OPEN,
        *,
        same: bool = False,
        power: float = 2.0,
    ) -> str:
        """Add a convolution.

        Parameters
        ----------
        name, source : str
        channels, window, stride : int
        clip : (float, float)
        same : bool
            Pad as TensorFlow's SAME, odd zeros behind; or by half the window on every side.
        power : float
            Variance of the weights times what each output sums: 2 where the input is rectified.
        """
        depth = self._tensors[source].shape[3]
        self._weights(name, source, (channels, window, window, depth), power)
        return self._window(name, "conv2d", source, channels, window, stride, clip, same)

    def depthwise(
        self, name: str, source: str, stride: int, clip: Clip, *, power: float = 2.0
    ) -> str:
        """Add a depthwise convolution of 3 x 3, padded as TensorFlow's SAME."""
        channels = self._tensors[source].shape[3]
        self._weights(name, source, (channels, 3, 3, 1), power, depthwise=True)
        return self._window(name, "depthwise_conv2d", source, channels, 3, stride, clip, True)

    def dense(self, name: str, source: str, units: int) -> str:
        """Add a dense layer."""
        n, depth = self._tensors[source].shape
        self._weights(name, source, (units, depth), 2.0)
        inputs = (source, f"{name}.weight", f"{name}.bias")
        return self._node(
            name, "dense", inputs, (n, units), OPEN, keep_dims=False, rounding="single"
        )

    def add(self, name: str, lhs: str, rhs: str, clip: Clip = RELU) -> str:
        """Add an addition."""
        shape = self._tensors[lhs].shape
        return self._node(name, "add", (lhs, rhs), shape, clip, rounding="double")

    def max_pool(self, name: str, source: str, window: int, stride: int, pad: int) -> str:
        """Add a maximum pool."""
        data = self._tensors[source]
        n, height, width, channels = data.shape
        size = (window_output(d, window, stride, (pad, pad), 1) for d in (height, width))
        output = f"{name}.out"
        self._tensors[output] = Tensor(output, (n, *size, channels), data.dtype, data.quant)
        attrs = {
            "clip": self._clip(output, OPEN),
            "padding": ((pad, pad), (pad, pad)),
            "strides": (stride, stride),
            "window": (window, window),
        }
        self._nodes.append(Node(name, "max_pool2d", (source,), (output,), attrs))
        return output

    def mean(self, name: str, source: str) -> str:
        """Add the mean over height and width."""
        n, _, _, channels = self._tensors[source].shape
        output = self._activation(f"{name}.out", (n, channels), self._range(name))
        attrs = {"axes": (1, 2), "keep_dims": False, "rounding": "double"}
        self._nodes.append(Node(name, "mean", (source,), (output,), attrs))
        return output

    def finish(self, output: str) -> Graph:
        """Return the network."""
        return Graph(self._name, self._tensors, self._nodes, ["input"], [output])

    def _window(
        self,
        name: str,
        op: str,
        source: str,
        channels: int,
        window: int,
        stride: int,
        clip: Clip,
        same: bool,
    ) -> str:
        n, height, width, _ = self._tensors[source].shape
        half = window // 2
        padding = tuple(
            same_padding(d, window, stride) if same else (half, half) for d in (height, width)
        )
        size = (
            window_output(d, window, stride, pads, 1)
            for d, pads in zip((height, width), padding, strict=True)
        )
        return self._node(
            name,
            op,
            (source, f"{name}.weight", f"{name}.bias"),
            (n, *size, channels),
            clip,
            strides=(stride, stride),
            padding=padding,
            dilation=(1, 1),
            rounding="double",
        )

    def _node(
        self,
        name: str,
        op: str,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        clip: Clip,
        **attrs: object,
    ) -> str:
        output = self._activation(f"{name}.out", shape, self._range(name))
        attrs = {**attrs, "clip": self._clip(output, clip)}
        self._nodes.append(Node(name, op, inputs, (output,), attrs))
        return output

    def _clip(self, output: str, clip: Clip) -> Clip:
        quant = self._tensors[output].quant
        return clip if quant is None else clip_levels(clip, quant)

    def _range(self, name: str) -> tuple[float, float]:
        return OPEN if self._ranges is None else self._ranges[name]

    def _activation(self, name: str, shape: tuple[int, ...], limits: tuple[float, float]) -> str:
        quant = None
        if self._ranges is not None:
            low, high = limits
            scale = np.float32((high - low) / 255)
            zero_point = round(-128 - low / float(scale))
            quant = Quant(np.array([scale]), np.array([zero_point]))
        dtype = np.dtype(np.float32 if self._ranges is None else np.int8)
        self._tensors[name] = Tensor(name, shape, dtype, quant)
        return name

    def _weights(
        self,
        name: str,
        source: str,
        shape: tuple[int, ...],
        power: float,
        depthwise: bool = False,
    ) -> None:
        """Draw weights as He would, each channel at its own gain, and a bias.

        They are drawn output by output; those of a depthwise layer then become 1HWC.
        """
        channels, fan_in = shape[0], int(np.prod(shape[1:]))
        drawn = self._bits.bell(channels * fan_in).reshape(channels, fan_in)
        peak = np.abs(drawn).max(axis=1)
        levels = np.rint(drawn * (127 / peak)[:, None]).astype(np.int8).reshape(shape)
        gain = 2.0 ** (self._bits.bell(channels) / 510)
        spread = gain * np.sqrt(power / fan_in) / BELL_DEVIATION
        scale = (spread * peak / 127).astype(np.float32)
        bias = gain * self._bits.bell(channels) / (4 * BELL_DEVIATION)
        if self._ranges is not None:
            quant = Quant(scale, np.zeros(channels, np.int64), axis=0)
            self._constant(f"{name}.weight", levels, quant)
            data = tensor_quant(self._tensors[source])
            step = scale.astype(np.float64) * float(data.scale[0])
            zero = np.zeros(channels, np.int64)
            self._constant(
                f"{name}.bias", np.rint(bias / step).astype(np.int32), Quant(step, zero, axis=0)
            )
            return
        real = (levels * scale.reshape(-1, *[1] * (len(shape) - 1))).astype(np.float32)
        if depthwise:
            real = np.ascontiguousarray(real.transpose(3, 1, 2, 0))
        self._constant(f"{name}.weight", real, None)
        self._constant(f"{name}.bias", bias.astype(np.float32), None)

    def _constant(self, name: str, data: Array, quant: Quant | None) -> None:
        self._tensors[name] = Tensor(name, data.shape, data.dtype, quant, data)


def calibrated(graph: Graph) -> Graph:
    """Quantize a float network of this module on `sample_image`, pixels over all 256 integers."""
    low, high = INPUT_RANGE
    pixels = (sample_image().astype(np.float64) + 128) / 255 * (high - low) + low
    return quantize(
        graph,
        pixels,
        calibration="percentile",
        percentile=_PERCENTILE,
        bias_correction=False,
        known={"input": INPUT_RANGE},
        report=False,
    ).graph
