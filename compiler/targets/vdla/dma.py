"""Copies to LOAD and STORE instructions: two dimensions, padding, memory strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from vdla.errors import LoweringError

__all__ = ["Block2d", "Dim", "blocks", "collapse"]

_PAD_MAX = 15
_SIZE_MAX = (1 << 16) - 1


@dataclass(frozen=True)
class Dim:
    """One dimension of a copied box, in entries.

    ``before + size + after`` entries in the scratchpad, of which ``size`` come from memory,
    ``stride`` entries apart.
    """

    size: int
    stride: int
    before: int = 0
    after: int = 0

    @property
    def total(self) -> int:
        """Entries in the scratchpad along this dimension."""
        return self.before + self.size + self.after

    @property
    def padded(self) -> bool:
        """Whether anything is padding."""
        return bool(self.before or self.after)


@dataclass(frozen=True)
class Block2d:
    """Fields of one LOAD or STORE, offsets relative to the box's first entries."""

    sram: int
    dram: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0


def collapse(dims: list[Dim]) -> list[Dim]:
    """Join neighbouring dimensions that are contiguous in memory and unpadded.

    Before: ``[3 x stride 196, 14 x stride 14, 14 x stride 1]``. After: ``[588 x stride 1]``.
    """
    joined: list[Dim] = []
    for dim in dims:
        if dim.total == 1 and not dim.padded:
            continue
        last = joined[-1] if joined else None
        if (
            last is not None
            and not (last.padded or dim.padded)
            and last.stride == dim.size * dim.stride
            and (dim.stride != 1 or last.size * dim.size <= _SIZE_MAX)
        ):
            joined[-1] = Dim(last.size * dim.size, dim.stride)
        else:
            joined.append(dim)
    return joined


def blocks(dims: list[Dim]) -> Iterator[Block2d]:
    """Yield the instructions that copy a box, outermost dimension first.

    The innermost dimension becomes the row where it is contiguous in memory, the next one the
    rows; further dimensions take an instruction each. Padding wider than a field, and slices that
    are padding throughout, become instructions that read no memory.
    """
    dims = collapse(dims)
    if not dims or dims[-1].stride != 1:
        dims = [*dims, Dim(1, 1)]
    if len(dims) < 2 or dims[-2].stride > _SIZE_MAX:
        dims = [*dims[:-1], Dim(1, 0), dims[-1]]
    *outer, y, x = dims
    if x.total > _SIZE_MAX or y.total > _SIZE_MAX:
        raise LoweringError(
            f"A copy's rows must have at most {_SIZE_MAX} entries and be at most as many, not "
            f"{x.total} by {y.total}: use smaller tiles."
        )
    sizes = [dim.total for dim in outer]
    plane = y.total * x.total
    for index in product(*map(range, sizes)):
        position, dram, inside = 0, 0, True
        for value, dim in zip(index, outer, strict=True):
            position = position * dim.total + value
            inside &= dim.before <= value < dim.before + dim.size
            dram += (value - dim.before) * dim.stride
        sram = position * plane
        if not inside or x.size <= 0 or y.size <= 0:
            yield from _padding(sram, y.total, x.total)
        else:
            yield from _plane(sram, dram, y, x)


def _padding(sram: int, rows: int, width: int) -> Iterator[Block2d]:
    """Yield instructions that fill rows with padding: no rows of memory, only pad rows."""
    while rows > 0:
        above, below = min(rows, _PAD_MAX), min(max(rows - _PAD_MAX, 0), _PAD_MAX)
        yield Block2d(sram, 0, 0, width, 0, y_pad_0=above, y_pad_1=below)
        sram += (above + below) * width
        rows -= above + below


def _plane(sram: int, dram: int, y: Dim, x: Dim) -> Iterator[Block2d]:
    width = x.total
    if x.before > _PAD_MAX or x.after > _PAD_MAX:
        # The padding of a row is wider than its fields: rows are put together from three parts.
        yield from _padding(sram, y.before, width)
        for row in range(y.size):
            at = sram + (y.before + row) * width
            yield from _padding(at, 1 if x.before else 0, x.before)
            yield Block2d(at + x.before, dram + row * y.stride, 1, x.size, 0)
            yield from _padding(at + x.before + x.size, 1 if x.after else 0, x.after)
        yield from _padding(sram + (y.before + y.size) * width, y.after, width)
        return
    above, below = min(y.before, _PAD_MAX), min(y.after, _PAD_MAX)
    yield from _padding(sram, y.before - above, width)
    sram += (y.before - above) * width
    main = Block2d(sram, dram, y.size, x.size, y.stride, above, below, x.before, x.after)
    yield main if y.size > 1 else replace(main, x_stride=0)
    yield from _padding(sram + (above + y.size + below) * width, y.after - below, width)
