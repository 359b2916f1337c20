"""Small ONNX models, written node by node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

IMAGE = (1, 3, 12, 20)


class Model:
    """A model being written: each call of `node` returns the name of its output."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.opset = opset
        self.inputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._source = np.random.default_rng(seed)

    def input(self, name: str, shape: Sequence[int | str | None], code: int = 1) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, code, shape))
        return name

    def constant(self, values: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def drawn(self, *shape: int) -> str:
        """Return weights that keep the deviation of what they are multiplied with."""
        fan_in = max(1, int(np.prod(shape[1:])))
        return self.constant(self._source.normal(0, fan_in**-0.5, shape).astype(np.float32))

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
        names = [f"{op.lower()}{len(self.nodes)}_{k}" for k in range(outputs)]
        made = helper.make_node(
            op, list(inputs), names, f"n{len(self.nodes)}", domain=domain, **attrs
        )
        self.nodes.append(made)
        return names[0] if outputs == 1 else names

    def finish(self, *outputs: str, code: int = TensorProto.FLOAT) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            self.inputs,
            [helper.make_tensor_value_info(name, code, None) for name in outputs],
            self.constants,
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def mixed_network() -> onnx.ModelProto:
    """Return a float network with every operator that has a quantized form, on 1 x 3 x 12 x 20."""
    m = Model()
    x = m.input("image", IMAGE)
    x = m.node("Conv", x, m.drawn(16, 3, 3, 3), m.drawn(16), pads=[1] * 4)
    x = m.node("Relu", x)
    y = m.node("Conv", x, m.drawn(16, 1, 3, 3), pads=[1] * 4, group=16)
    y = m.node("Clip", y, m.constant(np.float32(0)), m.constant(np.float32(1.5)))
    y = m.node("Conv", y, m.drawn(16, 8, 1, 1), m.drawn(16), group=2)
    x = m.node("Relu", m.node("Add", x, y))
    pool = m.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    down = m.node("Conv", x, m.drawn(24, 16, 3, 3), m.drawn(24), strides=[2, 2], pads=[1] * 4)
    x = m.node("Concat", pool, down, axis=1)
    y = m.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    y = m.node("Resize", y, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric")
    x = m.node("Add", x, y)
    x = m.node("Pad", x, m.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
    x = m.node("Conv", x, m.drawn(32, 40, 3, 3), m.drawn(32))
    x = m.node("GlobalAveragePool", x)
    x = m.node("Gemm", m.node("Flatten", x), m.drawn(10, 32), m.drawn(10), transB=1)
    return m.finish(m.node("Softmax", x))


def image(seed: int = 0, shape: Sequence[int] = IMAGE) -> Array:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def quantized(model: onnx.ModelProto, folder: Path, **options: Any) -> onnx.ModelProto:
    """Return what onnxruntime's own tool makes of a model, calibrated on noise."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    source = model.graph.input[0]
    shape = [d.dim_value for d in source.type.tensor_type.shape.dim]
    samples = iter([{source.name: image(seed, shape)} for seed in range(4)])

    class Samples(CalibrationDataReader):
        def get_next(self) -> dict[str, Array] | None:
            return next(samples, None)

    onnx.save(model, folder / "float.onnx")
    # Without VNNI, onnxruntime's products of uint8 and int8 saturate at 16 bits: 7 bits fit.
    quantize_static(
        folder / "float.onnx", folder / "int.onnx", Samples(), reduce_range=True, **options
    )
    return onnx.load(folder / "int.onnx")
