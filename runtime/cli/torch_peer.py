"""ONNX models in PyTorch, operator by operator, on the GPU that it finds: cuDNN and cuBLAS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from vdla.errors import InputError

__all__ = ["TorchModel", "missing_torch", "torch_versions"]

Array = npt.NDArray[Any]
Values = dict[str, Any]


def missing_torch() -> str | None:
    """Return what to do to have PyTorch with a GPU, None where it is there."""
    if not find_spec("torch"):
        return "torch is not installed: pip install torch"
    if not import_module("torch").cuda.is_available():
        return "torch finds no GPU"
    return None


def torch_versions() -> dict[str, Any]:
    """Return the versions of PyTorch and cuDNN; None where they are not."""
    if not find_spec("torch"):
        return {"torch": None, "cudnn": None}
    torch = import_module("torch")
    return {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}


class TorchModel:
    """A model of one input and one output whose weights lie on a device of PyTorch's.

    Parameters
    ----------
    model : onnx.ModelProto
        Of operators that `OPERATORS` has.
    image : array
    device : str
        ``cuda``, or for tests of what is computed ``cpu``.
    dtype : str
        ``float32``, or ``float16`` for weights and all that is computed. Images then lie channel by
        channel of a pixel, as cuDNN's kernels for tensor cores have them.

    Raises
    ------
    InputError
        There is another operator.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        image: Array,
        device: str = "cuda",
        *,
        dtype: str = "float32",
    ) -> None:
        self._torch: Any = import_module("torch")
        # What is measured against is float32 too.
        self._torch.backends.cuda.matmul.allow_tf32 = False
        self._torch.backends.cudnn.allow_tf32 = False
        self._torch.backends.cudnn.benchmark = True
        graph = model.graph
        unknown = sorted({node.op_type for node in graph.node} - OPERATORS.keys())
        if unknown:
            raise InputError(
                f"A model must be of {', '.join(OPERATORS)} to run in PyTorch here, and this has "
                f"{', '.join(unknown)}: add them."
            )
        held = {one.name: numpy_helper.to_array(one).copy() for one in graph.initializer}
        self._steps = [_step(self._torch, node, held) for node in graph.node]
        self._weights = {name: self._placed(one, device, dtype) for name, one in held.items()}
        self._image = self._placed(image.copy(), device, dtype)
        self._names = graph.input[0].name, graph.output[0].name
        self._made: Any = None

    def _placed(self, array: Array, device: str, dtype: str) -> Any:
        """Return an array on a device; floats in a dtype, and where that is float16 pixel-wise."""
        made = self._torch.from_numpy(array).to(device)
        if array.dtype != np.float32 or dtype == "float32":
            return made
        pixels = self._torch.channels_last if array.ndim == 4 else self._torch.contiguous_format
        return made.half().to(memory_format=pixels)

    def run(self) -> None:
        """Ask the device for the output."""
        values = {**self._weights, self._names[0]: self._image}
        with self._torch.no_grad():
            for step in self._steps:
                step(values)
        self._made = values[self._names[1]]

    def output(self) -> Array:
        """Return what `run` asked for last."""
        found: Array = self._made.float().cpu().numpy()
        return found

    def recorded(self) -> Callable[[], None]:
        """Return a call that asks for the output in one call of its own, as a CUDA graph."""
        cuda = self._torch.cuda
        beside = cuda.Stream()
        beside.wait_stream(cuda.current_stream())
        with cuda.stream(beside):  # cuDNN tries its algorithms first
            for _ in range(3):
                self.run()
        cuda.current_stream().wait_stream(beside)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            self.run()
        replay: Callable[[], None] = graph.replay
        return replay

    def seconds(self, work: Callable[[], None], count: int) -> float:
        """Return what some work takes once, of so many times in a row, by events."""
        first, last = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            work()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3 / count


def _step(torch: Any, node: onnx.NodeProto, held: Mapping[str, Array]) -> Callable[[Values], None]:
    """Return a node as a function that adds what it computes to the values by name."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    constants = [held.get(name) for name in node.input]
    call = OPERATORS[node.op_type](torch, attributes, constants)

    def step(values: Values) -> None:
        values[node.output[0]] = call(*(values[name] for name in node.input))

    return step


def _padding(torch: Any, attributes: Mapping[str, Any]) -> tuple[tuple[int, int], Any]:
    """Return the padding of height and width, and what pads before, where ends differ."""
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    if (top, left) == (bottom, right):
        return (top, left), lambda x: x
    return (0, 0), lambda x: torch.nn.functional.pad(x, (left, right, top, bottom))


def _convolution(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    padding, before = _padding(torch, attributes)
    strides, groups = tuple(attributes["strides"]), attributes.get("group", 1)

    def call(x: Any, w: Any, b: Any = None) -> Any:
        return torch.nn.functional.conv2d(before(x), w, b, strides, padding, groups=groups)

    return call


def _transposed(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    strides = tuple(attributes["strides"])
    padding = tuple(attributes["pads"][:2])  # the models that are measured have it even
    return lambda x, w, b: torch.nn.functional.conv_transpose2d(x, w, b, strides, padding)


def _pool(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    window, strides = (tuple(attributes[key]) for key in ("kernel_shape", "strides"))
    padding = tuple(attributes["pads"][:2])
    return lambda x: torch.nn.functional.max_pool2d(x, window, strides, padding)


def _mean(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    axes, keep = tuple(map(int, constants[1])), bool(attributes.get("keepdims", 1))
    return lambda x, _: x.mean(axes, keepdim=keep)


def _gemm(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    if not attributes.get("transB"):
        raise InputError("Gemm must be of a transposed second matrix for PyTorch here: transpose.")
    return lambda x, w, b: torch.nn.functional.linear(x, w, b)


def _slice(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    begin, end, axis = (int(array[0]) for array in constants[1:4])
    return lambda x, *_: x.narrow(axis, begin, end - begin)


def _clip(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    low, high = (float(array) for array in constants[1:3])
    return lambda x, *_: torch.clamp(x, low, high)


def _concat(torch: Any, attributes: Mapping[str, Any], constants: Any) -> Any:
    return lambda *parts: torch.cat(parts, attributes["axis"])


def _plain(name: str) -> Callable[..., Any]:
    return lambda torch, attributes, constants: getattr(torch, name)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Add": _plain("add"),
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "Gemm": _gemm,
    "MaxPool": _pool,
    "Mul": _plain("mul"),
    "ReduceMean": _mean,
    "Relu": _plain("relu"),
    "Sigmoid": _plain("sigmoid"),
    "Slice": _slice,
    "Tanh": _plain("tanh"),
}
"""By ONNX's name: makes a call of the values from the attributes and the constant inputs."""
