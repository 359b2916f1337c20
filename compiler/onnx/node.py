"""One node of an ONNX file in Python's types, and the values it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import onnx

from vdla.compiler.graph.tensor import Array, Quant, Tensor
from vdla.errors import ModelError

__all__ = ["Constant", "OnnxNode", "Value"]


@dataclass(frozen=True, eq=False)
class Constant:
    """A value known while reading; of any size, zero included.

    Parameters
    ----------
    data : array
    quant : Quant or None
        Where the file holds integers that stand for reals (a DequantizeLinear of a constant);
        the value is then ``scale * (data - zero_point)``.
    source : str
        The name in the file.
    """

    data: Array
    quant: Quant | None = None
    source: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the value."""
        return np.dtype(np.float32) if self.quant is not None else self.data.dtype

    @property
    def value(self) -> Array:
        """The value itself, float32 where integers stand for it."""
        if self.quant is None:
            return self.data
        along = [1] * self.data.ndim
        if self.quant.axis is not None:
            along[self.quant.axis] = -1
        centred = self.data.astype(np.int64) - self.quant.zero_point.reshape(along)
        scale = self.quant.scale.astype(np.float32).reshape(along)
        real: Array = centred.astype(np.float32) * scale
        return real.reshape(self.data.shape)


_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)

Value = Constant | Tensor
"""What a name of the file stands for."""


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """One node.

    Parameters
    ----------
    index : int
        Place in the file.
    op : str
        Its type; with the domain before it where that is not ONNX's own.
    opset : int
    inputs, outputs : tuple of str
        Names; empty where left out.
    attrs : mapping
        Python's numbers, strings and lists; arrays for tensors.
    proto : onnx.NodeProto
    """

    index: int
    op: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    proto: onnx.NodeProto = field(repr=False)

    @classmethod
    def read(cls, proto: onnx.NodeProto, index: int, opset: int) -> OnnxNode:
        """Take a node of the file."""
        own = proto.domain in ("", "ai.onnx")
        attrs = {a.name: _plain(onnx.helper.get_attribute_value(a)) for a in proto.attribute}
        op = proto.op_type if own else f"{proto.domain}.{proto.op_type}"
        return cls(index, op, opset, tuple(proto.input), tuple(proto.output), attrs, proto)

    @property
    def label(self) -> str:
        """What messages call it."""
        name = f" {self.proto.name!r}" if self.proto.name else ""
        return f"{self.op}{name} (node {self.index})"

    @property
    def is_pure(self) -> bool:
        """Whether its outputs depend on its inputs alone."""
        graphs = {onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS}
        return self.op not in _RANDOM and all(a.type not in graphs for a in self.proto.attribute)

    def has(self, place: int) -> bool:
        """Whether input `place` is given."""
        return place < len(self.inputs) and bool(self.inputs[place])

    def refuse(self, rule: str, remedy: str) -> NoReturn:
        """Raise the ModelError that says why this node cannot be taken."""
        raise ModelError(f"{self.label}: {rule}. {remedy}.")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return [_plain(v) for v in value]
    return value
