"""Folding dequantize, operator, quantize into one operator on integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf, isinf, prod
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, Quant, Tensor

from .draft import Draft
from .idle_moves import without_idle_moves
from .sign_integers import MOVED

__all__ = ["fold_quantization"]

_WEIGHT_AXIS = {"conv2d": 0, "conv_transpose2d": 0, "dense": 0, "depthwise_conv2d": 3}
_RESCALED = frozenset({"add", "clip", "concat", "mean", "relu", "relu6"})
"""Operators whose integer forms bring their result to any scale."""
_BIAS_LIMIT = (1 << 31) - 1


def fold_quantization(graph: Graph) -> Graph:
    """Turn float operators between dequantize and quantize into integer ones, rounded once.

    Before: ``dequantize x, dequantize w, conv2d (float, clip), quantize``. After: ``conv2d`` on
    integers, its weights as they are stored, its bias int32 at the scale of the products.

    Movements and maxima keep the scale of their input, so dequantize sinks below them whether or
    not a quantize follows. What has no integer form stays float between the two.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        current = draft.producer(node.outputs[0])
        if current is None or current.name != node.name:
            continue
        if current.op in MOVED:
            _sink_below(draft, current)
        elif current.op == "quantize":
            _fold(draft, _hoist(draft, current))
    return without_idle_moves(draft.finish())


def _stored(draft: Draft, name: str) -> Tensor | None:
    """Return the 8-bit integers behind a dequantize, None where there are none."""
    producer = draft.producer(name)
    if producer is None or producer.op != "dequantize":
        return None
    tensor = draft.tensors[producer.inputs[0]]
    return tensor if tensor.dtype in (np.int8, np.uint8) else None


def _activation(draft: Draft, name: str) -> Tensor | None:
    tensor = _stored(draft, name)
    return (
        tensor
        if tensor is not None and tensor.quant is not None and tensor.quant.axis is None
        else None
    )


def levels(value: float, quant: Quant, dtype: np.dtype[Any]) -> int:
    """Return the integer that stands for a real number, the nearest one of the type's range."""
    limits = np.iinfo(dtype)
    if isinf(value):
        return int(limits.max if value > 0 else limits.min)
    steps = np.rint(np.float32(value) / np.float32(quant.scale[0])) + int(quant.zero_point[0])
    return int(np.clip(steps, limits.min, limits.max))


def _sink_below(draft: Draft, node: Node) -> None:
    """Before: ``dequantize, reshape``. After: ``reshape, dequantize``."""
    names = node.inputs if node.op == "concat" else node.inputs[:1]
    sources = [t for name in names if (t := _activation(draft, name)) is not None]
    if len(sources) != len(names):
        return
    quant, dtype = sources[0].quant, sources[0].dtype
    assert quant is not None
    if any(t.dtype != dtype or t.quant is None or not t.quant.same_as(quant) for t in sources):
        return
    if node.op == "resize" and node.attrs["mode"] != "nearest":
        return
    attrs = dict(node.attrs)
    for key in ("value", "extrapolation"):
        if key in attrs:
            attrs[key] = levels(attrs[key], quant, dtype)
    if "clip" in attrs:
        if not set(attrs["clip"]) <= {-inf, 0.0, inf}:
            return
        attrs["clip"] = tuple(levels(bound, quant, dtype) for bound in attrs["clip"])
    inputs = (*(t.name for t in sources), *node.inputs[len(names) :])
    changed = replace(node, inputs=inputs, attrs=attrs)
    draft.put_behind(node, "dequantize", {}, changed=changed, dtype=dtype, quant=quant)


