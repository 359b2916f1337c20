"""Which sums a GPU's dot product of four 8-bit integers adds up."""

from __future__ import annotations

from vdla.compiler.targets.gpu.intrinsics import WORD, dot_product
from vdla.compiler.te import Stage, TensorIntrin
from vdla.compiler.te.expr import Const, Read, Reduce
from vdla.compiler.te.traverse import walk

__all__ = ["dot_of"]


def dot_of(total: Stage) -> TensorIntrin | None:
    """Return the instruction that adds up the last axis of a reduction; None where there is none.

    Its terms are products of two tensors of 8 bits, which lie four to a word along that axis.
    """
    last = total.reduce_axis[-1]
    read = [part for part in walk(total.body) if isinstance(part, Read)]
    dtypes = [part.dtype for part in read]
    if not isinstance(total.body, Reduce) or total.body.kind != "sum" or len(read) != 2:
        return None
    if last.extent != Const(WORD) or not {*dtypes} <= {"int8", "uint8"}:
        return None
    if any(part.indices[-1] != last.var for part in read):
        return None
    return dot_product(*dtypes)
