"""Networks on a GPU: what is kept there, and what is said of wrong inputs."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.gpu import compile_network
from vdla.compiler.graph import Graph, Node, Tensor
from vdla.errors import InputError
from vdla.runtime.gpu import GpuDevice
from vdla.runtime.gpu_network import place_network
from vdla.runtime.opencl import OpenClDevice

F32 = np.dtype(np.float32)


def two_outputs() -> Graph:
    """Return ``y = exp(a)``, ``z = y + b``; y, a and a constant are outputs as well."""
    held = np.arange(3, dtype=np.float32)
    tensors = [Tensor(name, (2, 3), F32) for name in "abyz"]
    tensors.append(Tensor("held", (3,), F32, data=held))
    free = {"clip": (-np.inf, np.inf), "rounding": "double"}
    nodes = [Node("y", "exp", ("a",), ("y",), {}), Node("z", "add", ("y", "b"), ("z",), free)]
    return Graph("several", tensors, nodes, ("a", "b"), ("z", "y", "a", "held"))


def test_outputs_may_be_read_on_the_way_given_or_constant(pocl: OpenClDevice) -> None:
    check_outputs(pocl)


def check_outputs(device: GpuDevice) -> None:
    """Check that a network gives what it computes, and outputs that it does not compute."""
    ran = place_network(compile_network(two_outputs()), device)
    a, b = np.random.default_rng(2).normal(size=(2, 2, 3)).astype(np.float32)
    for factor in (1, -1):
        found = ran.run({"a": a * factor, "b": b})
        np.testing.assert_allclose(found["y"], np.exp(a * factor), 1e-6)
        np.testing.assert_allclose(found["z"], np.exp(a * factor) + b, 1e-6, 1e-6)
        np.testing.assert_array_equal(found["a"], a * factor)
        np.testing.assert_array_equal(found["held"], [0, 1, 2])


def test_inputs_that_are_not_the_networks(pocl: OpenClDevice) -> None:
    ran = place_network(compile_network(two_outputs()), pocl)
    a = np.zeros((2, 3), np.float32)
    with pytest.raises(InputError, match=r"several must be given a, b, not a\."):
        ran.run({"a": a})
    with pytest.raises(InputError, match=r"b must be float32\[2, 3\], not float64\[2, 3\]\."):
        ran.run({"a": a, "b": a.astype(np.float64)})
