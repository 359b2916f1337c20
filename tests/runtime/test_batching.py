"""Images share a pass where operators leave axis 0 alone, and run one by one where not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vdla
from tests.one_operator import network
from vdla.batching import gather_images, split_images
from vdla.compiler.graph import Graph
from vdla.compiler.reference import Interpreter
from vdla.errors import InputError

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return np.asarray(RANDOM.standard_normal(shape), np.float32)


RESIZE = {
    "antialias": False,
    "coordinates": "half_pixel",
    "cubic_a": -0.75,
    "exclude_outside": False,
    "extrapolation": 0.0,
    "mode": "linear",
    "nearest": "floor",
    "roi": None,
}
CONV_TRANSPOSE = {
    "clip": (-np.inf, np.inf),
    "dilation": (1, 1),
    "groups": 1,
    "output_padding": (1, 0),
    "padding": ((1, 0), (0, 1)),
    "rounding": "double",
    "strides": (2, 2),
}
LRN = {"alpha": 1e-2, "beta": 0.75, "bias": 1.0, "size": 3}

# operator, inputs, attributes, indices of the constant inputs, whether images share a pass
CASES: list[tuple[str, list[np.ndarray], dict[str, Any], list[int], bool]] = [
    ("exp", [floats(1, 3)], {}, [], True),
    ("exp", [floats(2, 3)], {}, [], False),
    ("exp", [floats()], {}, [], False),
    ("mul", [floats(1, 3, 4), floats(1, 1, 4)], {}, [], True),
    ("mul", [floats(1, 3, 4), floats(4)], {}, [1], True),
    ("mul", [floats(1, 3, 4), floats(1, 4)], {}, [], False),
    ("mul", [floats(1, 4), floats(1, 1, 4)], {}, [1], False),
    ("prelu", [floats(1, 3, 4), floats(4)], {}, [1], True),
    ("reduce_sum", [floats(1, 3, 4)], {"axes": (1,), "keep_dims": False}, [], True),
    ("reduce_sum", [floats(1, 3, 4)], {"axes": (0, 1), "keep_dims": True}, [], False),
    ("reduce_max", [floats(1, 3, 4)], {"axes": (2,), "keep_dims": True}, [], True),
    ("mean", [floats(1, 3)], {"axes": (1,), "keep_dims": False, "rounding": "double"}, [], True),
    ("mean", [floats(1, 3)], {"axes": (0,), "keep_dims": True, "rounding": "double"}, [], False),
    ("softmax", [floats(1, 3, 4)], {"axis": 1, "beta": 1.0}, [], True),
    ("softmax", [floats(1, 3, 4)], {"axis": 0, "beta": 1.0}, [], False),
    ("lrn", [floats(1, 2, 2, 5)], LRN, [], True),
    ("transpose", [floats(1, 3, 4)], {"perm": (0, 2, 1)}, [], True),
    ("transpose", [floats(1, 1, 4)], {"perm": (1, 0, 2)}, [], False),
    ("concat", [floats(1, 3), floats(1, 2)], {"axis": 1}, [], True),
    ("concat", [floats(1, 3), floats(1, 2)], {"axis": 1}, [1], True),
    ("concat", [floats(1, 3), floats(1, 3)], {"axis": 0}, [], False),
    ("slice", [floats(1, 5)], {"begin": (0, 4), "end": (1, 0), "step": (1, -2)}, [], True),
    (
        "pad",
        [floats(1, 3, 2)],
        {"mode": "reflect", "paddings": ((0, 0), (1, 2), (0, 0)), "value": 0.0},
        [],
        True,
    ),
    ("reshape", [floats(1, 3, 4)], {"shape": (1, 12)}, [], True),
    ("reshape", [floats(1, 3, 4)], {"shape": (3, 4)}, [], False),
    ("expand", [floats(1, 1, 4)], {"shape": (1, 3, 4)}, [], True),
    ("expand", [floats(1, 4)], {"shape": (1, 3, 4)}, [], False),
    ("matmul", [floats(1, 3, 4), floats(1, 4, 2)], {}, [], True),
    ("matmul", [floats(1, 4), floats(4, 2)], {}, [1], True),
    ("matmul", [floats(2, 3, 4), floats(1, 4, 5)], {}, [0], False),
    ("matmul", [floats(3, 4), floats(1, 4, 5)], {}, [0], True),
    ("matmul", [floats(1, 1), floats(1, 2)], {}, [], False),
    ("conv_transpose2d", [floats(1, 3, 4, 2), floats(5, 3, 2, 2)], CONV_TRANSPOSE, [1], True),
    ("conv_transpose2d", [floats(1, 3, 4, 2), floats(1, 3, 2, 2)], CONV_TRANSPOSE, [], False),
    (
        "resize",
        [floats(1, 3, 4, 2)],
        {**RESIZE, "size": (1, 6, 5, 2), "scales": (1.0, 2.0, 1.25, 1.0)},
        [],
        True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{c[0]}" for k, c in enumerate(CASES)])
def test_images_together_give_what_each_gives(case: Any) -> None:
    op, inputs, attrs, constant, shares = case
    graph = network(op, inputs, attrs, constant=constant)
    assert graph.per_image is shares
    given = [x for k, x in enumerate(inputs) if k not in constant]
    # Three different images each, on an axis before all others.
    images = {n: np.stack([x, x * 2, x - 1]) for n, x in zip(graph.inputs, given, strict=True)}
    runs = [run_both(graph, {name: x[k] for name, x in images.items()}) for k in range(3)]
    if shares:
        images = {name: x[:, 0] for name, x in images.items()}
    together = run_both(graph, images)
    one = graph.tensors["out"].shape
    join = np.concatenate if one[:1] == (1,) else np.stack
    np.testing.assert_allclose(together, join(runs), 1e-6, 1e-6)


def run_both(graph: Graph, given: dict[str, np.ndarray]) -> np.ndarray:
    run = vdla.compile(graph, cache=False).run(given, device="functional", check=True)
    assert run.bit_exact, run.first_difference
    mine = Interpreter(graph).run(given)["out"]
    assert mine.shape == run.outputs["out"].shape
    return run.outputs["out"]


def test_indices_of_images() -> None:
    table, words = floats(9, 2), np.array([[1, 0, 8]], np.int64)
    graph = network("gather", [table, words], {"axis": 0}, constant=[0], dtype="float32")
    assert graph.per_image
    many = np.array([[1, 0, 8], [2, 2, 2]])
    np.testing.assert_array_equal(run_both(graph, {"b": many}), table[many])
    graph = network("gather", [floats(1, 5), words[0]], {"axis": 1}, constant=[1], dtype="float32")
    assert not network("gather", [table, words], {"axis": 0}, dtype="float32").per_image


def test_a_module_says_whether_images_share_a_pass(tmp_path: Any) -> None:
    for shape, shares in (((1, 12), True), ((3, 4), False)):
        graph = network("reshape", [floats(1, 3, 4)], {"shape": shape})
        net = vdla.compile(graph, cache=False)
        net.save(tmp_path / "net.vdla")
        again = vdla.load(tmp_path / "net.vdla")
        assert net.module.per_image is again.module.per_image is shares
        x = floats(2, 3, 4)
        np.testing.assert_array_equal(
            again.run(x, device="functional").outputs["out"], x.reshape(2, *shape[shares:])
        )


def test_a_scalar_goes_through_a_file(tmp_path: Any) -> None:
    graph = network("mul", [floats(3), np.float32(2).reshape(())], constant=[1])
    net = vdla.compile(graph, cache=False)
    net.save(tmp_path / "net.vdla")
    again = vdla.load(tmp_path / "net.vdla").module.tensors["b"]
    assert again.data is not None
    assert again.data.shape == again.shape == ()


def test_splitting_and_gathering() -> None:
    shapes = {"x": (2, 3), "y": (1, 4), "z": ()}
    x, y, z = floats(2, 3), floats(1, 4), floats()
    parts, stacked = split_images(shapes, {"x": x, "y": y[0], "z": z})
    assert not stacked
    assert [part["y"].shape for part in parts] == [(1, 4)]
    many = {"x": np.stack([x, -x]), "y": np.concatenate([y, -y]), "z": z}
    parts, stacked = split_images(shapes, many)
    assert stacked
    assert len(parts) == 2
    np.testing.assert_array_equal(parts[1]["y"], -y)
    assert parts[1]["z"] == z
    joined = gather_images(parts, stacked)
    np.testing.assert_array_equal(joined["x"], many["x"])
    np.testing.assert_array_equal(joined["y"], many["y"])
    np.testing.assert_array_equal(joined["z"], [z, z])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": floats(3, 2)}, r"'x' must have the shape \(2, 3\), or \(n, ...\).* not \(3, 2\)"),
        ({"x": floats(0, 2, 3)}, r"not \(0, 2, 3\). Reshape it"),
        ({"x": floats(2, 2, 3), "y": floats(3, 4)}, r"number of images, not \{'x': 2, 'y': 3\}"),
    ],
)
def test_images_that_do_not_fit(given: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split_images({"x": (2, 3), "y": (1, 4)}, given)


def test_a_network_of_two_shares_of_a_batch() -> None:
    """A batch of two in the file is one image here, and images are stacked before it."""
    graph = network("exp", [floats(2, 3)])
    x = floats(5, 2, 3)
    assert run_both(graph, {"a": x}).shape == (5, 2, 3)
    assert run_both(graph, {"a": x[0]}).shape == (2, 3)
