"""Networks of one operator: what their definitions compute, and what the host's kernels do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.compiler.cpu.define import define
from vdla.compiler.cpu.schedule import default_schedule
from vdla.compiler.graph import Graph
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.lower.pipeline import lower
from vdla.compiler.network.describe import describe_layer, describe_tensor
from vdla.compiler.targets.cpu.target import Target
from vdla.compiler.te import Schedule, Tensor, placeholder
from vdla.runtime.hostops import KERNELS, Operand

__all__ = ["Backend", "by_interpreter", "expected", "outcome"]

Array = np.ndarray
TARGET = Target.named("x86-64-avx2")
Backend = Callable[[Schedule, Mapping[Tensor, Array], Tensor], Array]
"""Runs a schedule on values of its inputs and returns its output."""


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


def outcome(graph: Graph, values: Sequence[Array], backend: Backend) -> Array:
    """Return what the definition of the graph's one operator makes of the same values."""
    (node,) = graph.nodes
    given = dict(zip(graph.inputs, values, strict=True))
    moving = [t for t in graph.input_tensors(node) if not t.is_constant]
    operands = [placeholder(t.shape, str(t.dtype), t.name) for t in moving]
    made = define(graph, node, operands)
    bound = {x: given[t.name] for x, t in zip(operands, moving, strict=True)}
    return backend(default_schedule(made.output, TARGET), {**bound, **made.constants}, made.output)


def by_interpreter(schedule: Schedule, values: Mapping[Tensor, Array], output: Tensor) -> Array:
    """Execute the loop IR of a schedule scalar by scalar."""
    body, arguments = lower(schedule)
    given = {tensor: values[tensor] for tensor in arguments if tensor is not output}
    with np.errstate(all="ignore"):
        return np.asarray(interpret(body, arguments, given)[output])
