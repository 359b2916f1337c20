"""The signed domain: how uint8 tensors lie in the accelerator's memory.

The core multiplies int8. A uint8 value q stands there as the int8 value q - 128, which is q with
its top bit inverted; whatever speaks of such values moves along.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vdla.compiler.graph import Graph, Node, Tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["DTYPES", "offset_of", "signed"]

DTYPES = ("int8", "uint8")
"""Types of the activations that the accelerator computes on."""

Params = TypeVar("Params", bound="DataclassInstance")


def offset_of(tensor: Tensor) -> int:
    """Return what a tensor's values are less in the accelerator's memory."""
    return 128 if str(tensor.dtype) == "uint8" else 0


def signed(params: Params, graph: Graph, node: Node) -> Params:
    """Return a node's integer parameters for values as they lie in the accelerator's memory.

    Zero points of inputs, values of padding, the zero point of the output and the clip range move
    by what their tensors do; differences, and with them all that is multiplied, stay.

    Before, uint8: ``input_zero_point=3, clip=(0, 255)``. After: ``input_zero_point=-125,
    clip=(-128, 127)``.
    """
    read = offset_of(graph.input_tensors(node)[0])
    written = offset_of(graph.output_tensor(node))
    offsets = {
        "clip": written,
        "input_zero_point": read,
        "output_zero_point": written,
        "pad_value": read,
    }
    moved: dict[str, Any] = {}
    for field in fields(params):
        if field.name in offsets:
            value, by = getattr(params, field.name), offsets[field.name]
            moved[field.name] = (
                tuple(v - by for v in value) if isinstance(value, tuple) else value - by
            )
    return replace(params, **moved)
