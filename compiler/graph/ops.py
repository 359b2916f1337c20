"""The operator table: for each operator its inputs, attributes, shape rule and fusion class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vdla.errors import ModelError

from . import dtypes, images, movement, rearranging, shapes
from .opspec import FusionClass, OpSpec
from .tensor import Tensor

__all__ = ["MOVEMENTS", "OPS", "FusionClass", "OpSpec", "check_node"]

MOVEMENTS = frozenset(
    {
        "expand",
        "gather",
        "max_pool2d",
        "pad",
        "reduce_max",
        "reshape",
        "resize",
        "slice",
        "transpose",
    }
)
"""Operators that move elements, or pick one: the output means what the first input means."""


def _conv_macs(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return outputs[0].size * (inputs[1].size // inputs[1].shape[0])


def _depthwise_macs(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return outputs[0].size * inputs[1].shape[1] * inputs[1].shape[2]


def _transposed_macs(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return inputs[0].size * inputs[1].size // inputs[0].shape[3]


def _matmul_macs(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    return outputs[0].size * inputs[0].shape[-1]


_INJECTIVE, _REDUCTION, _OPAQUE = FusionClass.INJECTIVE, FusionClass.REDUCTION, FusionClass.OPAQUE
_HEAVY = FusionClass.COMPLEX_OUT_FUSABLE
_FUSED = ("clip", "rounding")
_WINDOW = ("clip", "padding", "strides")
_CONV = (*_WINDOW, "dilation", "rounding")
_WEIGHTED = ("input", "weight", "bias")
_RESIZE = (
    "antialias",
    "coordinates",
    "cubic_a",
    "exclude_outside",
    "extrapolation",
    "mode",
    "nearest",
    "roi",
    "scales",
    "size",
)


def _binary(*attrs: str, dtype_rule: Any = dtypes.numbers) -> OpSpec:
    return OpSpec(
        ("lhs", "rhs"),
        attrs,
        shapes.broadcast,
        _INJECTIVE,
        dtypes=dtype_rule,
        per_image=images.broadcasts,
    )


def _unary(*attrs: str, dtype_rule: Any = dtypes.numbers) -> OpSpec:
    return OpSpec(("input",), attrs, shapes.same, _INJECTIVE, dtypes=dtype_rule)


def _real(*attrs: str) -> OpSpec:
    return _unary(*attrs, dtype_rule=dtypes.floating)


def _weighted(attrs: tuple[str, ...], shape: Any, macs: Any) -> OpSpec:
    return OpSpec(_WEIGHTED, attrs, shape, _HEAVY, 1, macs, dtypes=dtypes.weighted)


def _pool() -> OpSpec:
    attrs = (*_WINDOW, "window")
    return OpSpec(("input",), attrs, shapes.pool, _REDUCTION, dtypes=dtypes.numbers)


def _reduction(*attrs: str, dtype_rule: Any = dtypes.numbers) -> OpSpec:
    return OpSpec(
        ("input",),
        ("axes", "keep_dims", *attrs),
        shapes.mean,
        _REDUCTION,
        dtypes=dtype_rule,
        per_image=images.reduces,
    )


def _moving(*attrs: str, shape: Any, per_image: Any = images.first_alone) -> OpSpec:
    return OpSpec(("input",), attrs, shape, _INJECTIVE, per_image=per_image)


OPS: Mapping[str, OpSpec] = {
    "add": _binary(*_FUSED),
    "avg_pool2d": _pool(),
    "cast": _unary(dtype_rule=dtypes.any_dtype),
    "clip": _unary(*_FUSED),
    "concat": OpSpec(
        ("input",),
        ("axis",),
        movement.concat,
        _INJECTIVE,
        variadic=True,
        per_image=images.beyond_axis,
    ),
    "conv2d": _weighted(_CONV, shapes.conv, _conv_macs),
    "conv_transpose2d": _weighted(
        (*_CONV, "groups", "output_padding"), shapes.conv_transpose, _transposed_macs
    ),
    "dense": _weighted(("clip", "keep_dims", "rounding"), shapes.dense, _conv_macs),
    "depthwise_conv2d": _weighted(_CONV, shapes.depthwise, _depthwise_macs),
    "dequantize": _unary(dtype_rule=dtypes.dequantized),
    "div": _binary(),
    "equal": _binary(dtype_rule=dtypes.comparison),
    "erf": _real(),
    "exp": _real(),
    "expand": _moving("shape", shape=movement.expand, per_image=images.broadcasts),
    "gather": OpSpec(
        ("input", "indices"),
        ("axis",),
        movement.gather,
        _INJECTIVE,
        dtypes=dtypes.indexed,
        per_image=images.gathers,
    ),
    "hard_sigmoid": _real("alpha", "beta"),
    "hard_swish": _real(),
    "leaky_relu": _unary("alpha"),
    "log": _real(),
    "lrn": OpSpec(
        ("input",),
        ("alpha", "beta", "bias", "size"),
        shapes.lrn,
        _OPAQUE,
        dtypes=dtypes.floating,
        per_image=images.last_axis,
    ),
    "matmul": OpSpec(
        ("lhs", "rhs"),
        (),
        shapes.matmul,
        _HEAVY,
        macs=_matmul_macs,
        dtypes=dtypes.numbers,
        per_image=images.multiplies,
    ),
    "max_pool2d": _pool(),
    "maximum": _binary(dtype_rule=dtypes.one_dtype),
    "mean": _reduction("rounding"),
    "minimum": _binary(dtype_rule=dtypes.one_dtype),
    "mul": _binary(),
    "pad": _moving("mode", "paddings", "value", shape=movement.pad),
    "pow": _binary(),
    "prelu": OpSpec(
        ("input", "slope"),
        (),
        shapes.prelu,
        _INJECTIVE,
        dtypes=dtypes.numbers,
        per_image=images.broadcasts,
    ),
    "quantize": _unary("rounding", dtype_rule=dtypes.quantized),
    "reduce_max": _reduction(dtype_rule=dtypes.one_dtype),
    "reduce_sum": _reduction(),
    "relu": _unary(*_FUSED),
    "relu6": _unary(*_FUSED),
    "reshape": _moving("shape", shape=movement.reshape),
    "resize": OpSpec(("input",), _RESIZE, movement.resize, _OPAQUE),
    "sigmoid": _real(),
    "slice": _moving("begin", "end", "step", shape=movement.slice_),
    "softmax": OpSpec(
        ("input",),
        ("axis", "beta"),
        shapes.softmax,
        _OPAQUE,
        dtypes=dtypes.numbers,
        per_image=images.beyond_axis,
    ),
    "space_to_depth": _moving("block", "padding", "value", shape=rearranging.space_to_depth),
    "sqrt": _real(),
    "sub": _binary(),
    "tanh": _real(),
    "transpose": _moving("perm", shape=movement.transpose, per_image=images.transposes),
    "unfold": _moving(
        "dilation", "padding", "strides", "value", "window", shape=rearranging.unfold
    ),
    "where": OpSpec(
        ("condition", "lhs", "rhs"),
        (),
        shapes.broadcast,
        _INJECTIVE,
        dtypes=dtypes.selected,
        per_image=images.broadcasts,
    ),
}
"""Every operator by name.

