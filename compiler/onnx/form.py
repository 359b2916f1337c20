"""The form that ONNX gives operators, checked before they are converted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx

from vdla.compiler.graph.tensor import Tensor

from .node import OnnxNode, Value

__all__ = [
    "auto_pad",
    "axes_in",
    "axis_in",
    "counts",
    "form_faults",
    "refuse_infinite",
    "type_fault",
]

_AUTO_PADS = ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID")
_SINGLE = onnx.defs.OpSchema.FormalParameterOption.Single


def form_faults(node: OnnxNode) -> Iterator[str]:
    """Yield what of a node's attributes and number of inputs is not as its operator's schema says.

    Attributes that the schema does not have are passed over.
    """
    schema = _schema(node)
    if schema is None:
        return
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in node.attrs:
            yield f"it must have the attribute {name}"
    for given in node.proto.attribute:
        known = schema.attributes.get(given.name)
        kind = onnx.AttributeProto.AttributeType.Name(given.type)
        wanted = None if known is None else str(known.type).rpartition(".")[2]
        if wanted not in (None, kind) and given.type:
            yield f"its attribute {given.name} must be {wanted}, not {kind}"
    count = len(node.inputs)
    if not schema.min_input <= count <= schema.max_input:
        most = "more" if schema.max_input > 1 << 30 else str(schema.max_input)
        bounds = most if most == str(schema.min_input) else f"{schema.min_input} to {most}"
        yield f"it must have {bounds} inputs, not {count}"
    for place, name in enumerate(node.inputs):
        if not name and _parameter(schema, place).option == _SINGLE:
            yield f"its input {_parameter(schema, place).name} must be given"


def type_fault(node: OnnxNode, inputs: Sequence[Value | None]) -> str | None:
    """Return which input's type its operator does not take, or takes only as another's."""
    schema = _schema(node)
    if schema is None:
        return None
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound: dict[str, tuple[str, str]] = {}
    for place, value in enumerate(inputs[: schema.max_input]):
        kind = None if value is None else _kind(value.dtype)
        if kind is None:
            continue
        parameter = _parameter(schema, place)
        variable = parameter.type_str
        choice = allowed.get(variable, [variable])
        if f"tensor({kind})" not in choice:
            names = ", ".join(sorted(t[7:-1] for t in choice if t.startswith("tensor(")))
            return f"its input {parameter.name} must be one of {names}, not {kind}"
        if variable in allowed and parameter.is_homogeneous:
            first, known = bound.setdefault(variable, (parameter.name, kind))
            if known != kind:
                return (
                    f"its inputs {first} and {parameter.name} must be of one type, not {known} "
                    f"and {kind}"
                )
    return None


def axis_in(node: OnnxNode, axis: int, rank: int) -> int:
    """Return an axis counted from the front; one outside of the dimensions is refused."""
    if not -rank <= axis < rank:
        node.refuse(
            f"an axis must lie in {-rank}..{rank - 1}, not be {axis}",
            "Correct it",
        )
    return axis % rank


def axes_in(node: OnnxNode, axes: Sequence[int], rank: int) -> list[int]:
    """Return axes counted from the front, in their order; none may be named twice."""
    found = [axis_in(node, axis, rank) for axis in axes]
    if len(set(found)) != len(found):
        node.refuse(f"an axis must be named once, not {list(axes)}", "Correct them")
    return found


def counts(node: OnnxNode, name: str, length: int, default: int, least: int) -> list[int]:
    """Return an attribute of so many integers, each at least `least`."""
    values = [int(v) for v in node.attrs.get(name) or [default] * length]
    if len(values) != length or min(values) < least:
        node.refuse(
            f"{name} must be {length} integers of at least {least} for the shape it has, not "
            f"{values}",
            "Correct it",
        )
    return values


def auto_pad(node: OnnxNode) -> str:
    """Return how an operator's padding follows from its shape."""
    mode = str(node.attrs.get("auto_pad", "NOTSET"))
    if mode not in _AUTO_PADS:
        node.refuse(f"auto_pad must be one of {', '.join(_AUTO_PADS)}, not {mode!r}", "Choose one")
    return mode


def refuse_infinite(node: OnnxNode, what: str, values: Sequence[Value]) -> None:
    """Refuse parameters that are infinite."""
    for value in values:
        if isinstance(value, Tensor) or value.dtype.kind != "f" or value.quant is not None:
            continue
        lost = int(np.isinf(value.data).sum())
        if lost:
            node.refuse(
                f"its {what} must be finite; {value.source or 'a constant'} holds {lost} infinite "
                f"in {value.data.size} elements",
                "Train or export the model again",
            )


def _schema(node: OnnxNode) -> onnx.defs.OpSchema | None:
    if node.proto.domain not in ("", "ai.onnx"):
        return None
    try:
        return onnx.defs.get_schema(node.op, node.opset, "")
    except onnx.defs.SchemaError:
        return None


def _parameter(schema: onnx.defs.OpSchema, place: int) -> onnx.defs.OpSchema.FormalParameter:
    """Return what an input is; the last one stands for all behind it."""
    return schema.inputs[min(place, len(schema.inputs) - 1)]


def _kind(dtype: np.dtype[np.generic]) -> str | None:
    try:
        code = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    except (KeyError, ValueError):
        return None
    return str(onnx.TensorProto.DataType.Name(code)).lower()
