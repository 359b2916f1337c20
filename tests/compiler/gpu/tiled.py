"""Kernels of an operator by tiles that no default would choose."""

from __future__ import annotations

import numpy as np

from tests.compiler.gpu.byte_cases import ByteCase
from tests.compiler.gpu.cases import Case
from vdla.compiler.gpu.part import part_of
from vdla.compiler.gpu.template import tiled_definition, tiled_kernel
from vdla.compiler.gpu.tiles import Tile
from vdla.compiler.targets.gpu import Kernel

__all__ = ["tiled"]


def tiled(case: Case | ByteCase, tile: Tile) -> tuple[Kernel, list[np.ndarray]]:
    """Return the kernel of a case's operator, and what it is given."""
    (node,) = case.graph.nodes
    part = part_of(case.graph, (node,), tiled_definition(case.graph, node))
    kernel, tensors = tiled_kernel(case.graph, part, "k", tile)
    constants = [array for t, array in part.constants.items() if t in tensors]
    return kernel, [*case.inputs, *constants]
