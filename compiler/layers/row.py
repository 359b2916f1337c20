"""A layer as a list gives it, before its input is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from vdla.errors import ModelError

__all__ = ["OPS", "Pads", "Place", "Row", "Size"]

Size = tuple[int, int]
Pads = tuple[Size, Size]

OPS = ("conv", "depthwise", "gemm", "add", "max_pool", "average_pool")


@dataclass(frozen=True)
class Place:
    """A line of a file, to name in errors."""

    file: Path
    line: int

    def refuse(self, rule: str) -> NoReturn:
        """Raise `ModelError` about this line."""
        raise ModelError(f"{self.file}, line {self.line}: {rule}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A layer of a list.

    Attributes
    ----------
    place : Place
    name : str
    op : str
        One of `OPS`. A product of (m, k) by (k, n) is ``gemm``: height m, width 1, k channels.
    size : (int, int) or None
        Height and width of the input, or None where the list gives only the output's.
    out : (int, int) or None
        Height and width of the output, or None where the list gives only the input's.
    window, strides, dilation : (int, int)
    channels, filters : int
        Of input and output; 1 of a depthwise layer stands for as many as come in.
    groups : int
    pads : ((int, int), (int, int)) or None
        Zeros above and below, left and right; None to infer them.
    sources : tuple of str or None
        Names of the rows that are read, where the list says so; a name of no row is an input.
    """

    place: Place
    name: str
    op: str
    size: Size | None
    out: Size | None
    window: Size = (1, 1)
    strides: Size = (1, 1)
    dilation: Size = (1, 1)
    channels: int
    filters: int
    groups: int = 1
    pads: Pads | None = None
    sources: tuple[str, ...] | None = None
