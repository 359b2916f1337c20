"""Resize on the host and by the interpreter against ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_operator import network, outcome

onnx = pytest.importorskip("onnx", reason="pip install vdla[host] brings onnx")

from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

PLAIN: dict[str, Any] = {
    "antialias": False,
    "coordinates": "half_pixel",
    "cubic_a": -0.75,
    "exclude_outside": False,
    "extrapolation": 0.0,
    "mode": "linear",
    "nearest": "round_prefer_floor",
    "roi": None,
}


def truth(x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """Return ONNX's own answer, scales given."""
    roi = attrs["roi"]
    corners = None if roi is None else np.float32([pair[k] for k in (0, 1) for pair in roi])
    node = helper.make_node(
        "Resize",
        ["x", "" if roi is None else "roi", "scales"],
        ["y"],
        antialias=int(attrs["antialias"]),
        coordinate_transformation_mode=attrs["coordinates"],
        cubic_coeff_a=attrs["cubic_a"],
        exclude_outside=int(attrs["exclude_outside"]),
        extrapolation_value=attrs["extrapolation"],
        mode=attrs["mode"],
        nearest_mode=attrs["nearest"],
    )
    graph = helper.make_graph(
        [node],
        "resize",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("roi", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("scales", TensorProto.FLOAT, None),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    given = {"x": x, "scales": np.float32(attrs["scales"])}
    given |= {} if corners is None else {"roi": corners}
    return np.asarray(ReferenceEvaluator(model).run(None, given)[0])


def compare(shape: tuple[int, ...], scales: tuple[float, ...], **changes: Any) -> None:
    scales = tuple(float(np.float32(s)) for s in scales)
    size = tuple(int(np.floor(d * s)) for d, s in zip(shape, scales, strict=True))
    attrs = {**PLAIN, **changes, "scales": scales, "size": size}
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = outcome(network("resize", [x], attrs), x)
    np.testing.assert_allclose(found, truth(x, attrs), 1e-4, 1e-5)


CASES = [
    ((1, 4, 5, 2), (1, 2, 2, 1)),
    ((1, 4, 5, 2), (1, 2.6, 1.4, 1)),
    ((1, 6, 7, 1), (1, 0.6, 0.55, 1)),
    ((3, 5), (2, 0.8)),
    ((9,), (1.7,)),
    ((7, 3), (0.3, 3)),
]


@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("nearest", ["ceil", "floor", "round_prefer_ceil", "round_prefer_floor"])
def test_nearest(nearest: str, coordinates: str) -> None:
    for shape, scales in CASES:
        compare(shape, scales, mode="nearest", nearest=nearest, coordinates=coordinates)


@pytest.mark.parametrize(
    "coordinates", ["asymmetric", "half_pixel", "half_pixel_symmetric", "align_corners"]
)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_between_elements(mode: str, coordinates: str) -> None:
    for shape, scales in CASES:
        compare(shape, scales, mode=mode, coordinates=coordinates)


@pytest.mark.parametrize("a", [-0.5, -0.75])
def test_cubic_without_what_is_outside(a: float) -> None:
    for shape, scales in CASES:
        compare(shape, scales, mode="cubic", cubic_a=a, exclude_outside=True)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode: str) -> None:
    for shape, scales in CASES:
        compare(shape, scales, mode=mode, antialias=True)
        compare(shape, scales, mode=mode, antialias=True, exclude_outside=True)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_cropping(mode: str) -> None:
    roi = ((0.0, 1.0), (0.4, 0.6), (-0.2, 1.3), (0.0, 1.0))
    changes = {"coordinates": "tf_crop_and_resize", "roi": roi, "extrapolation": 10.0}
    compare((1, 4, 5, 2), (1, 1.5, 2, 1), mode=mode, **changes)
    compare((1, 4, 5, 2), (1, 0.3, 0.5, 1), mode=mode, **changes)
    compare((1, 4, 5, 2), (1, 0.25, 0.2, 1), mode=mode, **changes)


def test_one_place_is_the_first_in_pytorchs_half_pixels() -> None:
    # ONNX's text: x_original is 0 where the resized length is 1.
    x = np.float32([[3, 5, 7, 9]])
    attrs = {**PLAIN, "coordinates": "pytorch_half_pixel", "scales": (1.0, 0.25), "size": (1, 1)}
    assert outcome(network("resize", [x], attrs), x).tolist() == [[3]]
    attrs = {**attrs, "scales": (1.0, 0.5), "size": (1, 2)}
    assert outcome(network("resize", [x], attrs), x).tolist() == [[4, 8]]


def test_integers_are_moved() -> None:
    x = np.arange(6, dtype=np.int8).reshape(1, 2, 3, 1)
    attrs = {**PLAIN, "mode": "nearest", "scales": (1.0, 2.0, 2.0, 1.0), "size": (1, 4, 6, 1)}
    found = outcome(network("resize", [x], attrs), x)
    np.testing.assert_array_equal(found, x.repeat(2, 1).repeat(2, 2))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats(dtype: str) -> None:
    x = np.array([0, 1, 2, 3], dtype)
    attrs = {**PLAIN, "scales": (2.0,), "size": (8,)}
    found = outcome(network("resize", [x], attrs), x)
    assert found.dtype == dtype
    assert found.tolist() == [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]
