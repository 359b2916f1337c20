"""Networks of one operator: what their definitions compute, and what the host's kernels do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import llvmlite.ir as ll
import numpy as np

from tests.compiler.targets.cpu.guarded import guarded, guarded_copy
from vdla.abi import Argument
from vdla.compiler.cpu.define import define
from vdla.compiler.cpu.schedule import default_schedule
from vdla.compiler.graph import Graph
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.network.describe import describe_layer, describe_tensor
from vdla.compiler.targets.cpu.kernel import Kernel, emit_kernel, optimize
from vdla.compiler.targets.cpu.library import complete
from vdla.compiler.targets.cpu.link import link
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import Schedule, Tensor, placeholder
from vdla.runtime.hostops import KERNELS, Operand
from vdla.runtime.native import Library

__all__ = ["Defined", "compiled", "computed", "defined", "expected", "interpreted"]

Array = np.ndarray


def expected(graph: Graph, values: Sequence[Array]) -> Array:
    """Return what the host's kernel makes of the values of the graph's inputs."""
    (node,) = graph.nodes
    given = dict(zip(graph.inputs, values, strict=True))
    operands = []
    for tensor in graph.input_tensors(node):
        array = given[tensor.name] if tensor.data is None else tensor.data
        operands.append(Operand(describe_tensor(tensor), array))
    layer = describe_layer(graph, node, "cpu", macs=0)
    output = graph.output_tensor(node)
    made = np.asarray(KERNELS[node.op](layer, operands, describe_tensor(output)))
    assert (made.shape, made.dtype) == (output.shape, output.dtype)
    return made


@dataclass(frozen=True)
class Defined:
    """A definition of a graph's one operator, scheduled, with values for all that it reads."""

    schedule: Schedule
    output: Tensor
    values: Mapping[Tensor, Array]


def defined(graph: Graph, values: Sequence[Array], target: Target) -> Defined:
    """Return the definition of the graph's one operator, with values of the graph's inputs."""
    (node,) = graph.nodes
    given = dict(zip(graph.inputs, values, strict=True))
    moving = [t for t in graph.input_tensors(node) if not t.is_constant]
    operands = [placeholder(t.shape, str(t.dtype), t.name) for t in moving]
    made = define(graph, node, operands)
    bound = {x: given[t.name] for x, t in zip(operands, moving, strict=True)}
    schedule = default_schedule(made.output, target)
    return Defined(schedule, made.output, {**bound, **made.constants})


def interpreted(made: Defined) -> Array:
    """Execute the loop IR of a definition scalar by scalar."""
    body, arguments = lower(made.schedule)
    given = {tensor: made.values[tensor] for tensor in arguments if tensor is not made.output}
    with np.errstate(all="ignore"):
        return np.asarray(interpret(body, arguments, given)[made.output])


def compiled(several: Sequence[Defined], target: Target) -> bytes:
    """Return a library with a function for each definition: ``case0``, ``case1`` and so on."""
    module, signatures = ll.Module("cases"), {}
    for k, made in enumerate(several):
        name, inputs = f"case{k}", _inputs(made)
        code = emit_kernel(module, Kernel(name, made.schedule, (*inputs, made.output)))
        signature = [Argument(dtype=t.dtype, shape=t.shape) for t in inputs]
        signature.append(Argument(dtype=made.output.dtype, shape=made.output.shape, written=True))
        size = max(code.workspace_bytes, 1)
        room = Argument(dtype="uint8", shape=(size,), written=True, align=64)
        signatures[name] = [*signature, room]
    complete(module, target, signatures)
    parsed, machine = optimize(module, target)
    return link(machine.emit_object(parsed), target)


def computed(library: Library, several: Sequence[Defined], at: str) -> list[Array]:
    """Run each function over arrays that abut, at an end, memory that must not be touched."""
    results = []
    for k, made in enumerate(several):
        function = library.function(f"case{k}")
        arrays = [guarded_copy(np.asarray(made.values[t]), at=at) for t in _inputs(made)]
        *_, output, room = function.arguments
        result = guarded(output.shape, output.dtype, at=at)
        function(*arrays, result, guarded(room.shape, "uint8", at=at, align=64))
        results.append(result)
    return results


def _inputs(made: Defined) -> list[Tensor]:
    read = {tensor for stage in made.schedule.stages for tensor in stage.reads()}
    return [tensor for tensor in made.values if tensor in read]
