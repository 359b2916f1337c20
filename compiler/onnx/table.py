"""The ONNX operators that are taken, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .build import Builder
from .movement import MOVEMENT
from .node import OnnxNode, Value
from .pointwise import POINTWISE
from .products import PRODUCTS
from .quantized import QUANTIZED
from .resizing import RESIZING
from .windows import WINDOWS

__all__ = ["CONVERSIONS"]

CONVERSIONS: Mapping[str, Callable[[OnnxNode, Builder], Sequence[Value]]] = {
    **MOVEMENT,
    **POINTWISE,
    **PRODUCTS,
    **QUANTIZED,
    **RESIZING,
    **WINDOWS,
}
"""``(node, builder) -> values of the outputs``; operators of constants are computed instead."""
