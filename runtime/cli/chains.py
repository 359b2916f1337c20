"""ONNX models of one convolution many times over, so that what it takes can be told alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["CHAINED", "OPSET", "Convolution", "chain"]

OPSET = 18
_IR_VERSION = 8


@dataclass(frozen=True)
class Convolution:
    """A convolution of a square image, with a bias.

    Attributes
    ----------
    size : int
        Height and width of its input.
    inputs, outputs : int
        Channels.
    window, stride : int
    """

    size: int
    inputs: int
    outputs: int
    window: int
    stride: int

    @property
    def out_size(self) -> int:
        """Height and width of its output."""
        return -(-self.size // self.stride)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those with padding included."""
        return self.out_size**2 * self.outputs * self.inputs * self.window**2

    @property
    def keeps_shape(self) -> bool:
        """Whether its output can be its own input."""
        return self.stride == 1 and self.inputs == self.outputs

    def __str__(self) -> str:
        shape = f"{self.size}x{self.size} {self.inputs}->{self.outputs}"
        return f"{shape}, {self.window}x{self.window} s{self.stride}"


CHAINED = {
    "C1": Convolution(224, 3, 64, 7, 2),
    "C2": Convolution(56, 64, 64, 3, 1),
    "C3": Convolution(56, 64, 64, 1, 1),
    "C4": Convolution(56, 64, 128, 3, 2),
    "C5": Convolution(56, 64, 128, 1, 2),
    "C6": Convolution(28, 128, 128, 3, 1),
    "C7": Convolution(28, 128, 256, 3, 2),
    "C8": Convolution(28, 128, 256, 1, 2),
    "C9": Convolution(14, 256, 256, 3, 1),
    "C10": Convolution(14, 256, 512, 3, 2),
    "C11": Convolution(14, 256, 512, 1, 2),
    "C12": Convolution(7, 512, 512, 3, 1),
}
"""The twelve of ResNet-18, under the TVM paper's names (Chen et al., OSDI 2018, table 2)."""


def chain(conv: Convolution, count: int) -> onnx.ModelProto:
    """Return a model that computes a convolution so many times, each with weights of its own.

    Where input and output have one shape, each reads what the one before made. Else all read the
    image, and each adds its result to those before it, as at the end of a residual block.

    Parameters
    ----------
    conv : Convolution
    count : int
    """
    draw = np.random.default_rng(0)
    fan_in = conv.inputs * conv.window**2
    shape = (conv.outputs, conv.inputs, conv.window, conv.window)
    nodes, weights = [], []
    last = "image"
    for number in range(count):
        kernel = draw.normal(0, fan_in**-0.5, shape).astype(np.float32)
        bias = draw.normal(0, 0.1, conv.outputs).astype(np.float32)
        weights += [
            numpy_helper.from_array(kernel, f"weight{number}"),
            numpy_helper.from_array(bias, f"bias{number}"),
        ]
        made = f"conv{number}"
        nodes.append(
            helper.make_node(
                "Conv",
                [last if conv.keeps_shape else "image", f"weight{number}", f"bias{number}"],
                [made],
                name=made,
                kernel_shape=[conv.window] * 2,
                strides=[conv.stride] * 2,
                pads=[conv.window // 2] * 4,
            )
        )
        if not conv.keeps_shape and number:
            nodes.append(helper.make_node("Add", [made, last], [f"sum{number}"]))
            made = f"sum{number}"
        last = made
    one = onnx.TensorProto.FLOAT
    image = helper.make_tensor_value_info("image", one, [1, conv.inputs, conv.size, conv.size])
    output = helper.make_tensor_value_info(
        last, one, [1, conv.outputs, conv.out_size, conv.out_size]
    )
    graph = helper.make_graph(nodes, str(conv), [image], [output], weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION
    )