def _hoist(draft: Draft, node: Node) -> Node:
    """Return the quantize, where it can be put before movements that follow an operator.

    Before: ``conv2d, reshape, quantize``. After: ``conv2d, quantize, reshape``.
    """
    output = draft.tensors[node.outputs[0]]
    chain: list[Node] = []
    above = draft.producer(node.inputs[0])
    while (
        above is not None
        and above.op in ("expand", "gather", "reshape", "slice", "transpose")
        and draft.only_reader(above.outputs[0]) is not None
        and draft.tensors[above.inputs[0]].dtype.kind == "f"
    ):
        chain.append(above)
        above = draft.producer(above.inputs[0])
    if not chain or above is None or not _can_fold(draft, above, output):
        return node
    if output.quant is None or output.quant.axis is not None:
        return node
    if draft.only_reader(above.outputs[0]) is None:
        return node
    lifted = draft.add(
        node.name,
        "quantize",
        [above.outputs[0]],
        node.attrs,
        dtype=output.dtype,
        quant=output.quant,
    )
    for movement in chain:
        draft.retype(movement.outputs[0], dtype=output.dtype, quant=output.quant)
    last = chain[-1]
    draft.change(last, inputs=(lifted, *last.inputs[1:]))
    draft.substitute(node.outputs[0], chain[0].outputs[0])
    made = draft.producer(lifted)
    assert made is not None
    return made


def _fold(draft: Draft, node: Node) -> None:
    """Fold a quantize with the operator before it."""
    output, source = draft.tensors[node.outputs[0]], draft.tensors[node.inputs[0]]
    if output.quant is None or output.quant.axis is not None or source.dtype.kind != "f":
        return
    above = draft.producer(source.name)
    if above is None:
        return
    if above.op == "dequantize":
        _rescale(draft, node, above)
    elif draft.only_reader(source.name) is not None:
        form = _form(draft, above, output)
        if form is None:
            return
        if form.kept is not None and not form.kept.same_as(output.quant):
            # It keeps its input's scale; the quantize stays, between integers.
            draft.change(above, inputs=form.inputs, attrs=form.attrs)
            draft.retype(source.name, dtype=output.dtype, quant=form.kept)
            draft.change(node, attrs={"rounding": "single"})
            return
        draft.change(above, op=form.op or above.op, inputs=form.inputs, attrs=form.attrs)
        known = output.source or source.source
        draft.retype(source.name, dtype=output.dtype, quant=output.quant, source=known)
        draft.substitute(output.name, source.name)


def _rescale(draft: Draft, node: Node, above: Node) -> None:
    """Before: ``dequantize, quantize``. After: a quantize of integers, or nothing."""
    source, output = draft.tensors[above.inputs[0]], draft.tensors[node.outputs[0]]
    assert source.quant is not None
    assert output.quant is not None
    if source.dtype not in (np.int8, np.uint8) or source.quant.axis is not None:
        return
    if source.dtype == output.dtype and source.quant.same_as(output.quant):
        draft.substitute(output.name, source.name)
    else:
        draft.change(node, inputs=(source.name,), attrs={"rounding": "single"})


def _can_fold(draft: Draft, node: Node, output: Tensor) -> bool:
    return node.op in _FORMS and all(
        _activation(draft, name) is not None for name in node.inputs[:1]
    )


class _Form:
    """An integer operator: its inputs and attributes, and the scale it keeps, if it keeps one.

    Its `op` is "" where that stays what it was.
    """

    def __init__(
        self,
        inputs: tuple[str, ...],
        attrs: Mapping[str, Any],
        kept: Quant | None = None,
        op: str = "",
    ) -> None:
        self.inputs = inputs
        self.attrs = dict(attrs)
        self.kept = kept
        self.op = op


def _form(draft: Draft, node: Node, output: Tensor) -> _Form | None:
    return _FORMS[node.op](draft, node, output) if node.op in _FORMS else None


def _attrs(node: Node, quant: Quant | None, dtype: np.dtype[Any]) -> dict[str, Any]:
    attrs = dict(node.attrs)
    if "rounding" in attrs:
        attrs["rounding"] = "single"
    if "clip" in attrs:
        assert quant is not None
        attrs["clip"] = tuple(levels(bound, quant, dtype) for bound in attrs["clip"])
    return attrs


def _elements(draft: Draft, node: Node, output: Tensor) -> _Form | None:
    sources = [_activation(draft, name) for name in node.inputs]
    names = tuple(t.name for t in sources if t is not None and t.dtype == output.dtype)
    if len(names) != len(sources):
        return None
    return _Form(names, _attrs(node, output.quant, output.dtype))


