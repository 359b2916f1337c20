"""Winograd's convolutions as kernels equal the definition, within what their matrices allow."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu.cases import SAME, Case, convolution
from tests.compiler.targets.gpu.on_processor import network_as, run_as
from tests.compiler.targets.gpu.race_checker import watched
from vdla.compiler.cpu.winograd import ALGORITHMS
from vdla.compiler.gpu import GpuNetwork, compile_network
from vdla.compiler.gpu.winograd import takes_winograd_kernels
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.gpu import CUDA, METAL, Dialect, Kernel
from vdla.compiler.targets.gpu.kernel import Matrix, walk
from vdla.compiler.zoo.builder import Builder
from vdla.errors import LoweringError
from vdla.runtime.gpu_network import place_network
from vdla.runtime.opencl import OpenClDevice

Array = np.ndarray
CASES = {
    "odd": lambda: convolution((2, 9, 10, 16), 24, (3, 3), padding=SAME),
    "no margin": lambda: convolution((1, 14, 7, 33), 40, (3, 3), bias=False),
    "uneven": lambda: convolution((3, 6, 11, 8), 9, (3, 3), padding=((2, 0), (0, 1))),
}
SPREAD = {2: 10.0, 4: 100.0}
"""How much larger than its outputs what an algorithm adds up may be, roughly: it rounds that."""


def _run(made: GpuNetwork, given: dict[str, Array], run: Callable[..., Array]) -> Array:
    """Return what the last kernel writes, each run by a function of a kernel and its arrays."""
    values = given | dict(made.constants)
    for call in made.calls:
        *read, written = call.arrays
        values[written] = run(call.kernel, *(values[name] for name in read))
    return values[made.graph.outputs[0]]


def _check(case: Case, found: Array, tile: int) -> None:
    assert found.shape == case.exact.shape
    assert (np.abs(found - case.exact) <= SPREAD[tile] * case.bound).all()


def _given(case: Case) -> dict[str, Array]:
    return dict(zip(case.graph.inputs, case.inputs, strict=True))


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_it_equals_the_definition(name: str, tile: int, pocl: OpenClDevice) -> None:
    case = CASES[name]()
    made = compile_network(case.graph, winograd=tile)
    assert len(made.calls) == 3
    _check(case, place_network(made, pocl).run(_given(case))["out"], tile)


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("tile", [2, 4])
def test_its_other_sources_do(tile: int, dialect: Dialect, tmp_path: Path) -> None:
    case = CASES["uneven"]()
    made = compile_network(case.graph, winograd=tile)

    def run(kernel: Kernel, *given: Array) -> Array:
        folder = tmp_path / kernel.name  # a library of the same path is loaded once
        folder.mkdir()
        return run_as(dialect, kernel, *given, folder=folder)

    _check(case, _run(made, _given(case), run), tile)


HALVES = {
    name: convolution(*shape, (3, 3), padding=SAME, dtype="float16")
    for name, shape in {"odd": ((2, 9, 10, 16), 24), "wide": ((1, 5, 22, 17), 9)}.items()
}


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("name", HALVES)
def test_half_floats_are_computed_in_float32(
    name: str, tile: int, pocl: OpenClDevice, tmp_path: Path
) -> None:
    # What is read and written is half floats, rounded once; transformed weights are not rounded to
    # them again, nor is anything between the kernels.
    case = HALVES[name]
    made = compile_network(case.graph, winograd=tile, dtype="float16")
    assert len(made.calls) == 3
    between = [p.buffer.dtype for call in made.calls[:2] for p in call.kernel.parameters[-1:]]
    assert between == ["float32", "float32"]
    bound = SPREAD[tile] * case.bound + 2.0**-11 * np.abs(case.exact) + 2.0**-25
    cuda = network_as(CUDA, made, _given(case), tmp_path)["out"]
    for found in (place_network(made, pocl).run(_given(case))["out"], cuda):
        assert found.dtype == np.float16
        assert (np.abs(found - case.exact) <= bound).all()


@pytest.mark.parametrize(("dtype", "kernels"), [("float16", 1), ("float32", 3)])
def test_tensor_cores_go_first(dtype: str, kernels: int) -> None:
    # They take half floats; those of float32 are left to Winograd's algorithm.
    case = HALVES["odd"] if dtype == "float16" else CASES["odd"]()
    made = compile_network(case.graph, winograd=4, matrices=True, dtype=dtype)
    assert len(made.calls) == kernels
    by_warps = [any(isinstance(s, Matrix) for s in walk(c.kernel.body)) for c in made.calls]
    assert any(by_warps) == (dtype == "float16")


def test_no_two_threads_come_together(tmp_path: Path) -> None:
    case = CASES["uneven"]()
    made = compile_network(case.graph, winograd=4)

    def run(kernel: Kernel, *given: Array) -> Array:
        report = watched(kernel, *given, folder=tmp_path)
        assert report.text == ""
        return report.output.astype(np.float32)

    np.testing.assert_allclose(_run(made, _given(case), run), case.exact, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(("tile", "products"), [(2, 16), (4, 36)])
def test_it_multiplies_less(tile: int, products: int) -> None:
    case = convolution((1, 16, 16, 16), 32, (3, 3), padding=SAME)
    _, sums, _ = compile_network(case.graph, winograd=tile).calls
    tiles = (16 // tile) ** 2
    assert sums.kernel.parameters[-1].shape[2:] == (tiles, 32)
    assert prod(sums.kernel.parameters[-1].shape) == products * tiles * 32
    # A direct convolution multiplies 9 * 16 * 16 * 16 * 32 times.
    assert 9 * 16 * 16 / (products * tiles) == {2: 2.25, 4: 4.0}[tile]


def _residual() -> Graph:
    net = Builder("residual", (2, 9, 11, 8))
    x = net.conv("stem", "input", 16, 3, 1, (0.0, np.inf), same=True)
    for number in ("1", "2"):
        y = net.conv(f"conv{number}", x, 16, 3, 1, same=True)
        x = net.add(f"sum{number}", x, y)
    return net.finish(x)


def test_what_follows_is_computed_on_its_tiles(pocl: OpenClDevice) -> None:
    graph = _residual()
    made = compile_network(graph, winograd=4)
    assert len(made.calls) == 9
    assert len(made.kernels) == 6  # the second block is the first one on other weights
    (name,) = graph.inputs
    x = np.random.default_rng(2).standard_normal(graph.tensors[name].shape).astype(np.float32)
    (found,) = place_network(made, pocl).run({name: x}).values()
    (want,) = Interpreter(graph).run({name: x}).values()
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


@pytest.mark.parametrize(
    "case",
    [
        convolution((1, 8, 8, 16), 16, (3, 3), (2, 2), SAME),
        convolution((1, 8, 8, 16), 16, (5, 5)),
        convolution((1, 8, 8, 16), 16, (3, 3), groups=2),
        convolution((1, 8, 8, 3), 16, (3, 3)),  # few channels
    ],
)
def test_others_are_left_to_their_template(case: Case) -> None:
    assert not takes_winograd_kernels(case.graph, case.graph.nodes[0])
    assert len(compile_network(case.graph, winograd=4).calls) == 1


def test_other_tiles_are_refused() -> None:
    assert {by.tile for by in ALGORITHMS.values()} == {2, 4}
    text = (
        r"Tiles of Winograd's algorithms must have 2 or 4 rows and columns, not 6: give one of "
        r"these, or 0 for none\."
    )
    with pytest.raises(LoweringError, match=text):
        compile_network(_residual(), winograd=6)
