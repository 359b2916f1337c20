"""The arena of a run: activations and workspaces whose lives do not overlap share it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from vdla.compiler.graph import Graph
from vdla.compiler.network.memory import Life, place
from vdla.compiler.targets.cpu.types import ALIGN_BYTES, aligned

from .calls import Call

__all__ = ["Memory", "plan_memory"]


@dataclass(frozen=True)
class Memory:
    """Where a run's tensors lie.

    Attributes
    ----------
    tensors : mapping of str to int
        Offset of each activation that lives inside the run, in bytes.
    workspaces : tuple of int
        Offset of each call's workspace.
    arena_bytes : int
    unshared_bytes : int
        What it would take if nothing shared a place.
    """

    tensors: Mapping[str, int]
    workspaces: tuple[int, ...]
    arena_bytes: int
    unshared_bytes: int


def plan_memory(
    graph: Graph, calls: Sequence[Call], outputs: Collection[str], *, shared: bool = True
) -> Memory:
    """Place what a run computes on the way.

    Parameters
    ----------
    graph : Graph
    calls : sequence of Call
        In order.
    outputs : collection of str
        Tensors that are written for others, and lie with the caller.
    shared : bool
        Whether what never lives at the same time may share a place.
    """
    first = {call.output: k for k, call in enumerate(calls) if call.output not in outputs}
    last = dict(first)
    for k, call in enumerate(calls):
        for name in call.inputs:
            if name in last:
                last[name] = k
    sizes = [aligned(graph.tensors[t].size * graph.tensors[t].dtype.itemsize) for t in first]
    spans = [Life(first[t], last[t]) for t in first]
    sizes += [aligned(call.workspace_bytes) for call in calls]
    spans += [Life(k, k) for k in range(len(calls))]
    offsets, end = place(sizes, spans, shared=shared)
    return Memory(
        tensors=dict(zip(first, offsets, strict=False)),
        workspaces=tuple(offsets[len(first) :]),
        arena_bytes=max(end, ALIGN_BYTES),
        unshared_bytes=sum(sizes),
    )
