"""Built-in networks: true topologies, weights from a seed, no file needed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .graph import Graph, Node
from .quantization import tensor_quant
from .tensor import Array, Quant, Tensor

__all__ = ["resnet18", "sample_image"]

_INPUT_RANGE = (-2.1179, 2.64)
"""ImageNet pixels less their mean, over their deviation: what 0 and 255 become."""

_RANGES: dict[str, tuple[float, float]] = {
    "conv1": (0.00, 6.97),
    "layer1_0_conv1": (0.00, 8.09),
    "layer1_0_conv2": (-10.70, 8.41),
    "layer1_0_add": (0.00, 12.53),
    "layer1_1_conv1": (0.00, 11.97),
    "layer1_1_conv2": (-11.26, 9.82),
    "layer1_1_add": (0.00, 14.35),
    "layer2_0_conv1": (0.00, 24.88),
    "layer2_0_conv2": (-21.92, 23.93),
    "layer2_0_downsample": (-18.91, 19.82),
    "layer2_0_add": (0.00, 24.52),
    "layer2_1_conv1": (0.00, 25.35),
    "layer2_1_conv2": (-24.35, 29.18),
    "layer2_1_add": (0.00, 45.75),
    "layer3_0_conv1": (0.00, 44.60),
    "layer3_0_conv2": (-47.74, 73.83),
    "layer3_0_downsample": (-44.37, 42.47),
    "layer3_0_add": (0.00, 81.17),
    "layer3_1_conv1": (0.00, 69.23),
    "layer3_1_conv2": (-66.70, 84.98),
    "layer3_1_add": (0.00, 112.13),
    "layer4_0_conv1": (0.00, 121.11),
    "layer4_0_conv2": (-114.63, 116.11),
    "layer4_0_downsample": (-128.78, 107.54),
    "layer4_0_add": (0.00, 168.53),
    "layer4_1_conv1": (0.00, 151.66),
    "layer4_1_conv2": (-146.75, 144.40),
    "layer4_1_add": (0.00, 202.12),
    "mean": (0.00, 131.87),
    "dense": (-193.04, 178.35),
}
"""Range of each node's output: percentiles 0.02 and 99.98 of the float network on `sample_image`.

