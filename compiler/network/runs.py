"""What follows one another on the processor, as functions of a library."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from vdla.compiler.graph import Graph, Node
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.tune.database import Database
from vdla.module import Execute, Gpu, Native, NativeRun, Step

__all__ = ["CompileGpu", "CompileNative", "compile_native", "processor_runs"]

CompileNative = Callable[[Graph, Sequence[Sequence[Node]]], Native]
"""Compiles runs of operators to machine code."""
CompileGpu = Callable[[Graph, Sequence[Sequence[Node]]], Gpu | None]
"""Compiles runs of operators to kernels, as far as there are some; None where there are none."""


def processor_runs(
    graph: Graph, steps: Sequence[Step], without: Collection[str] = ()
) -> list[list[Node]]:
    """Return the operators that steps execute on the processor one right after the other.

    Before: ``execute a; execute b; pack b; launch c; unpack c; execute d``. After:
    ``[a, b], [d]``; without b, ``[a], [d]``.
    """
    runs: list[list[Node]] = []
    following = False
    for step in steps:
        node = graph.nodes[step.layer] if isinstance(step, Execute) else None
        if node is not None and node.name not in without:
            if not following:
                runs.append([])
            runs[-1].append(node)
        following = node is not None and node.name not in without
    return runs


def compile_native(
    graph: Graph,
    runs: Sequence[Sequence[Node]],
    target: Target,
    records: Database | None = None,
    threads: int = 1,
) -> Native:
    """Return machine code of runs as the module holds it.

    Parameters
    ----------
    graph : Graph
    runs : sequence of sequence of Node
    target : Target
    records : Database, optional
        What was tuned.
    threads : int
        Of the tasks whose records are taken.

    Raises
    ------
    LoweringError
        An operator cannot be compiled.
    DeviceError
        There is no linker for the target.
    """
    from vdla.compiler.cpu.pipeline import compile_runs

    code = compile_runs(graph, runs, target, records=records, threads=threads)
    places = {node.name: index for index, node in enumerate(graph.nodes)}
    return Native(
        level=target.level,
        library=code.library,
        constants=code.constants,
        runs=tuple(
            NativeRun(
                name=run.name,
                layers=tuple(places[node.name] for node in run.nodes),
                inputs=run.inputs,
                outputs=run.outputs,
                arena_bytes=run.memory.arena_bytes,
            )
            for run in code.runs
        ),
    )
