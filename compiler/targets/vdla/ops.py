"""The instruction stream before it is encoded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.isa import Alu, Finish, Gemm, Instruction, Load, ModuleName, Store

__all__ = ["Kernel", "Op", "Range", "element_scalars", "ops_text"]


class Range(NamedTuple):
    """Part of a memory that an instruction touches: ``rows`` stretches ``stride`` apart.

    Scratchpads count entries, ``dram`` counts bytes.
    """

    space: str
    start: int
    size: int
    rows: int = 1
    stride: int = 0


@dataclass(frozen=True, eq=False)
class Kernel:
    """A sequence of micro-ops: columns dst, src and wgt, shape (n, 3), int64."""

    uops: NDArray[np.int64]

    @property
    def key(self) -> bytes:
        """Content: kernels of the same key share their place in the micro-op buffer."""
        return self.uops.tobytes()

    def __len__(self) -> int:
        return len(self.uops)


@dataclass(slots=True)
class Op:
    """One instruction to be: its fields so far, what it touches, whom it waits for.

    ``fields`` lacks ``uop_begin`` and ``uop_end`` until `place_kernels`, and the four token flags
    until `link_tokens`.
    """

    module: ModuleName
    kind: type[Load] | type[Store] | type[Gemm] | type[Alu] | type[Finish]
    fields: dict[str, int]
    layer: int = 0
    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()
    kernel: Kernel | None = None
    flags: dict[str, bool] = field(default_factory=dict)

    def instruction(self) -> Instruction:
        """Return the finished instruction."""
        return self.kind(**self.fields, **self.flags)  # type: ignore[arg-type]


def element_scalars(config: Config, scope: str) -> int:
    """Return how many scalars make one entry of a scratchpad."""
    return {
        "inp": config.batch * config.block_in,
        "wgt": config.block_out * config.block_in,
        "acc": config.batch * config.block_out,
    }[scope]


def ops_text(ops: Iterable[Op]) -> str:
    """Return a stream as text, an instruction a line: module, fields, tokens."""
    lines = []
    for op in ops:
        fields = " ".join(f"{name}={value:d}" for name, value in op.fields.items())
        flags = " ".join(name for name, up in op.flags.items() if up)
        lines.append(f"{op.module.value:8}{op.kind.__name__.lower():7}{fields} {flags}".rstrip())
    return "\n".join(lines)
