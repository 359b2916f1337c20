"""From a graph to a compiled module: placement, layouts, memory, programs."""

from __future__ import annotations

from .pipeline import PASSES, compile_graph

__all__ = ["PASSES", "compile_graph"]
