"""Resize in its versions, and Upsample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor
from typing import Any

import numpy as np

from .build import Builder
from .form import axes_in
from .node import OnnxNode, Value

__all__ = ["RESIZING"]

_POLICIES = ("not_larger", "not_smaller", "stretch")


def _resize(node: OnnxNode, build: Builder) -> list[Value]:
    """Every dimension gets a size and a scale, whichever of them the file gives, for whichever."""
    data = build.operand(node, 0)
    rank, old = len(data.shape), node.opset < 11
    at = {"scales": 1} if old else {"roi": 1, "scales": 2, "sizes": 3}
    axes = axes_in(node, [int(a) for a in node.attrs.get("axes", range(rank))], rank)
    given = {
        name: build.known(node, place, name).ravel().tolist()
        for name, place in at.items()
        if node.has(place)
    }
    for name, values in given.items():
        wanted = len(axes) * (2 if name == "roi" else 1)
        if values and len(values) != wanted:
            node.refuse(
                f"{name} must be {wanted} numbers for a tensor of shape {data.shape}, not {values}",
                "Correct them",
            )
    size, scales = list(data.shape), [1.0] * rank
    if given.get("sizes"):
        _sizes(node, given["sizes"], axes, size, scales)
    elif given.get("scales"):
        for axis, scale in zip(axes, given["scales"], strict=True):
            # Files hold float32 scales: 0.6 times 5 must reach 3.
            size[axis] = floor(float(np.float32(scale) * np.float32(size[axis])))
            scales[axis] = float(scale)
    else:
        node.refuse("it must have sizes or scales", "Export the model again")
    roi = None
    if node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        pairs = [(0.0, 1.0)] * rank
        ends = given.get("roi", [])
        for k, axis in enumerate(axes):
            pairs[axis] = (float(ends[k]), float(ends[k + len(axes)]))
        roi = tuple(pairs)
    if tuple(size) == data.shape and roi is None and set(scales) == {1.0}:
        return [data]
    made = _sampled(
        build,
        data,
        size=tuple(size),
        scales=tuple(scales),
        mode=str(node.attrs.get("mode", "nearest")),
        coordinates=str(
            "asymmetric" if old else node.attrs.get("coordinate_transformation_mode", "half_pixel")
        ),
        nearest=str("floor" if old else node.attrs.get("nearest_mode", "round_prefer_floor")),
        cubic_a=float(node.attrs.get("cubic_coeff_a", -0.75)),
        exclude_outside=bool(node.attrs.get("exclude_outside", 0)),
        antialias=bool(node.attrs.get("antialias", 0)),
        extrapolation=float(node.attrs.get("extrapolation_value", 0.0)),
        roi=roi,
    )
    return [made]


def _sizes(
    node: OnnxNode, wanted: list[int], axes: list[int], size: list[int], scales: list[float]
) -> None:
    """Fill in what sizes say; they may be bounds that one common scale is to keep."""
    policy = str(node.attrs.get("keep_aspect_ratio_policy", "stretch"))
    if policy not in _POLICIES:
        node.refuse(
            f"keep_aspect_ratio_policy must be one of {', '.join(_POLICIES)}, not {policy!r}",
            "Choose one",
        )
    ratios = [w / size[axis] for w, axis in zip(wanted, axes, strict=True)]
    if policy != "stretch":
        common = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [common] * len(axes)
        wanted = [floor(common * size[axis] + 0.5) for axis in axes]
    for axis, ratio, w in zip(axes, ratios, wanted, strict=True):
        size[axis], scales[axis] = int(w), ratio


def _upsample(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    given = node.attrs.get("scales")
    scales = [
        float(s) for s in (build.known(node, 1, "scales").ravel() if given is None else given)
    ]
    if len(scales) != len(data.shape):
        node.refuse(
            f"scales must be {len(data.shape)} numbers for a tensor of shape {data.shape}, not "
            f"{scales}",
            "Correct them",
        )
    size = tuple(floor(d * s) for d, s in zip(data.shape, scales, strict=True))
    made = _sampled(
        build,
        data,
        size=size,
        scales=tuple(scales),
        mode=str(node.attrs.get("mode", "nearest")),
        coordinates="asymmetric",
        nearest="floor",
        cubic_a=-0.75,
        exclude_outside=False,
        antialias=False,
        extrapolation=0.0,
        roi=None,
    )
    return [made]


def _sampled(build: Builder, data: Value, **attrs: Any) -> Value:
    """Emit a resize; between integers it is computed on floats and cut off, as ONNX does.

    Before: ``Resize(x uint8, linear)``. After: ``cast x to float32, resize, clip, cast to uint8``.
    """
    if data.dtype.kind not in "iu" or attrs["mode"] == "nearest":
        return build.emit("resize", [data], **attrs)
    real = build.emit("cast", [data], dtype=np.float32)
    made = build.emit("resize", [real], **attrs)
    limits = np.iinfo(data.dtype)  # cubics overshoot
    bounded = build.emit("clip", [made], clip=(float(limits.min), float(limits.max)))
    return build.emit("cast", [bounded], dtype=data.dtype)


RESIZING: Mapping[str, Callable[[OnnxNode, Builder], list[Value]]] = {
    "Resize": _resize,
    "Upsample": _upsample,
}
"""By type; ``(node, builder) -> values of its outputs``."""
