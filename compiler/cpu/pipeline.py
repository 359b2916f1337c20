"""Compiling operators for a processor, as one list of stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ll
import numpy as np

from vdla.abi import Argument
from vdla.compiler.graph import Graph, Node
from vdla.compiler.passes.groups import fusion_groups
from vdla.compiler.targets.cpu.kernel import Kernel, emit_kernel, optimize
from vdla.compiler.targets.cpu.library import complete
from vdla.compiler.targets.cpu.link import link
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.targets.cpu.types import ALIGN_BYTES, aligned
from vdla.compiler.tune.database import Database
from vdla.errors import LoweringError

from .calls import Call
from .entry import emit_entry
from .group import group_kernel, split_group
from .memory import Memory, plan_memory
from .sameness import group_key
from .template import recorded_choice

__all__ = ["STEPS", "CompiledRun", "CpuCode", "compile_runs"]

STEPS: Mapping[str, str] = {
    "fusion": "operators are computed on what the one before them has just left in registers",
    "layout": "images and weights are packed in blocks of channels, for tiles in registers",
    "winograd": "3 x 3 convolutions of floats take a quarter of the products",
    "pairs": "8-bit integers are multiplied by pairs, quads or tiles in one instruction",
    "memory": "activations that never live at the same time share memory",
}
"""What can be left out, and what each does."""
_CHOSEN = {"layout", "winograd", "pairs"}
"""Those that records choose as well: without one of them, rules choose alone."""


@dataclass(frozen=True)
class CompiledRun:
    """Operators that one function computes.

    Attributes
    ----------
    name : str
        Its symbol, ``void name(void **args)``: inputs, outputs, constants, arena.
    nodes : tuple of Node
    inputs, outputs : tuple of str
        Tensors of the graph.
    memory : Memory
        What the arena is for.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    memory: Memory


@dataclass(frozen=True)
class CpuCode:
    """Machine code of parts of a network.

    Attributes
    ----------
    target : Target
    library : bytes
        The shared object.
    constants : array of uint8
        What its functions read beside their inputs: packed weights.
    runs : tuple of CompiledRun
    """

    target: Target
    library: bytes
    constants: Any
    runs: tuple[CompiledRun, ...]


def compile_runs(
    graph: Graph,
    runs: Sequence[Sequence[Node]],
    target: Target,
    *,
    without: Collection[str] = (),
    records: Database | None = None,
    threads: int = 1,
) -> CpuCode:
    """Compile runs of operators, each into a function.

    Stages, in order:

    1. operators of a run are fused into groups by their classes;
    2. each group becomes tensor expressions with a schedule, by a record or by rules; those alike
       become one kernel;
    3. kernels are lowered and become LLVM code;
    4. the arena of each run is planned: activations, workspaces;
    5. an entry function calls the kernels of a run in order;
    6. LLVM optimizes, and the object is linked with the pool of threads.

    Parameters
    ----------
    graph : Graph
    runs : sequence of sequence of Node
        Each in the graph's order; what a run reads is computed before it.
    target : Target
    without : collection of str
        Keys of `STEPS` to leave out.
    records : Database, optional
        What was tuned: a convolution whose task has a record is computed as that says, others by
        rules; so are all where layout, winograd or pairs are left out.
    threads : int
        Of the tasks whose records are taken; the code itself runs on any number.

    Raises
    ------
    LoweringError
        An operator cannot be compiled, or there is no step of such a name.
    InputError
        A record's point is none of its template's.
    """
    unknown = sorted(set(without) - set(STEPS))
    if unknown:
        raise LoweringError(
            f"A step that is left out must be one of {', '.join(STEPS)}, not "
            f"{', '.join(unknown)}: name one of these."
        )
    known = None if _CHOSEN & set(without) else records
    module = ll.Module("network")
    kernels: dict[object, tuple[Any, int]] = {}
    blob = _Constants()
    compiled: list[CompiledRun] = []
    signatures: dict[str, Sequence[Argument]] = {}
    for index, nodes in enumerate(runs):
        calls = []
        inputs, outputs = _borders(graph, nodes)
        for part in _parts(graph, nodes, fused="fusion" not in without):
            choice = recorded_choice(known, graph, part, target, threads)
            made = group_kernel(graph, part, target, without, choice)
            args = (*made.inputs.values(), *made.constants, made.output)
            key = group_key(graph, part)
            if key not in kernels:
                name = f"kernel{len(kernels)}"
                code = emit_kernel(module, Kernel(name, made.schedule, args), exported=False)
                kernels[key] = (code.function, code.workspace_bytes)
            function, workspace = kernels[key]
            constants = tuple(blob.place(array) for array in made.constants.values())
            calls.append(
                Call(function, tuple(made.inputs), constants, part[-1].outputs[0], workspace)
            )
        memory = plan_memory(graph, calls, outputs, shared="memory" not in without)
        name = f"run{index}"
        emit_entry(module, name, calls, inputs, outputs, memory)
        compiled.append(CompiledRun(name, tuple(nodes), inputs, outputs, memory))
    constants = blob.joined()
    for run in compiled:
        signatures[run.name] = _signature(graph, run, constants.size)
    complete(module, target, signatures)
    parsed, machine = optimize(module, target)
    library = link(machine.emit_object(parsed), target)
    return CpuCode(target, library, constants, tuple(compiled))


