"""What ``vdla bench gpu`` measures, as ONNX models in float32, an image of each beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from vdla.runtime.cli.chains import CHAINED, OPSET, chain

__all__ = ["CONVOLUTIONS", "LSTM", "NETWORKS", "PRODUCTS", "Measured"]

Array = npt.NDArray[Any]
LSTM = "lstm"
STEPS, HIDDEN = 16, 512
"""Of the layer of an LSTM: so many steps, of as many inputs as units, one sequence at a time."""
_DCGAN = ((100, 1024, 1), (1024, 512, 2), (512, 256, 2), (256, 128, 2), (128, 3, 2))
"""Channels in and out and strides of the generator's layers (Radford et al., 2016, figure 1)."""


@dataclass(frozen=True)
class Measured:
    """A model and what it is given.

    Attributes
    ----------
    what : str
    model : onnx.ModelProto
        In NCHW, of one input and one output.
    image : array
    """

    what: str
    model: onnx.ModelProto
    image: Array


def _convolution(name: str) -> Measured:
    conv = CHAINED[name]
    return Measured(str(conv), chain(conv, 1), _drawn((1, conv.inputs, conv.size, conv.size)))


def _product(rows: int, depth: int, columns: int) -> Measured:
    weights = [
        _held("weight", _drawn((columns, depth), 1) * depth**-0.5),
        _held("bias", _drawn((columns,), 2)),
    ]
    node = helper.make_node("Gemm", ["image", "weight", "bias"], ["out"], transB=1)
    model = _model("product", [node], weights, (rows, depth), "out", (rows, columns))
    return Measured(f"{rows}x{depth} by {depth}x{columns}", model, _drawn((rows, depth)))


def _built_in(name: str) -> Measured:
    from vdla.compiler import zoo
    from vdla.compiler.onnx import export_onnx
    from vdla.runtime.cli.peers import in_nchw

    model, moved = in_nchw(export_onnx(getattr(zoo, name)(quantized=False)))
    assert moved  # its image comes through a transpose
    return Measured("one image, 224 x 224", model, _drawn((1, 3, 224, 224)))


def _dcgan() -> Measured:
    """Return the generator: an image of 64 x 64 of 100 numbers."""
    nodes, weights, last = [], [], "image"
    for number, (inputs, outputs, stride) in enumerate(_DCGAN):
        weight = _drawn((inputs, outputs, 4, 4), number) * (inputs * 16 / stride**2) ** -0.5
        bias = _drawn((outputs,), number + 50) * 0.1
        weights += [_held(f"weight{number}", weight), _held(f"bias{number}", bias)]
        pads = [0 if stride == 1 else 1] * 4
        made, end = f"up{number}", f"out{number}"
        given = [last, f"weight{number}", f"bias{number}"]
        strides, window = [stride] * 2, [4, 4]
        nodes.append(
            helper.make_node(
                "ConvTranspose", given, [made], kernel_shape=window, strides=strides, pads=pads
            )
        )
        nodes.append(helper.make_node("Relu" if outputs > 3 else "Tanh", [made], [end]))
        last = end
    model = _model("dcgan", nodes, weights, (1, 100, 1, 1), last, (1, 3, 64, 64))
    return Measured("generator, one image, 64 x 64", model, _drawn((1, 100, 1, 1)))


def _lstm() -> Measured:
    """Return a layer of an LSTM, its steps one behind the other: gates in the order i, f, g, o."""
    scale = HIDDEN**-0.5
    weights = [
        _held("of_input", _drawn((4 * HIDDEN, HIDDEN), 1) * scale),
        _held("of_state", _drawn((4 * HIDDEN, HIDDEN), 2) * scale),
        _held("bias", _drawn((4 * HIDDEN,), 3) * scale),
        _held("nothing", np.zeros(4 * HIDDEN, np.float32)),
        _held("state", np.zeros((1, HIDDEN), np.float32)),
        *(_held(f"at{k}", np.array([k])) for k in range(STEPS + 1)),
        *(_held(f"gate{k}", np.array([k * HIDDEN])) for k in range(5)),
        _held("axis0", np.array([0])),
        _held("axis1", np.array([1])),
    ]
    nodes = [helper.make_node("Gemm", ["image", "of_input", "bias"], ["inputs"], transB=1)]

    def put(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    state, cell = "state", ""
    states = []
    for t in range(STEPS):
        given = put("Slice", ["inputs", f"at{t}", f"at{t + 1}", "axis0"], f"inputs{t}")
        own = put("Gemm", [state, "of_state", "nothing"], f"own{t}", transB=1)
        gates = put("Add", [given, own], f"gates{t}")
        i, f, g, o = (
            put(
                "Tanh" if k == 2 else "Sigmoid",
                [put("Slice", [gates, f"gate{k}", f"gate{k + 1}", "axis1"], f"part{t}_{k}")],
                f"value{t}_{k}",
            )
            for k in range(4)
        )
        added = put("Mul", [i, g], f"added{t}")
        cell = put("Add", [put("Mul", [f, cell], f"kept{t}"), added], f"cell{t}") if t else added
        state = put("Mul", [o, put("Tanh", [cell], f"tanh{t}")], f"state{t}")
        states.append(state)
    put("Concat", states, "states", axis=0)
    model = _model("lstm", nodes, weights, (STEPS, HIDDEN), "states", (STEPS, HIDDEN))
    return Measured(f"{STEPS} steps of {HIDDEN} units", model, _drawn((STEPS, HIDDEN), 4))


def _drawn(shape: tuple[int, ...], seed: int = 7) -> Array:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def _held(name: str, array: Array) -> onnx.TensorProto:
    kept = array if array.dtype == np.int64 else array.astype(np.float32)
    return numpy_helper.from_array(kept, name)


def _model(
    name: str,
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    given: tuple[int, ...],
    output: str,
    shape: tuple[int, ...],
) -> onnx.ModelProto:
    one = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", one, given)],
        [helper.make_tensor_value_info(output, one, shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


CONVOLUTIONS: Mapping[str, Callable[[], Measured]] = {
    name: lambda name=name: _convolution(name)  # type: ignore[misc]
    for name in CHAINED
}
"""The twelve of ResNet-18, by name."""
PRODUCTS: Mapping[str, Callable[[], Measured]] = {
    "square": lambda: _product(1024, 1024, 1024),
    "feed_forward": lambda: _product(512, 768, 3072),
}
"""Products of matrices: a square one, and one of BERT's base model for 512 words."""
NETWORKS: Mapping[str, Callable[[], Measured]] = {
    "resnet18": lambda: _built_in("resnet18"),
    "mobilenet_v2": lambda: _built_in("mobilenet_v2"),
    "dcgan": _dcgan,
    LSTM: _lstm,
}
"""Networks end to end, by name."""
