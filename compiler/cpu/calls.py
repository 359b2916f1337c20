"""A kernel's place in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Call"]


@dataclass(frozen=True)
class Call:
    """A kernel that a run calls, and with what.

    Attributes
    ----------
    function : llvmlite.ir.Function
    inputs : tuple of str
        Tensors of the graph.
    constants : tuple of int
        Where they lie, in bytes.
    output : str
    workspace_bytes : int
    """

    function: Any
    inputs: tuple[str, ...]
    constants: tuple[int, ...]
    output: str
    workspace_bytes: int
