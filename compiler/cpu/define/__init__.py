"""Every operator of the graph as a tensor expression, for code on a processor.

Floats are computed as the host's kernels compute them, half floats in single precision and rounded
at the end; integers with scales to the bit; plain integers modulo their type.
"""

from __future__ import annotations

from .table import DEFINITIONS, Definition, define

__all__ = ["DEFINITIONS", "Definition", "define"]
