"""onnx's own tests of its operators, as machine code: what numpy computes has no part in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.compiler.onnx.test_nodes import OPERATORS, as_array, bound, cases_of, refusal
from tests.compiler.targets.cpu.guarded import guarded, guarded_copy, in_child
from vdla.compiler.cpu.pipeline import CompiledRun, CpuCode, compile_runs
from vdla.compiler.graph import Graph, Node
from vdla.compiler.onnx import import_onnx
from vdla.compiler.targets.cpu.target import host_target
from vdla.runtime.native import Library

Array = np.ndarray

WEIGHTED = ("conv", "convinteger", "convtranspose", "gather", "gemm", "matmul", "matmulinteger")
"""Operators whose constant operands are laid out when compiling, or chosen by."""


@dataclass(frozen=True)
class Given:
    """A case of onnx's: its graph, values of its inputs, and what its outputs must be."""

    case: Any
    graph: Graph
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    def check(self, made: dict[str, Array]) -> None:
        for name, wanted in self.outputs.items():
            found = made[name]
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), self.case.name
            np.testing.assert_allclose(
                found, wanted, rtol=self.case.rtol, atol=self.case.atol, err_msg=self.case.name
            )


def given(operator: str) -> Iterator[Given]:
    """Yield the cases that are taken, those of operators with weights also with them constant."""
    for case in cases_of(operator):
        if refusal(case) is not None:
            continue
        ways = {OPERATORS[operator]}
        if operator in WEIGHTED:
            ways.add(tuple(range(1, len(case.model.graph.input))))
        for constant, (inputs, outputs) in product(ways, case.data_sets):
            model, values = bound(case, inputs, constant)
            names = (info.name for info in case.model.graph.output)
            wanted = dict(zip(names, map(as_array, outputs), strict=True))
            yield Given(case, import_onnx(model), values, wanted)


def joined(several: list[Given]) -> tuple[Graph, list[tuple[Node, ...]]]:
    """Return all graphs as one, of which each is a run; names begin with a graph's number."""
    tensors, runs, inputs, outputs = [], [], [], []
    for k, one in enumerate(several):

        def named(name: str, k: int = k) -> str:
            return f"{k}.{name}"

        graph = one.graph
        tensors += [replace(t, name=named(t.name)) for t in graph.tensors.values()]
        runs.append(
            tuple(
                replace(
                    node,
                    name=named(node.name),
                    inputs=tuple(map(named, node.inputs)),
                    outputs=tuple(map(named, node.outputs)),
                )
                for node in graph.nodes
            )
        )
        inputs += map(named, graph.inputs)
        outputs += map(named, graph.outputs)
    nodes = [node for run in runs for node in run]
    return Graph("cases", tensors, nodes, inputs, outputs), runs


def ran(code: CpuCode, run: CompiledRun, library: Library, graph: Graph, one: Given) -> Any:
    """Return a run's outputs by the case's names, its arrays abutting forbidden memory."""
    inputs = []
    for name in run.inputs:
        tensor, value = graph.tensors[name], one.inputs[name.partition(".")[2]]
        inputs.append(guarded_copy(value.reshape(tensor.shape)))
    outputs = {}
    for name in run.outputs:
        tensor = graph.tensors[name]
        outputs[name.partition(".")[2]] = guarded(tensor.shape, str(tensor.dtype))
    constants = guarded_copy(code.constants, align=64)
    arena = guarded((run.memory.arena_bytes,), "uint8", align=64)
    library.function(run.name)(*inputs, *outputs.values(), constants, arena)
    return outputs


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_cases_of_an_operator_pass_as_machine_code(operator: str) -> None:
    several = list(given(operator))
    # A case without an operator is a constant, or the input itself, since it was imported.
    several = [one for one in several if one.graph.nodes]
    if not several:
        assert operator in ("constant", "constantofshape", "dropout", "identity", "shape")
        return
    graph, runs = joined(several)
    code = compile_runs(graph, runs, host_target())

    def check() -> None:
        with Library(code.library) as library:
            for one, run in zip(several, code.runs, strict=True):
                one.check(ran(code, run, library, graph, one))

    in_child(check)