A test works them out again.
"""

_CLASSES = 1000
_STAGES = (64, 128, 256, 512)


def resnet18(quantized: bool = True) -> Graph:
    """Return ResNet-18 v1 for 224 x 224 x 3 images, its weights drawn with seed 0.

    Batch normalization is folded; weights and biases are drawn, not trained, so the outputs mean
    nothing but every layer's work and arithmetic is the true one. The bits come from PCG64's raw
    stream, which numpy keeps stable.

    Parameters
    ----------
    quantized : bool
        int8 activations per tensor and int8 weights per channel, as TFLite quantizes them; or the
        float32 network that they stand for.

    Returns
    -------
    Graph
        ``input`` (1, 224, 224, 3) to ``dense.out`` (1, 1000). Convolutions are called ``conv1``,
        ``layer<stage>_<block>_conv1``, ``..._conv2`` and ``..._downsample``, additions
        ``..._add``.
    """
    net = _Builder("resnet18", (1, 224, 224, 3), quantized)
    x = net.conv("conv1", "input", 64, window=7, stride=2, relu=True)
    x = net.max_pool("maxpool", x, window=3, stride=2, pad=1)
    for stage, channels in enumerate(_STAGES, start=1):
        for block in range(2):
            name = f"layer{stage}_{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            y = net.conv(f"{name}_conv1", x, channels, window=3, stride=stride, relu=True)
            y = net.conv(f"{name}_conv2", y, channels, window=3, stride=1, relu=False)
            if stride > 1:
                x = net.conv(f"{name}_downsample", x, channels, window=1, stride=2, relu=False)
            x = net.add(f"{name}_add", y, x)
    return net.finish(net.dense("dense", net.mean("mean", x), _CLASSES))


def sample_image(seed: int = 0) -> npt.NDArray[np.int8]:
    """Return an image for `resnet18`: int8 (1, 224, 224, 3), noise at five sizes of detail.

    Parameters
    ----------
    seed : int
    """
    bits = _Bits(seed)
    image = np.zeros((224, 224, 3), np.float64)
    for detail in (56, 28, 14, 7, 1):
        side = 224 // detail
        noise = bits.bell(side * side * 3).reshape(side, side, 3)
        image += noise.repeat(detail, axis=0).repeat(detail, axis=1)
    pixels = np.clip(np.rint(image * (40 / 256)) + 128, 0, 255)
    return np.asarray(pixels - 128, np.int8)[None]


class _Bits:
    """A stream of bell-shaped integers that no change of numpy's samplers can alter."""

    def __init__(self, seed: int) -> None:
        self._source = np.random.PCG64(seed)

    def bell(self, count: int) -> npt.NDArray[np.int32]:
        """Return int32 (count,) in -510..510: the sum of four bytes, deviation 147.8."""
        words = self._source.random_raw(-(-count // 2))
        total = words.view(np.uint8).reshape(-1, 4).sum(axis=1, dtype=np.int32)
        bell: npt.NDArray[np.int32] = total[:count] - np.int32(510)
        return bell


_BELL_DEVIATION = float(np.sqrt(4 * (256**2 - 1) / 12))


class _Builder:
    def __init__(self, name: str, shape: tuple[int, ...], quantized: bool) -> None:
        self._name = name
        self._quantized = quantized
        self._bits = _Bits(0)
        self._nodes: list[Node] = []
        self._tensors: dict[str, Tensor] = {}
        self._activation("input", shape, _INPUT_RANGE)

    def conv(
        self, name: str, source: str, channels: int, window: int, stride: int, relu: bool
    ) -> str:
        n, height, width, depth = self._tensors[source].shape
        pad = window // 2
        self._weights(name, source, (channels, window, window, depth))
        size = tuple((d + 2 * pad - window) // stride + 1 for d in (height, width))
        return self._node(
            name,
            "conv2d",
            (source, f"{name}.weight", f"{name}.bias"),
            (n, *size, channels),
            relu,
            strides=(stride, stride),
            padding=((pad, pad), (pad, pad)),
            dilation=(1, 1),
            rounding="double",
        )

    def dense(self, name: str, source: str, units: int) -> str:
        n, depth = self._tensors[source].shape
        self._weights(name, source, (units, depth))
        inputs = (source, f"{name}.weight", f"{name}.bias")
        return self._node(
            name, "dense", inputs, (n, units), False, keep_dims=False, rounding="single"
        )

    def add(self, name: str, lhs: str, rhs: str) -> str:
        shape = self._tensors[lhs].shape
        return self._node(name, "add", (lhs, rhs), shape, True, rounding="double")

    def max_pool(self, name: str, source: str, window: int, stride: int, pad: int) -> str:
        data = self._tensors[source]
        n, height, width, channels = data.shape
        size = tuple((d + 2 * pad - window) // stride + 1 for d in (height, width))
        output = f"{name}.out"
        self._tensors[output] = Tensor(output, (n, *size, channels), data.dtype, data.quant)
        attrs = {
            "clip": self._clip(output, relu=False),
            "padding": ((pad, pad), (pad, pad)),
            "strides": (stride, stride),
            "window": (window, window),
        }
        self._nodes.append(Node(name, "max_pool2d", (source,), (output,), attrs))
        return output

    def mean(self, name: str, source: str) -> str:
        n, _, _, channels = self._tensors[source].shape
        output = self._activation(f"{name}.out", (n, channels), _RANGES[name])
        attrs = {"axes": (1, 2), "keep_dims": False, "rounding": "double"}
        self._nodes.append(Node(name, "mean", (source,), (output,), attrs))
        return output

    def finish(self, output: str) -> Graph:
        return Graph(self._name, self._tensors, self._nodes, ["input"], [output])

    def _node(
        self,
        name: str,
        op: str,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        relu: bool,
        **attrs: object,
    ) -> str:
        output = self._activation(f"{name}.out", shape, _RANGES[name])
        clip = self._clip(output, relu)
        self._nodes.append(Node(name, op, inputs, (output,), {**attrs, "clip": clip}))
        return output

    def _clip(self, output: str, relu: bool) -> tuple[float, float]:
        quant = self._tensors[output].quant
        if quant is None:
            return (0.0 if relu else -np.inf, np.inf)
        return (int(quant.zero_point[0]) if relu else -128, 127)

    def _activation(self, name: str, shape: tuple[int, ...], limits: tuple[float, float]) -> str:
        quant = None
        if self._quantized:
            low, high = limits
            scale = np.float32((high - low) / 255)
            zero_point = round(-128 - low / float(scale))
            quant = Quant(np.array([scale]), np.array([zero_point]))
        dtype = np.dtype(np.int8 if self._quantized else np.float32)
        self._tensors[name] = Tensor(name, shape, dtype, quant)
        return name

    def _weights(self, name: str, source: str, shape: tuple[int, ...]) -> None:
        """Draw weights as He would, each channel at its own gain, and a bias."""
        channels, fan_in = shape[0], int(np.prod(shape[1:]))
        drawn = self._bits.bell(channels * fan_in).reshape(channels, fan_in)
        peak = np.abs(drawn).max(axis=1)
        levels = np.rint(drawn * (127 / peak)[:, None]).astype(np.int8).reshape(shape)
        gain = 2.0 ** (self._bits.bell(channels) / 510)
        scale = (gain * np.sqrt(2 / fan_in) / _BELL_DEVIATION * peak / 127).astype(np.float32)
        bias = gain * self._bits.bell(channels) / (4 * _BELL_DEVIATION)
        if self._quantized:
            quant = Quant(scale, np.zeros(channels, np.int64), axis=0)
            self._constant(f"{name}.weight", levels, quant)
            data = tensor_quant(self._tensors[source])
            step = scale.astype(np.float64) * float(data.scale[0])
            zero = np.zeros(channels, np.int64)
            self._constant(
                f"{name}.bias", np.rint(bias / step).astype(np.int32), Quant(step, zero, axis=0)
            )
        else:
            real = levels * scale.reshape(-1, *[1] * (len(shape) - 1))
            self._constant(f"{name}.weight", real.astype(np.float32), None)
            self._constant(f"{name}.bias", bias.astype(np.float32), None)

    def _constant(self, name: str, data: Array, quant: Quant | None) -> None:
        self._tensors[name] = Tensor(name, data.shape, data.dtype, quant, data)
