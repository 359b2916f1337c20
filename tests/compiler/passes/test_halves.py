"""Networks in float16: what is narrowed, and what keeps its dtype."""

from __future__ import annotations

import numpy as np
import pytest

from tests.one_operator import network
from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.passes.halves import in_halves
from vdla.compiler.reference import Interpreter
from vdla.errors import ModelError

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
FREE = {"clip": (-np.inf, np.inf), "rounding": "double"}


def test_edges_are_cast_and_the_rest_narrowed() -> None:
    x, bias = np.float32([[0.1, 2049.0]]), np.float32([1.0, 0.5])
    made = in_halves(network("add", [x, bias], FREE, constant=[1]))
    assert [node.op for node in made.nodes] == ["cast", "add", "cast"]
    dtypes = {tensor.name: tensor.dtype for tensor in made.tensors.values()}
    assert (dtypes["a"], dtypes["out"], dtypes["b"]) == (SINGLE, SINGLE, HALF)
    assert [made.output_tensor(node).dtype for node in made.nodes] == [HALF, HALF, SINGLE]
    # 2049 lies between two halves and goes to the even one.
    found = Interpreter(made).run({"a": x})["out"]
    np.testing.assert_array_equal(found, [[np.float32(np.float16(0.1) + np.float16(1)), 2048]])


def test_an_output_that_is_read_inside_is_read_as_a_half() -> None:
    tensors = [Tensor(name, (3,), SINGLE) for name in ("a", "b", "c")]
    nodes = [Node("one", "exp", ("a",), ("b",)), Node("two", "tanh", ("b",), ("c",))]
    made = in_halves(Graph("two", tensors, nodes, ["a"], ["b", "c"]))
    (first,) = made.node("two").inputs
    assert made.tensors[first].dtype == HALF
    assert made.tensors["b"].dtype == SINGLE
    found = Interpreter(made).run({"a": np.float32([0, 1, 2])})
    np.testing.assert_array_equal(found["b"], np.exp(np.float16([0, 1, 2])))


def test_what_is_no_float_of_32_bits_stays() -> None:
    graph = network("where", [np.bool_([True, False]), np.int8([1, 2]), np.int8([3, 4])])
    made = in_halves(graph)
    assert [node.op for node in made.nodes] == ["where"]
    assert made.tensors["a"].dtype == bool


def test_a_weight_that_is_too_large_is_named() -> None:
    x, most = np.zeros(2, np.float32), np.float32([65519, -np.inf])
    in_halves(network("add", [x, most], FREE, constant=[1]))  # rounds down to 65504
    with pytest.raises(
        ModelError,
        match=r"A weight in float16 must be at most 65,504\.0, and b reaches 65,520\.0: leave the "
        r"network in float32\.",
    ):
        in_halves(network("add", [x, most + 1], FREE, constant=[1]))