class _Constants:
    """Arrays one after the other, equal ones once."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._places: dict[bytes, int] = {}
        self._end = 0

    def place(self, array: Any) -> int:
        """Return where an array lies, in bytes."""
        data = np.ascontiguousarray(array).tobytes()
        if data not in self._places:
            self._places[data] = self._end
            room = aligned(len(data)) - len(data)
            self._parts.append(np.frombuffer(data + bytes(room), np.uint8))
            self._end += len(data) + room
        return self._places[data]

    def joined(self) -> Any:
        """Return all of them as bytes."""
        return np.concatenate(self._parts or [np.zeros(ALIGN_BYTES, np.uint8)])


def _borders(graph: Graph, nodes: Sequence[Node]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a run reads from outside and what others read of it."""
    inside = {node.name for node in nodes}
    made = [tensor for node in nodes for tensor in node.outputs]
    read = dict.fromkeys(t for node in nodes for t in node.inputs)
    inputs = tuple(t for t in read if t not in made and not graph.tensors[t].is_constant)
    outputs = tuple(
        t
        for t in made
        if t in graph.outputs or any(n.name not in inside for n in graph.consumers(t))
    )
    return inputs, outputs


def _parts(graph: Graph, nodes: Sequence[Node], *, fused: bool) -> list[tuple[Node, ...]]:
    """Return the operators of a run in the groups that kernels compute."""
    if not fused:
        return [(node,) for node in nodes]
    inside = {node.name for node in nodes}
    parts: list[tuple[Node, ...]] = []
    for group in fusion_groups(graph):
        kept = tuple(node for node in group.nodes if node.name in inside)
        if len(kept) == len(group.nodes):
            parts += split_group(graph, kept)
        else:
            parts += [(node,) for node in kept]
    return parts


def _signature(graph: Graph, run: CompiledRun, constant_bytes: int) -> list[Argument]:
    tensors: Mapping[str, Any] = graph.tensors
    arrays = [
        Argument(dtype=str(t.dtype), shape=t.shape, written=written)
        for names, written in ((run.inputs, False), (run.outputs, True))
        for t in (tensors[name] for name in names)
    ]
    return [
        *arrays,
        Argument(dtype="uint8", shape=(constant_bytes,), align=ALIGN_BYTES),
        Argument(dtype="uint8", shape=(run.memory.arena_bytes,), written=True, align=ALIGN_BYTES),
    ]
