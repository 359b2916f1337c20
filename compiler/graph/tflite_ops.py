"""TFLite's operators as ours: which inputs stay and what the attributes are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
import tflite

from vdla.errors import ModelError

from .shapes import same_padding
from .tensor import Tensor
from .tflite_file import TfliteOperator

__all__ = ["CONVERSIONS", "Conversion", "activation_clip", "attributes"]

Attrs = dict[str, Any]
Rule = Callable[[Any, Sequence[Tensor], Tensor], Attrs]

_ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: (None, None),
    tflite.ActivationFunctionType.RELU: (0.0, None),
    tflite.ActivationFunctionType.RELU_N1_TO_1: (-1.0, 1.0),
    tflite.ActivationFunctionType.RELU6: (0.0, 6.0),
}
_ACTIVATION_NAMES = {
    v: k for k, v in vars(tflite.ActivationFunctionType).items() if isinstance(v, int)
}


def activation_clip(
    output: Tensor, low: float | None, high: float | None
) -> tuple[int, int] | tuple[float, float]:
    """Return the range that a fused activation leaves of an output.

    Bounds become integers as in TFLite's ``CalculateActivationRangeQuantized``: the quotient by
    the scale in float32, rounded half away from zero. A float output keeps real bounds.
    """
    if output.quant is None:
        return (-np.inf if low is None else low, np.inf if high is None else high)
    limits = np.iinfo(output.dtype)
    scale, zero_point = np.float32(output.quant.scale[0]), int(output.quant.zero_point[0])

    def bound(real: float) -> int:
        quotient = float(np.float32(real) / scale)
        return zero_point + (floor(quotient + 0.5) if quotient >= 0 else -floor(0.5 - quotient))

    lo = int(limits.min) if low is None else max(int(limits.min), bound(low))
    hi = int(limits.max) if high is None else min(int(limits.max), bound(high))
    return lo, hi


def attributes(operator: TfliteOperator, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    """Return the attributes of our operator for one of the file's.

    Parameters
    ----------
    operator : TfliteOperator
        Its name must be a key of `CONVERSIONS`.
    inputs : sequence of Tensor
        Those present; constants carry their data.
    output : Tensor

    Raises
    ------
    ModelError
        An option has a value that none of our operators takes.
    """
    conversion = CONVERSIONS[operator.name]
    options = None
    if conversion.options is not None:
        if operator.options is None:
            raise ModelError(
                f"{operator.name} must carry its options; operator {operator.index} does not. "
                "Export the model again."
            )
        options = conversion.options()
        options.Init(operator.options.Bytes, operator.options.Pos)
    try:
        return conversion.rule(options, inputs, output)
    except ModelError as error:
        raise ModelError(f"Operator {operator.index} ({operator.name}): {error}") from None


def _fused_clip(options: Any, output: Tensor) -> Any:
    code = options.FusedActivationFunction()
    if code not in _ACTIVATIONS:
        raise ModelError(
            "A fused activation must be RELU, RELU6, RELU_N1_TO_1 or none, not "
            f"{_ACTIVATION_NAMES.get(code, code)}. Make it an operator of its own."
        )
    return activation_clip(output, *_ACTIVATIONS[code])


def _window(
    options: Any, data: Tensor, output: Tensor, window: tuple[int, int], dilation: tuple[int, int]
) -> Attrs:
    strides = (options.StrideH(), options.StrideW())
    if min(*strides, *window, *dilation) < 1:
        raise ModelError(
            f"Windows, strides and dilations must be at least 1, not {window}, {strides} and "
            f"{dilation}. Export the model again."
        )
    valid = options.Padding() == tflite.Padding.VALID
    padding = tuple(
        (0, 0) if valid else same_padding(data.shape[1 + i], window[i], strides[i], dilation[i])
        for i in range(2)
    )
    return {"clip": _fused_clip(options, output), "padding": padding, "strides": strides}


def _convolution(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    _images(inputs[0], inputs[1])
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    window = (inputs[1].shape[1], inputs[1].shape[2])
    attrs = _window(options, inputs[0], output, window, dilation)
    return {**attrs, "dilation": dilation, "rounding": "double"}


def _pool(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    _images(inputs[0])
    window = (options.FilterHeight(), options.FilterWidth())
    return {**_window(options, inputs[0], output, window, (1, 1)), "window": window}


def _dense(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    if options.WeightsFormat() != 0:
        raise ModelError(
            f"Weights must be stored row by row, not in format {options.WeightsFormat()}. "
            "Export them unshuffled."
        )
    clip, keep_dims = _fused_clip(options, output), bool(options.KeepNumDims())
    return {"clip": clip, "keep_dims": keep_dims, "rounding": "single"}


def _add(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    return {"clip": _fused_clip(options, output), "rounding": "double"}


def _relu(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    return {"clip": activation_clip(output, 0.0, None), "rounding": "double"}


def _relu6(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    return {"clip": activation_clip(output, 0.0, 6.0), "rounding": "double"}


def _reshape(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    return {"shape": output.shape}


def _mean(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    rank = len(inputs[0].shape)
    axes = tuple(sorted({int(a) % rank for a in _constant(inputs[1], "axes").ravel()}))
    return {"axes": axes, "keep_dims": bool(options.KeepDims()), "rounding": "double"}


def _pad(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    pairs = _constant(inputs[1], "paddings").reshape(-1, 2)
    data = inputs[0]
    if len(inputs) > 2:
        value = _constant(inputs[2], "fill value").ravel()[0].item()
    else:
        value = 0.0 if data.quant is None else int(data.quant.zero_point[0])
    paddings = tuple((int(a), int(b)) for a, b in pairs)
    return {"mode": "constant", "paddings": paddings, "value": value}


def _quantize(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    return {"rounding": "double"}


def _dequantize(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    return {}


def _softmax(options: Any, inputs: Sequence[Tensor], output: Tensor) -> Attrs:
    return {"axis": len(inputs[0].shape) - 1, "beta": float(options.Beta())}


def _images(*tensors: Tensor) -> None:
    for tensor in tensors:
        if len(tensor.shape) != 4:
            raise ModelError(
                f"Images and filters must have 4 dimensions, not shape {tensor.shape}. Reshape "
                "them before the operator."
            )


def _constant(tensor: Tensor, what: str) -> Any:
    if tensor.data is None:
        raise ModelError(
            f"The {what} must be constant; {tensor.label} is computed. "
            "Export the model with static shapes."
        )
    return tensor.data


@dataclass(frozen=True)
class Conversion:
    """How one TFLite operator is taken.

    Parameters
    ----------
    op : str
        Our operator.
    options : class or None
        The flatbuffer class of its options; None where it has none that matter.
    rule : callable
        ``(options, input tensors, output tensor) -> attributes``.
    parameters : int
        Constant inputs after ours that become attributes.
    """

    op: str
    options: Any
    rule: Rule
    parameters: int = 0


CONVERSIONS: Mapping[str, Conversion] = {
    "ADD": Conversion("add", tflite.AddOptions, _add),
    "AVERAGE_POOL_2D": Conversion("avg_pool2d", tflite.Pool2DOptions, _pool),
    "CONV_2D": Conversion("conv2d", tflite.Conv2DOptions, _convolution),
    "DEPTHWISE_CONV_2D": Conversion(
        "depthwise_conv2d", tflite.DepthwiseConv2DOptions, _convolution
    ),
    "DEQUANTIZE": Conversion("dequantize", None, _dequantize),
    "FULLY_CONNECTED": Conversion("dense", tflite.FullyConnectedOptions, _dense),
    "MAX_POOL_2D": Conversion("max_pool2d", tflite.Pool2DOptions, _pool),
    "MEAN": Conversion("mean", tflite.ReducerOptions, _mean, parameters=1),
    "PAD": Conversion("pad", None, _pad, parameters=1),
    "PADV2": Conversion("pad", None, _pad, parameters=2),
    "QUANTIZE": Conversion("quantize", None, _quantize),
    "RELU": Conversion("relu", None, _relu),
    "RELU6": Conversion("relu6", None, _relu6),
    "RESHAPE": Conversion("reshape", None, _reshape),
    "SOFTMAX": Conversion("softmax", tflite.SoftmaxOptions, _softmax),
    "SQUEEZE": Conversion("reshape", None, _reshape),
}
"""The TFLite operators that are taken, by name."""
