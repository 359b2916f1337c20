"""A network as kernels, the calls of them in order, and where what they compute lies."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from vdla.compiler.cpu.define.site import Array
from vdla.compiler.cpu.sameness import group_key
from vdla.compiler.cpu.winograd import ALGORITHMS, Algorithm
from vdla.compiler.graph import Graph
from vdla.compiler.network.memory import Life, aligned, place
from vdla.compiler.passes.halves import in_halves
from vdla.compiler.targets.gpu import Kernel
from vdla.compiler.te import Tensor
from vdla.compiler.tune.database import Database
from vdla.errors import InputError, LoweringError

from .part import Part
from .parts import Step, graph_parts, part_kernels
from .template import warp_product
from .tuning import GpuMachine, recorded_tile
from .winograd import WinogradPart

__all__ = ["Call", "GpuNetwork", "Region", "compile_network"]


@dataclass(frozen=True)
class Call:
    """A kernel, and the arrays that it is given, by name, in the order of its parameters."""

    kernel: Kernel
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class Region:
    """Where an array lies in the arena, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class GpuNetwork:
    """What a device needs to run a network.

    Attributes
    ----------
    graph : Graph
    calls : tuple of Call
        In order. Equal operators have one kernel.
    constants : mapping of str to array
        Weights as kernels read them, by name.
    regions : mapping of str to Region
        Of the arena: what is computed on the way and read by no one else.
    arena_bytes : int
    """

    graph: Graph
    calls: tuple[Call, ...]
    constants: Mapping[str, Array]
    regions: Mapping[str, Region]
    arena_bytes: int

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Each kernel once, in the order of their first calls."""
        return tuple({id(call.kernel): call.kernel for call in self.calls}.values())


def compile_network(
    graph: Graph,
    records: Database | None = None,
    machine: GpuMachine | None = None,
    *,
    winograd: int = 0,
    dtype: str = "float32",
    matrices: bool = False,
    virtual: bool = True,
) -> GpuNetwork:
    """Make kernels of a network in float32 or float16.

    Stages, in order:

    0. for float16, weights and activations become half floats, with casts behind the inputs and
       before the outputs, which stay float32;
    1. operators are fused into parts by their classes;
    2. each part becomes kernels: one by a template of a product or a convolution, with what
       follows on its tile, or one for each stage of its tensor expressions; parts that do the same
       on other weights share theirs;
    3. the arena is planned: what never lives at the same time shares memory.

    Parameters
    ----------
    graph : Graph
    records : Database, optional
        What was tuned: an operator whose task on the machine has a record is shared out as that
        says, others by rules.
    machine : GpuMachine, optional
        Where the network is going to run.
    winograd : int
        Rows and columns of tiles, 2 or 4, by which Winograd's algorithms compute convolutions of
        3 x 3 that step by one: with 2.25 or 4 times fewer products, and sums that are rounded
        otherwise. 0 leaves them to the template.
    dtype : str
        ``float16`` or ``float32``: how weights and activations lie in memory. Both are computed
        with in float32.
    matrices : bool
        Whether warps multiply matrices of float16 and of 8-bit integers, by tensor cores: in
        CUDA C alone, and from compute capability 7.0 on, or 7.2. What they take, Winograd's
        algorithms do not.
    virtual : bool
        Whether a thread may compute several pieces of a tile, by virtual threads; without, it
        computes as much in one piece, to compare with.

    Raises
    ------
    LoweringError
        No kernel can be made of an operator; it is named. Or there is no algorithm of such tiles.
    ModelError
        A weight is beyond the range of float16.
    InputError
        The dtype is another one, or a record's point is none of its template's.
    """
    algorithm = _algorithm(winograd)
    if dtype not in ("float16", "float32"):
        raise InputError(f"A network on a GPU must be in float16 or float32, not in {dtype}.")
    if dtype == "float16":
        graph = in_halves(graph)
    made: dict[Hashable, tuple[Part, tuple[Step, ...]]] = {}
    calls: list[Call] = []
    constants: dict[str, Array] = {}
    for number, part in enumerate(graph_parts(graph, algorithm, matrices=matrices)):
        key = group_key(graph, part.nodes)
        if key not in made:
            by_warps = matrices and warp_product(part) is not None
            tuned = not isinstance(part, WinogradPart) and not by_warps
            tile = recorded_tile(records, graph, part, machine) if tuned else None
            steps = part_kernels(
                graph, part, f"part{number}", tile, matrices=matrices, virtual=virtual
            )
            made[key] = part, steps
        first, steps = made[key]
        names = _names(graph, part, first, steps, f"part{number}")
        for step in steps:
            calls.append(Call(step.kernel, tuple(names[t] for t in step.tensors)))
        for given, array in zip(first.constants, part.constants.values(), strict=True):
            if given in names:
                constants[names[given]] = array
    regions, end = _plan(graph, calls)
    return GpuNetwork(graph, tuple(calls), constants, regions, end)


def _algorithm(tile: int) -> Algorithm | None:
    found = {by.tile: by for by in ALGORITHMS.values()}
    if tile and tile not in found:
        raise LoweringError(
            f"Tiles of Winograd's algorithms must have {' or '.join(map(str, sorted(found)))} rows "
            f"and columns, not {tile}: give one of these, or 0 for none."
        )
    return found.get(tile)


def _names(
    graph: Graph, part: Part, first: Part, steps: Sequence[Step], called: str
) -> Mapping[Tensor, str]:
    """Return what the tensors that kernels were made for are called in a part that shares them."""
    names = dict(zip(first.inputs, part.inputs.values(), strict=True))
    names[first.output] = part.nodes[-1].outputs[0]
    for tensor in (tensor for step in steps for tensor in step.tensors):
        if tensor not in names:
            name = f"{called}.{len(names)}"
            while name in graph.tensors:
                name += "_"
            names[tensor] = name
    return names


def _plan(graph: Graph, calls: Sequence[Call]) -> tuple[Mapping[str, Region], int]:
    """Place what calls write for later calls alone."""
    sizes: dict[str, int] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for moment, call in enumerate(calls):
        for parameter, name in zip(call.kernel.parameters, call.arrays, strict=True):
            if parameter.written and name not in graph.outputs:
                itemsize = np.dtype(parameter.buffer.dtype).itemsize
                sizes[name] = aligned(prod(parameter.shape) * itemsize)
                first[name] = moment
            if name in first:
                last[name] = moment
    spans = [Life(first[name], last[name]) for name in sizes]
    offsets, end = place(list(sizes.values()), spans)
    regions = (Region(*one) for one in zip(offsets, sizes.values(), strict=True))
    return dict(zip(sizes, regions, strict=True)), end
