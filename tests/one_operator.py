"""Networks of one operator, run on the host and by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import vdla
from vdla.compiler.graph import OPS, Graph, Node, Quant, Tensor
from vdla.compiler.reference import Interpreter

__all__ = ["network", "outcome", "quant"]

Array = np.ndarray


def quant(scale: float, zero_point: int = 0) -> Quant:
    """Return one scale for a tensor."""
    return Quant(np.float32([scale]), np.array([zero_point]))


def network(
    op: str,
    inputs: Sequence[Array],
    attrs: dict[str, Any] | None = None,
    *,
    constant: Sequence[int] = (),
    quants: Sequence[Quant | None] | None = None,
    dtype: str | None = None,
) -> Graph:
    """Return a network of one operator whose inputs are called by letters and its output ``out``.

    Parameters
    ----------
    inputs : sequence of array
        Examples; those whose index is in `constant` are the values.
    quants : sequence, optional
        Of each input, and of the output at last.
    dtype : str, optional
        Of the output; by default the last input's.
    """
    attrs = attrs or {}
    quants = quants or [None] * (len(inputs) + 1)
    names = [chr(ord("a") + k) for k in range(len(inputs))]
    tensors = [
        Tensor(name, x.shape, x.dtype, q, x if k in constant else None)
        for k, (name, x, q) in enumerate(zip(names, inputs, quants[:-1], strict=True))
    ]
    shape = OPS[op].shape([x.shape for x in inputs], attrs)
    tensors.append(Tensor("out", shape, np.dtype(dtype or inputs[-1].dtype), quants[-1]))
    given = [name for k, name in enumerate(names) if k not in constant]
    return Graph(op, tensors, [Node(op, op, tuple(names), ("out",), attrs)], given, ["out"])


def outcome(graph: Graph, *inputs: Array) -> Array:
    """Return the output on the host, after the interpreter agreed with it."""
    given = dict(zip(graph.inputs, inputs, strict=True))
    run = vdla.compile(
        graph, cache=False, place=dict.fromkeys((n.name for n in graph.nodes), "cpu")
    )
    ran = run.run(given, device="functional", check=True)
    assert ran.bit_exact, ran.first_difference
    expected = Interpreter(graph).run(given)["out"]
    found = ran.outputs["out"]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.dtype == graph.tensors["out"].dtype
    return found
