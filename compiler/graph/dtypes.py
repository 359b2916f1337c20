"""Which dtypes an operator's inputs and output may have: each rule gives a reason, or None."""

from __future__ import annotations

from collections.abc import Sequence

from .tensor import Tensor

__all__ = [
    "any_dtype",
    "comparison",
    "dequantized",
    "floating",
    "indexed",
    "numbers",
    "one_dtype",
    "quantized",
    "selected",
    "weighted",
]

_BETWEEN = "Quantize the whole network, or put quantize and dequantize between."
_CAST = "Put a cast before it."


def any_dtype(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Anything goes."""
    return None


def one_dtype(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Inputs and output share a dtype."""
    return _shared((*inputs, output))


def numbers(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Inputs and output share a dtype other than bool."""
    return _shared((*inputs, output)) or _bool_refused(output)


def weighted(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Input, weight and output share a dtype; the bias is wider."""
    return _shared((*inputs[:2], output)) or _bool_refused(output)


def floating(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Inputs and output share a float dtype."""
    if output.dtype.kind != "f":
        return f"works on floats, not {output.dtype}. Dequantize or cast its input."
    return _shared((*inputs, output))


def comparison(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Inputs share a dtype; the output is bool."""
    if output.dtype != bool:
        return f"must give bool, not {output.dtype}. Put a cast after it."
    return _shared(inputs)


def selected(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """The condition is bool, the rest shares a dtype."""
    if inputs[0].dtype != bool:
        return f"must choose by a bool, not {inputs[0].dtype}. {_CAST}"
    return _shared((*inputs[1:], output))


def indexed(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Data and output share a dtype; indices are plain integers."""
    if inputs[1].dtype.kind not in "iu" or inputs[1].quant is not None:
        return f"must be indexed by plain integers, not {inputs[1].dtype}. {_CAST}"
    return _shared((inputs[0], output))


def quantized(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Floats or integers to integers."""
    if inputs[0].dtype.kind not in "fiu" or output.dtype.kind not in "iu":
        return f"must make integers of numbers, not {output.dtype} of {inputs[0].dtype}. {_CAST}"
    return None


def dequantized(inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """Integers to floats."""
    if inputs[0].dtype.kind not in "iu" or output.dtype.kind != "f":
        return f"must make floats of integers, not {output.dtype} of {inputs[0].dtype}. {_CAST}"
    return None


def _bool_refused(output: Tensor) -> str | None:
    if output.dtype == bool:
        return f"must compute on numbers, not bool. {_CAST}"
    return None


def _shared(tensors: Sequence[Tensor]) -> str | None:
    names = sorted({str(t.dtype) for t in tensors})
    if len(names) == 1:
        return None
    remedy = _BETWEEN if any(t.quant is not None for t in tensors) else _CAST
    return f"must have inputs and outputs of one dtype, not {', '.join(names)}. {remedy}"
