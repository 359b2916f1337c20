"""Typed operators and graphs, readers that make them, and their integer parameters."""

from __future__ import annotations

from .graph import Graph, Node
from .ops import MOVEMENTS, OPS, FusionClass, OpSpec
from .tensor import Quant, Tensor
from .tflite_import import import_tflite

__all__ = [
    "MOVEMENTS",
    "OPS",
    "FusionClass",
    "Graph",
    "Node",
    "OpSpec",
    "Quant",
    "Tensor",
    "import_tflite",
]