Axes and permutations count from 0. Binary operators broadcast as numpy does; integers without
scales are plain numbers.

Attributes: ``strides`` (sh, sw); ``dilation`` (dh, dw); ``window`` (kh, kw); ``padding``
((top, bottom), (left, right)) in elements, which conv_transpose2d crops from its output instead,
after ``output_padding`` (h, w) was added at the end; ``groups`` its groups; ``clip`` (lo, hi) the
range of outputs after the fused activation, as integers of the output's dtype (floats where the
output is a float); ``rounding`` 'double' or 'single', how the result is requantized, or, of a
quantize of floats, 'even': ties to even, not away from zero; ``axes`` the reduced dimensions;
``keep_dims`` whether reduced (or dense's leading) dimensions stay; ``paddings`` a (before, after)
pair for each dimension, ``value`` the element that fills them, ``mode`` 'constant', 'edge',
'reflect' or 'wrap' as numpy's pad; ``block`` the side of the squares that become channels;
``shape`` the output's; ``begin``, ``end``, ``step`` as Python's range, each for every dimension;
``beta`` the factor on a softmax's input.

leaky_relu is ``x`` or ``alpha x``; hard_sigmoid ``clip(alpha x + beta, 0, 1)``; hard_swish
``x clip(x / 6 + 1/2, 0, 1)``; lrn ``x / (bias + alpha / size * sum x'^2) ** beta`` over ``size``
channels around x's, the greater half after it.

resize is ONNX's Resize (opset 19) with every dimension listed: ``size`` the output's shape;
``scales`` output over input, as the coordinates are reckoned; ``mode`` 'nearest', 'linear' or
'cubic'; ``coordinates`` and ``nearest`` its modes by ONNX's names; ``cubic_a`` its coefficient;
``exclude_outside`` and ``antialias`` whether; ``roi`` a (begin, end) pair for each dimension, or
None; ``extrapolation`` the value outside a region.
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
    if len(inputs) < least or (len(inputs) > most and not spec.variadic) or len(outputs) != 1:
        count = "as often as wanted" if spec.variadic else f"{spec.optional} of them optional"
        raise ModelError(
            f"{op} takes {', '.join(spec.inputs)} ({count}) and gives one "
            f"output; node {name!r} has {len(inputs)} inputs and {len(outputs)} outputs. "
            "Give it those."
        )
    if set(attrs) != set(spec.attrs):
        raise ModelError(
            f"{op} has the attributes {', '.join(sorted(spec.attrs)) or '(none)'}; node {name!r} "
            f"has {', '.join(sorted(attrs)) or '(none)'}. Give it those."
        )
    _check_rounding(name, op, inputs, attrs)
    reason = spec.dtypes(inputs, outputs[0])
    if reason is not None:
        raise ModelError(f"{op} node {name!r} {reason}")
    try:
        shape = spec.shape([t.shape for t in inputs], attrs)
    except ModelError as error:
        raise ModelError(f"Node {name!r}: {error}") from None
    if shape != outputs[0].shape:
        raise ModelError(
            f"An output's shape must follow from the inputs; {op} node {name!r} gives {shape}, "
            f"not {outputs[0].shape}. Correct the tensor's shape or the node's attributes."
        )


def _check_rounding(name: str, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> None:
    rounding = attrs.get("rounding", "double")
    to_even = op == "quantize" and inputs[0].dtype.kind == "f" and rounding == "even"
    if rounding not in ("double", "single") and not to_even:
        raise ModelError(
            f"rounding must be 'double' or 'single', not {rounding!r} (node {name!r}). "
            "Convolutions and additions round twice, dense layers once; a quantize of floats may "
            "round 'even'."
        )
