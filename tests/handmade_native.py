"""Machine code for runs of layers without a compiler of networks: one kernel a run, all inlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import llvmlite.ir as ll
import numpy as np

from vdla.abi import Argument
from vdla.compiler.cpu.define import define
from vdla.compiler.cpu.schedule import default_schedule
from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.targets.cpu import Target, host_target, link
from vdla.compiler.targets.cpu.kernel import Kernel, emit_kernel, optimize
from vdla.compiler.targets.cpu.library import complete
from vdla.compiler.targets.cpu.types import I8, I32, POINTER
from vdla.compiler.te import placeholder
from vdla.module import Module, Native, NativeRun
from vdla.runtime.check import graph_of

__all__ = ["compile_runs", "floats", "with_native"]


def floats() -> Graph:
    """Return ``a = exp(input); b = a * factor; c = a + b``, of float32, 6 elements an image."""
    factor = np.linspace(-1, 2, 6).astype(np.float32)
    tensors = [Tensor(name, (1, 6), np.dtype(np.float32)) for name in ("input", "a", "b", "c")]
    tensors.append(Tensor("factor", (1, 6), factor.dtype, None, factor[None]))
    open_clip = {"clip": (-np.inf, np.inf), "rounding": "double"}
    nodes = [
        Node("exp", "exp", ("input",), ("a",), {}),
        Node("mul", "mul", ("a", "factor"), ("b",), {}),
        Node("add", "add", ("a", "b"), ("c",), open_clip),
    ]
    return Graph("floats", tensors, nodes, ["input"], ["c"])


def with_native(module: Module, *runs: Sequence[str], target: Target | None = None) -> Module:
    """Return a module with machine code for runs of layers, by name."""
    graph = graph_of(module)
    nodes = [[graph.node(name) for name in run] for run in runs]
    return replace(module, native=compile_runs(graph, nodes, target or host_target()))


def compile_runs(graph: Graph, runs: Sequence[Sequence[Node]], target: Target) -> Native:
    module = ll.Module("handmade")
    constants = bytearray()
    made, functions = [], {}
    for number, nodes in enumerate(runs):
        run, arguments = _emit(module, graph, nodes, f"run_{number}", constants)
        made.append(run)
        functions[run.name] = arguments
    held = np.frombuffer(bytes(constants), np.uint8)
    byte = Argument(dtype="uint8", shape=held.shape, align=64)
    complete(module, target, {name: (*a[:-1], byte, a[-1]) for name, a in functions.items()})
    parsed, machine = optimize(module, target)
    return Native(target.level, link(machine.emit_object(parsed), target), held, tuple(made))


def _emit(
    module: ll.Module, graph: Graph, nodes: Sequence[Node], name: str, constants: bytearray
) -> tuple[NativeRun, list[Argument]]:
    made = {output for node in nodes for output in node.outputs}
    read = [n for node in nodes for n in node.inputs if not graph.tensors[n].is_constant]
    inputs = list(dict.fromkeys(n for n in read if n not in made))
    inside = {node.name for node in nodes}
    outputs = [
        n
        for node in nodes
        for n in node.outputs
        if n in graph.outputs or any(c.name not in inside for c in graph.consumers(n))
    ]
    values = {
        n: placeholder(graph.tensors[n].shape, str(graph.tensors[n].dtype), f"in{k}")
        for k, n in enumerate(inputs)
    }
    places, bound = [], []
    for node in nodes:
        operands = [values[n] for n in node.inputs if not graph.tensors[n].is_constant]
        definition = define(graph, node, operands)
        values[node.outputs[0]] = definition.output
        for tensor, array in definition.constants.items():
            constants.extend(bytes(-len(constants) % 64))
            bound.append(tensor)
            places.append(len(constants))
            constants.extend(np.ascontiguousarray(array, tensor.dtype).tobytes())
    targets = [values[n] for n in outputs]
    args = (*(values[n] for n in inputs), *targets, *bound)
    schedule = default_schedule(targets, host_target())
    code = emit_kernel(module, Kernel(f"{name}.kernel", schedule, args))
    outer = ll.Function(module, ll.FunctionType(ll.VoidType(), [POINTER]), name)
    builder = ll.IRBuilder(outer.append_basic_block())
    tensors = len(inputs) + len(outputs)
    given = [
        builder.load(builder.gep(outer.args[0], [_i32(k)], source_etype=POINTER), typ=POINTER)
        for k in range(tensors + 2)
    ]
    held = [builder.gep(given[tensors], [_i32(place)], source_etype=I8) for place in places]
    handed = builder.alloca(POINTER, len(args) + 1)
    for k, pointer in enumerate([*given[:tensors], *held, given[-1]]):
        builder.store(pointer, builder.gep(handed, [_i32(k)], source_etype=POINTER))
    builder.call(module.globals[f"{name}.kernel"], [handed])
    builder.ret_void()
    infos = [graph.tensors[n] for n in (*inputs, *outputs)]
    arguments = [
        Argument(dtype=str(t.dtype), shape=t.shape, written=k >= len(inputs))
        for k, t in enumerate(infos)
    ]
    arena = Argument(dtype="uint8", shape=(code.workspace_bytes,), written=True, align=64)
    layers = tuple(graph.nodes.index(node) for node in nodes)
    run = NativeRun(name, layers, tuple(inputs), tuple(outputs), code.workspace_bytes)
    return run, [*arguments, arena]


def _i32(value: int) -> ll.Constant:
    return ll.Constant(I32, value)
