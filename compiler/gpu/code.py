"""Kernels as source, and runs of layers as calls of them: what a module holds for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.gpu import DIALECTS, Kernel, entry_name, source_of
from vdla.compiler.tune.database import Database
from vdla.errors import LoweringError
from vdla.module import Gpu, GpuArgument, GpuCall, GpuKernel, GpuRegion, GpuRun

from .network import GpuNetwork, compile_network
from .tuning import GpuMachine

__all__ = ["compile_gpu", "kernel_code", "network_code"]

PTX = "ptx"
"""CUDA C, and PTX beside it."""


def kernel_code(kernel: Kernel, target: str) -> GpuKernel:
    """Return a kernel as a driver takes it.

    Parameters
    ----------
    kernel : Kernel
    target : str
        A key of `DIALECTS`, or ``ptx``: CUDA C, and the same as PTX where LLVM can make it.
    """
    return GpuKernel(
        name=kernel.name,
        entry=entry_name(kernel),
        arguments=tuple(
            GpuArgument(p.buffer.name, p.shape, p.buffer.dtype, p.written)
            for p in kernel.parameters
        ),
        grid=kernel.grid,
        block=kernel.block,
        source=source_of(kernel, DIALECTS[_language(target)]),
        ptx=_ptx(kernel) if target == PTX else "",
    )


def _language(target: str) -> str:
    """Return the language of a target's sources, a key of `DIALECTS`."""
    return "cuda" if target == PTX else target


def _ptx(kernel: Kernel) -> str:
    from vdla.compiler.targets.gpu.ptx import ptx_of

    try:
        return ptx_of(kernel)
    except LoweringError:
        return ""


def network_code(made: GpuNetwork, target: str) -> Gpu:
    """Return a whole network as one run of all its layers."""
    return _joined([(made, tuple(range(len(made.graph.nodes))))], target)


def compile_gpu(
    graph: Graph,
    runs: Sequence[Sequence[Node]],
    target: str,
    *,
    all_of_them: bool,
    dtype: str = "float32",
    winograd: int = 0,
    matrices: bool = False,
    records: Database | None = None,
    machine: GpuMachine | None = None,
) -> Gpu | None:
    """Return kernels of runs of layers as the module holds them; None where there are none.

    A run goes to the GPU in as few parts as there are layers without a kernel between them.

    Parameters
    ----------
    graph : Graph
    runs : sequence of sequence of Node
        Of operators that follow one another off the accelerator.
    target : str
        As `kernel_code` takes it.
    all_of_them : bool
        Refuse a run with an operator that has no kernel, rather than leave that to the processor.
    dtype, winograd, matrices, records, machine
        As `compile_network` takes them.

    Raises
    ------
    LoweringError
        No kernel can be made of an operator, where all must have one.
    ModelError
        A weight is beyond the range of float16.
    InputError
        The dtype is none of a network's, or a record's point none of its template's.
    """
    places = {node.name: index for index, node in enumerate(graph.nodes)}
    made = []

    def kernels(nodes: Sequence[Node]) -> GpuNetwork:
        return compile_network(
            graph.part(nodes), records, machine, winograd=winograd, dtype=dtype, matrices=matrices
        )

    for nodes in runs:
        for part, network in _parts(nodes, kernels, all_of_them=all_of_them):
            made.append((network, tuple(places[node.name] for node in part)))
    return _joined(made, target) if made else None


def _parts(
    nodes: Sequence[Node], kernels: Callable[[Sequence[Node]], GpuNetwork], *, all_of_them: bool
) -> Iterator[tuple[Sequence[Node], GpuNetwork]]:
    """Yield the parts of a run that have kernels, and these."""
    try:
        yield nodes, kernels(nodes)
        return
    except LoweringError:
        if all_of_them:
            raise
    part: list[Node] = []
    for node in [*nodes, None]:
        if node is not None and _has_kernels(node, kernels):
            part.append(node)
        elif part:
            yield part, kernels(part)
            part = []


def _has_kernels(node: Node, kernels: Callable[[Sequence[Node]], GpuNetwork]) -> bool:
    try:
        kernels([node])
    except LoweringError:
        return False
    return True


def _joined(made: Sequence[tuple[GpuNetwork, tuple[int, ...]]], target: str) -> Gpu:
    """Return networks, each with its layers, as runs that share equal kernels."""
    numbers: dict[GpuKernel, int] = {}
    runs = []
    for index, (network, layers) in enumerate(made):
        codes = {id(kernel): kernel_code(kernel, target) for kernel in network.kernels}
        calls = tuple(
            GpuCall(numbers.setdefault(codes[id(call.kernel)], len(numbers)), call.arrays)
            for call in network.calls
        )
        graph = network.graph
        constants = {
            name: array for name in graph.outputs if (array := graph.tensors[name].data) is not None
        }
        regions = {n: GpuRegion(r.offset, r.size) for n, r in network.regions.items()}
        runs.append(
            GpuRun(
                name=f"run{index}",
                layers=layers,
                inputs=tuple(graph.inputs),
                outputs=tuple(graph.outputs),
                calls=calls,
                constants={**constants, **network.constants},
                regions=regions,
                arena_bytes=network.arena_bytes,
            )
        )
    return Gpu(_language(target), tuple(numbers), tuple(runs))
