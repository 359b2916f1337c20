"""The operator table: for each operator its inputs, attributes, shape rule and fusion class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from vdla.errors import ModelError

from . import rearranging, shapes
from .tensor import Tensor

__all__ = ["OPS", "FusionClass", "OpSpec", "check_node"]

ShapeRule = Callable[[Sequence[tuple[int, ...]], Mapping[str, Any]], tuple[int, ...]]
MacCount = Callable[[Sequence[Tensor], Sequence[Tensor]], int]


class FusionClass(Enum):
    """How an operator may join its neighbours in one fused operator."""

    INJECTIVE = "injective"
    """One output element reads one element of each input: fuses with injective neighbours."""
    REDUCTION = "reduction"
    """Reads many elements: injective producers fuse into it."""
    COMPLEX_OUT_FUSABLE = "complex-out-fusable"
    """A heavy operator: injective consumers fuse onto its output."""
    OPAQUE = "opaque"
    """Fuses with nothing."""


@dataclass(frozen=True)
class OpSpec:
    """One row of the operator table.

    Parameters
    ----------
    inputs : tuple of str
        Meaning of each input, in order.
    optional : int
        How many of the last inputs may be left out.
    attrs : tuple of str
        Attribute names; all are required and no other is allowed.
    shape : callable
        ``(input shapes, attrs) -> output shape``.
    fusion : FusionClass
    macs : callable or None
        ``(input tensors, output tensors) -> int``, for operators that multiply and accumulate.
    """

    inputs: tuple[str, ...]
    attrs: tuple[str, ...]
    shape: ShapeRule
    fusion: FusionClass
    optional: int = 0
    macs: MacCount | None = None


def _conv_macs(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return outputs[0].size * (inputs[1].size // inputs[1].shape[0])


def _depthwise_macs(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return outputs[0].size * inputs[1].shape[1] * inputs[1].shape[2]


_WINDOW = ("clip", "padding", "strides")
_CONV = (*_WINDOW, "dilation", "rounding")
_WEIGHTED = ("input", "weight", "bias")

OPS: Mapping[str, OpSpec] = {
    "add": OpSpec(("lhs", "rhs"), ("clip", "rounding"), shapes.broadcast, FusionClass.INJECTIVE),
    "avg_pool2d": OpSpec(("input",), (*_WINDOW, "window"), shapes.pool, FusionClass.REDUCTION),
    "conv2d": OpSpec(_WEIGHTED, _CONV, shapes.conv, FusionClass.COMPLEX_OUT_FUSABLE, 1, _conv_macs),
    "dense": OpSpec(
        _WEIGHTED,
        ("clip", "keep_dims", "rounding"),
        shapes.dense,
        FusionClass.COMPLEX_OUT_FUSABLE,
        1,
        _conv_macs,
    ),
    "depthwise_conv2d": OpSpec(
        _WEIGHTED, _CONV, shapes.depthwise, FusionClass.COMPLEX_OUT_FUSABLE, 1, _depthwise_macs
    ),
    "dequantize": OpSpec(("input",), (), shapes.same, FusionClass.INJECTIVE),
    "max_pool2d": OpSpec(("input",), (*_WINDOW, "window"), shapes.pool, FusionClass.REDUCTION),
    "mean": OpSpec(
        ("input",), ("axes", "keep_dims", "rounding"), shapes.mean, FusionClass.REDUCTION
    ),
    "pad": OpSpec(("input",), ("paddings", "value"), shapes.pad, FusionClass.INJECTIVE),
    "quantize": OpSpec(("input",), ("rounding",), shapes.same, FusionClass.INJECTIVE),
    "relu": OpSpec(("input",), ("clip", "rounding"), shapes.same, FusionClass.INJECTIVE),
    "relu6": OpSpec(("input",), ("clip", "rounding"), shapes.same, FusionClass.INJECTIVE),
    "reshape": OpSpec(("input",), ("shape",), shapes.reshape, FusionClass.INJECTIVE),
    "softmax": OpSpec(("input",), ("beta",), shapes.same, FusionClass.OPAQUE),
    "space_to_depth": OpSpec(
        ("input",), ("block", "padding", "value"), rearranging.space_to_depth, FusionClass.INJECTIVE
    ),
    "unfold": OpSpec(
        ("input",),
        ("dilation", "padding", "strides", "value", "window"),
        rearranging.unfold,
        FusionClass.INJECTIVE,
    ),
}
"""Every operator by name.

Attributes: ``strides`` (sh, sw); ``dilation`` (dh, dw); ``window`` (kh, kw); ``padding``
((top, bottom), (left, right)) in elements; ``clip`` (lo, hi) the range of outputs after the fused
activation, as integers of the output's dtype (floats where the output is float32); ``rounding``
'double' or 'single', how the result is requantized; ``axes`` the reduced dimensions; ``keep_dims``
whether reduced (mean) or leading (dense) dimensions stay; ``paddings`` a (before, after) pair for
each dimension and ``value`` the element that fills them; ``block`` the side of the squares that
become channels; ``beta`` the factor on a softmax's input.
"""


def check_node(
    name: str,
    op: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    attrs: Mapping[str, Any],
) -> None:
    """Check one node against the table and its output's shape against the rule.

    Raises
    ------
    ModelError
        The operator is unknown, inputs, outputs or attributes differ from its row, or the shape of
        the output is not the inferred one.
    """
    spec = OPS.get(op)
    if spec is None:
        raise ModelError(
            f"An operator must be one of {', '.join(OPS)}, not {op!r} (node {name!r}). "
            "Rewrite the network with those."
        )
    least, most = len(spec.inputs) - spec.optional, len(spec.inputs)
    if not least <= len(inputs) <= most or len(outputs) != 1:
        raise ModelError(
            f"{op} takes {', '.join(spec.inputs)} ({spec.optional} of them optional) and gives one "
            f"output; node {name!r} has {len(inputs)} inputs and {len(outputs)} outputs. "
            "Give it those."
        )
    if set(attrs) != set(spec.attrs):
        raise ModelError(
            f"{op} has the attributes {', '.join(sorted(spec.attrs)) or '(none)'}; node {name!r} "
            f"has {', '.join(sorted(attrs)) or '(none)'}. Give it those."
        )
    if attrs.get("rounding", "double") not in ("double", "single"):
        raise ModelError(
            f"rounding must be 'double' or 'single', not {attrs['rounding']!r} (node {name!r}). "
            "Convolutions and additions round twice, dense layers once."
        )
    _check_dtypes(name, op, inputs, outputs)
    try:
        shape = spec.shape([t.shape for t in inputs], attrs)
    except ModelError as error:
        raise ModelError(f"Node {name!r}: {error}") from None
    if shape != outputs[0].shape:
        raise ModelError(
            f"An output's shape must follow from the inputs; {op} node {name!r} gives {shape}, "
            f"not {outputs[0].shape}. Correct the tensor's shape or the node's attributes."
        )


def _check_dtypes(name: str, op: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    if op in ("quantize", "dequantize"):
        return
    # The third input of a weighted operator is its bias, wider than the rest.
    dtypes = {str(t.dtype) for t in (*inputs[:2], *outputs)}
    if len(dtypes) > 1:
        raise ModelError(
            f"{op} must have inputs and outputs of one dtype, not {', '.join(sorted(dtypes))} "
            f"(node {name!r}). Quantize the whole network, or put quantize and dequantize between."
        )
