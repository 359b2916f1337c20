"""Names that C takes: one for each thing, whatever tensors and loops are called."""

from __future__ import annotations

import re

from vdla.compiler.te.expr import Var

from .helpers import HELPERS
from .intrinsics import INTRINSICS
from .kernel import BLOCK, THREAD

__all__ = ["Names"]

# Words of C, OpenCL C, CUDA C and Metal that a tensor may well be called, and what kernels call.
_RESERVED = """
auto bfloat block bool break case char class compute const constant continue default delete device
do double else enum event extern false float for fragment friend global goto grid half if image
inline int kernel local long main namespace new operator private protected public register restrict
return sampler shared short signed sizeof static struct switch template this thread threadgroup
throw true try typedef uchar uint ulong union unsigned ushort using vec vertex virtual void volatile
while ceil erf exp fabs floor log max min pow rint sqrt tanh
block_place thread_place char4 uchar4 float2 float4 make_char4 make_uchar4 make_float2 make_float4
asm
"""
_LONG = 10


class Names:
    """Gives each object a name of its own, made from what it is called."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._kept: list[object] = []
        self._taken: set[str] = {*_RESERVED.split(), *HELPERS, *INTRINSICS}
        for var in (*BLOCK, *THREAD):
            self._give(var, var.name)

    def of(self, thing: object, called: str = "") -> str:
        """Return a thing's name, given at its first use.

        ``conv1/out:0`` becomes ``conv1_out_0``, and a second one of that name ``conv1_out_0_2``.
        """
        if id(thing) in self._names:
            return self._names[id(thing)]
        plain = re.sub(r"\W+", "_", called, flags=re.ASCII).strip("_") or "v"
        plain = plain if not plain[0].isdigit() else f"v{plain}"
        name, number = plain, 1
        while name in self._taken:
            number += 1
            name = f"{plain}_{number}"
        return self._give(thing, name)

    def loop(self, var: Var) -> str:
        """Return the name of a loop's variable; one that was fused of many is a mere ``step``."""
        return self.of(var, var.name if len(var.name) <= _LONG else "step")

    def _give(self, thing: object, name: str) -> str:
        self._kept.append(thing)  # an id is its own while the thing lives
        self._taken.add(name)
        self._names[id(thing)] = name
        return name
