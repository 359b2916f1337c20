"""What kernels read and write, counted statement by statement: the same on every device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import astuple, dataclass
from math import prod

from vdla.compiler.cpu.sameness import group_key
from vdla.compiler.graph import Graph
from vdla.compiler.ir.linear import const_bounds
from vdla.compiler.ir.stmt import Access, Intrinsic, Store
from vdla.compiler.lower.regions import SHARED
from vdla.compiler.targets.gpu import Kernel
from vdla.compiler.targets.gpu.kernel import Guard, Loop, Matrix, Sequence, Statement
from vdla.compiler.targets.gpu.matrices import LANES, SIDE, SUMS
from vdla.compiler.te.expr import Expr, Var

from .network import GpuNetwork, compile_network

__all__ = ["Loads", "loads_of", "network_loads", "unfused_networks"]

_Loops = tuple[tuple[Var, Expr], ...]


@dataclass(frozen=True)
class Loads:
    """Elements that all threads together read and write, with every condition true.

    Attributes
    ----------
    calls : int
        Of kernels.
    memory : int
        Read of the device's memory, caches left out.
    fetched : int
        Those of them that a block's threads read for each other, into shared memory.
    shared : int
        Read of shared memory.
    written : int
        To memory.
    warp_products : int
        Products of two elements that warps add up as matrices, those at the ends of tiles that
        are 0 among them.
    """

    calls: int = 0
    memory: int = 0
    fetched: int = 0
    shared: int = 0
    written: int = 0
    warp_products: int = 0

    @property
    def unshared(self) -> int:
        """What would be read of memory if each thread read for itself."""
        return self.memory - self.fetched + self.shared

    def __add__(self, other: Loads) -> Loads:
        return Loads(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, count: int) -> Loads:
        return Loads(*(count * n for n in astuple(self)))


def loads_of(kernel: Kernel) -> Loads:
    """Return what a call of a kernel reads and writes."""
    threads = prod(kernel.grid) * prod(kernel.block)
    return Loads(calls=1) + _counted(kernel.body, kernel.places) * threads


def network_loads(*networks: GpuNetwork) -> Loads:
    """Return what all calls of networks read and write."""
    return sum((loads_of(call.kernel) for made in networks for call in made.calls), Loads())


def unfused_networks(graph: Graph) -> tuple[GpuNetwork, ...]:
    """Return each operator of a network by itself, in order; those alike are one object."""
    known: dict[Hashable, GpuNetwork] = {}
    made = []
    for node in graph.nodes:
        key = group_key(graph, (node,))
        if key not in known:
            known[key] = compile_network(graph.part([node]))
        made.append(known[key])
    return tuple(made)


def _moved(target: Access, operands: Iterable[tuple[Access, int]]) -> Loads:
    """Return what is read, some elements of each operand, and whether one is written to memory.

    Of a tile that the threads of a warp take together, each has its share.
    """
    read: Counter[str] = Counter()
    for operand, elements in operands:
        read[operand.buffer.scope] += elements
    return Loads(
        memory=read["global"],
        fetched=read["global"] if target.buffer.scope == SHARED else 0,
        shared=read[SHARED],
        written=int(target.buffer.scope == "global"),
    )


def _counted(stmt: Statement, loops: _Loops) -> Loads:
    """Return what a statement reads and writes in one thread."""
    if isinstance(stmt, Store):
        return _moved(stmt.target, ((load, 1) for load in stmt.loads))
    if isinstance(stmt, Intrinsic):
        sizes = (prod(tensor.shape) for tensor in stmt.intrin.operands)
        return _moved(stmt.output, zip(stmt.operands, sizes, strict=True))
    if isinstance(stmt, Matrix):
        moved = _moved(stmt.output, ((one, SIDE * SIDE // LANES) for one in stmt.operands))
        multiplies = stmt.operands and stmt.output.buffer.scope == SUMS
        return moved + Loads(warp_products=SIDE**3 // LANES if multiplies else 0)
    if isinstance(stmt, Loop):
        times = const_bounds(stmt.extent, loops)[1]
        return _counted(stmt.body, (*loops, (stmt.var, stmt.extent))) * times
    if isinstance(stmt, Guard):
        return _counted(stmt.body, loops)
    inner = stmt.stmts if isinstance(stmt, Sequence) else ()
    return sum((_counted(child, loops) for child in inner), Loads())
