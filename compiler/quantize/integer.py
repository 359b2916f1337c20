"""Which operators have an integer form, and what their attributes become."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import floor, isinf
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, Quant

__all__ = ["Form", "clip_levels", "form_of", "integer_attrs", "weight_axis"]

_LOW, _HIGH = -128, 127


class Form(Enum):
    """How an operator computes on integers."""

    WEIGHTED = "weighted"
    """Multiplies by constant weights: always integer, its input is quantized if need be."""
    RESCALING = "rescaling"
    """Its output has a scale of its own."""
    KEEPING = "keeping"
    """Moves integers, or picks among them: its output keeps the input's scale."""
    PROBABILITY = "probability"
    """Its output lies in 0..1, so its scale is 1/256."""


_FORMS: Mapping[str, Form] = {
    "add": Form.RESCALING,
    "avg_pool2d": Form.KEEPING,
    "clip": Form.RESCALING,
    "concat": Form.RESCALING,
    "conv2d": Form.WEIGHTED,
    "dense": Form.WEIGHTED,
    "depthwise_conv2d": Form.WEIGHTED,
    "leaky_relu": Form.RESCALING,
    "max_pool2d": Form.KEEPING,
    "mean": Form.RESCALING,
    "pad": Form.KEEPING,
    "relu": Form.RESCALING,
    "relu6": Form.RESCALING,
    "reshape": Form.KEEPING,
    "resize": Form.KEEPING,
    "slice": Form.KEEPING,
    "softmax": Form.PROBABILITY,
    "space_to_depth": Form.KEEPING,
    "transpose": Form.KEEPING,
}


def form_of(graph: Graph, node: Node) -> Form | None:
    """Return how a float node can compute on integers; None where it cannot."""
    form = _FORMS.get(node.op)
    inputs, output = graph.input_tensors(node), graph.output_tensor(node)
    if form is None or any(t.dtype.kind != "f" for t in (*inputs, output)):
        return None
    if form is Form.WEIGHTED:
        constant = not inputs[0].is_constant and all(t.is_constant for t in inputs[1:])
        return form if constant else None
    attrs, rank = node.attrs, len(output.shape)
    if node.op == "softmax" and attrs.get("axis", -1) not in (-1, rank - 1):
        return None
    if node.op == "resize" and (attrs["mode"] != "nearest" or attrs["roi"] is not None):
        return None
    if node.op == "leaky_relu" and attrs["alpha"] < 0:
        return None
    if node.op == "mean" and 0 in attrs["axes"]:
        return None
    if node.op == "add" and len({len(t.shape) for t in inputs}) > 1:
        return None
    return form


def weight_axis(op: str) -> int:
    """Return the dimension of the weights that counts output channels."""
    return 3 if op == "depthwise_conv2d" else 0


def integer_attrs(node: Node, quant: Quant) -> dict[str, Any]:
    """Return the attributes of the integer form, its output quantized as `quant`."""
    attrs = dict(node.attrs)
    if "clip" in attrs:
        attrs["clip"] = clip_levels(attrs["clip"], quant)
    if "value" in attrs:
        attrs["value"] = _level(float(attrs["value"]), quant)
    return attrs


def clip_levels(clip: tuple[float, float], quant: Quant) -> tuple[int, int]:
    """Return the integers of a real range; an open end is the type's.

    As TFLite's ``CalculateActivationRangeQuantized``: divided in float32, rounded half away from
    zero.
    """
    low, high = clip
    return (
        _LOW if isinf(low) else _level(low, quant),
        _HIGH if isinf(high) else _level(high, quant),
    )


def _level(real: float, quant: Quant) -> int:
    quotient = float(np.float32(real) / np.float32(quant.scale[0]))
    rounded = floor(quotient + 0.5) if quotient >= 0 else -floor(0.5 - quotient)
    return min(max(rounded + int(quant.zero_point[0]), _LOW), _HIGH)
