"""ONNX models in PyTorch, operator by operator, on the GPU that it finds: cuDNN and cuBLAS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from vdla.errors import InputError

__all__ = ["TorchLstm", "TorchModel", "missing_torch", "torch_versions"]

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
        ``float32``, or ``float16`` for weights and all that is computed; the image is then made
        float16 in each run, and the output float32, as kernels do.
    pixels : bool
        Whether all channels of a pixel lie together, as cuDNN's kernels for tensor cores have them.

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
        pixels: bool = False,
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
        self._half, self._pixels = dtype == "float16", pixels
        on_device = {name: self._torch.from_numpy(one).to(device) for name, one in held.items()}
        self._weights = {name: self._laid_out(one) for name, one in on_device.items()}
        self._image = self._torch.from_numpy(image.copy()).to(device)
        self._names = graph.input[0].name, graph.output[0].name
        self._made: Any = None

    def _laid_out(self, made: Any) -> Any:
        """Return a tensor in the dtype of floats, and in the layout of images."""
        if self._half and made.dtype == self._torch.float32:
            made = made.half()
        if self._pixels and made.ndim == 4:
            made = made.contiguous(memory_format=self._torch.channels_last)
        return made

    def _computed(self) -> Any:
        values = {**self._weights, self._names[0]: self._laid_out(self._image)}
        for step in self._steps:
            step(values)
        return values[self._names[1]]

    def run(self) -> None:
        """Ask the device for the output."""
        with self._torch.no_grad():
            self._made = self._computed().float()

    def output(self) -> Array:
        """Return what `run` asked for last."""
        found: Array = self._made.cpu().numpy()
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


class TorchLstm(TorchModel):
    """The layer of an LSTM as one of PyTorch's, which cuDNN computes all steps of.

    Parameters
    ----------
    model : onnx.ModelProto
        With the initializers ``of_input``, ``of_state`` and ``bias``, gates in the order i, f, g
        and o, and a state that begins with 0.
    image, device, dtype
        As `TorchModel` takes them.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        image: Array,
        device: str = "cuda",
        *,
        dtype: str = "float32",
    ) -> None:
        super().__init__(model, image, device, dtype=dtype)
        held = {one.name: numpy_helper.to_array(one).copy() for one in model.graph.initializer}
        units, inputs = held["of_state"].shape[1], held["of_input"].shape[1]
        layer = self._torch.nn.LSTM(inputs, units).eval()
        given = {
            "weight_ih_l0": held["of_input"],
            "weight_hh_l0": held["of_state"],
            "bias_ih_l0": held["bias"],
            "bias_hh_l0": 0 * held["bias"],
        }
        layer.load_state_dict({n: self._torch.from_numpy(a) for n, a in given.items()})
        self._layer = layer.to(device).half() if self._half else layer.to(device)
        self._layer.flatten_parameters()

    def _computed(self) -> Any:
        states, _ = self._layer(self._laid_out(self._image))
        return states


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