def _leaky(draft: Draft, node: Node, output: Tensor) -> _Form | None:
    return _elements(draft, node, output) if node.attrs["alpha"] >= 0 else None


def _pool(draft: Draft, node: Node, output: Tensor) -> _Form | None:
    source = _activation(draft, node.inputs[0])
    if source is None or source.dtype != output.dtype:
        return None
    assert source.quant is not None
    assert output.quant is not None
    # A mean is rounded at the input's scale and then at the output's: a step, unless that is finer.
    if node.op == "avg_pool2d" and source.quant.scale[0] >= 2 * output.quant.scale[0]:
        return _sum_of_taps(draft, node, source, output)
    return _Form((source.name,), _attrs(node, source.quant, source.dtype), source.quant)


def _sum_of_taps(draft: Draft, node: Node, source: Tensor, output: Tensor) -> _Form | None:
    """Return a mean as a depthwise convolution, which is rounded at the output's scale alone.

    Before: ``avg_pool2d 3x3``. After: ``depthwise_conv2d`` by ones of scale 1/9. None where
    windows at the edge hold less.
    """
    if any(map(any, node.attrs["padding"])):
        return None
    window = node.attrs["window"]
    ones = np.ones((1, *window, source.shape[3]), source.dtype)
    share = Quant(np.array([1 / prod(window)]), np.zeros(1, np.int64))
    weight = draft.add_constant(f"{node.name}.weight", ones, share)
    attrs = _attrs(node, output.quant, output.dtype) | {"dilation": (1, 1), "rounding": "single"}
    del attrs["window"]
    return _Form((source.name, weight), attrs, op="depthwise_conv2d")


def _weighted(draft: Draft, node: Node, output: Tensor) -> _Form | None:
    data, weight = _activation(draft, node.inputs[0]), _stored(draft, node.inputs[1])
    if data is None or weight is None or weight.data is None:
        return None
    if not data.dtype == weight.dtype == output.dtype:
        return None
    assert data.quant is not None
    assert weight.quant is not None
    if weight.quant.axis not in (None, _WEIGHT_AXIS[node.op]):
        return None
    names = [data.name, weight.name]
    if len(node.inputs) > 2:
        scale = data.quant.scale.astype(np.float64) * weight.quant.scale.astype(np.float64)
        integers = _bias(draft, node.inputs[2], scale)
        if integers is None:
            return None
        quant = Quant(scale, np.zeros(scale.size, np.int64), None if scale.size == 1 else 0)
        names.append(draft.add_constant(f"{node.name}.bias", integers, quant))
    return _Form(tuple(names), _attrs(node, output.quant, output.dtype))


def _bias(draft: Draft, name: str, scale: Any) -> Any:
    """Return a bias as int32 counts of `scale`, None where it is computed."""
    values = draft.constant(name)
    if values is None:
        producer = draft.producer(name)
        if producer is None or producer.op != "dequantize":
            return None
        stored = draft.tensors[producer.inputs[0]]
        if stored.data is None or stored.quant is None:
            return None
        centred = stored.data.astype(np.float64) - stored.quant.zero_point
        # As float32 numbers, which a file stores, the two scales may be neighbours.
        if np.allclose(stored.quant.scale, scale, rtol=1e-5, atol=0):
            return centred.astype(np.int32)
        values = centred * stored.quant.scale.astype(np.float64)
    steps = np.rint(values.astype(np.float64) / scale)
    return np.clip(steps, -_BIAS_LIMIT, _BIAS_LIMIT).astype(np.int32)


_FORMS: Mapping[str, Callable[[Draft, Node, Tensor], _Form | None]] = {
    **dict.fromkeys(_RESCALED, _elements),
    **dict.fromkeys(_WEIGHT_AXIS, _weighted),
    "avg_pool2d": _pool,
    "leaky_relu": _leaky,
    "max_pool2d": _pool,
}
"""``(draft, node, quantized output) -> integer form or None``, by operator."""
