"""Operators that move elements, and those that reduce dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from vdla.compiler.graph.tensor import Array

from .build import Builder
from .form import axes_in, axis_in
from .node import Constant, OnnxNode, Value

__all__ = ["MOVEMENT"]

Conversion = Callable[[OnnxNode, Builder], list[Value]]


def _list(node: OnnxNode, build: Builder, place: int, name: str, since: int) -> list[int] | None:
    """Return a list that is an attribute before opset `since` and a constant input from it on."""
    if node.opset < since:
        given = node.attrs.get(name)
        return None if given is None else [int(i) for i in given]
    if not node.has(place):
        return None
    return [int(i) for i in build.known(node, place, name).ravel()]


def _axis(node: OnnxNode, rank: int) -> int:
    return axis_in(node, int(node.attrs.get("axis", 0)), rank)


def _concat(node: OnnxNode, build: Builder) -> list[Value]:
    inputs = [v for v in build.operands(node) if v.shape != (0,)]
    if len(inputs) == 1:
        return [inputs[0]]
    return [build.emit("concat", inputs, axis=_axis(node, len(inputs[0].shape)))]


def _split(node: OnnxNode, build: Builder) -> list[Value]:
    """Before: ``Split(x) -> a, b``. After: a slice for each output."""
    data = build.operand(node, 0)
    axis = _axis(node, len(data.shape))
    size, count = data.shape[axis], len(node.outputs)
    parts = _list(node, build, 1, "split", 13)
    said = int(node.attrs.get("num_outputs", count))
    if said != count or (parts is None and node.opset < 18 and size % count):
        node.refuse(
            f"dimension {axis} must be split as often as it has outputs, {size} into {count} "
            f"equal parts, not {said}",
            "Say the sizes of the parts",
        )
    if parts is None:
        each = -(-size // count)
        parts = [min(each, size - k * each) for k in range(count)]
    if sum(parts) != size or min(parts) < 1 or len(parts) != count:
        node.refuse(
            f"{count} parts of at least 1 must add up to {size}, not {parts}",
            "Leave out parts of nothing",
        )
    made: list[Value] = []
    for first, part in zip(np.cumsum([0, *parts]), parts, strict=False):
        begin, end = [0] * len(data.shape), list(data.shape)
        begin[axis], end[axis] = int(first), int(first) + part
        made.append(_sliced(build, data, begin, end, [1] * len(begin)))
    return made


def _sliced(
    build: Builder, data: Value, begin: list[int], end: list[int], step: list[int]
) -> Value:
    if not any(begin) and tuple(end) == data.shape and set(step) <= {1}:
        return data
    return build.emit("slice", [data], begin=tuple(begin), end=tuple(end), step=tuple(step))


def _slice(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    rank = len(data.shape)
    starts = _list(node, build, 1, "starts", 10) or []
    ends = _list(node, build, 2, "ends", 10) or []
    axes = _list(node, build, 3, "axes", 10)
    axes = axes_in(node, list(range(len(starts))) if axes is None else axes, rank)
    steps = _list(node, build, 4, "steps", 10) if node.opset >= 10 else None
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        node.refuse(
            f"it must have a start, an end, an axis and a step each, not {len(starts)}, "
            f"{len(ends)}, {len(axes)} and {len(steps)}",
            "Correct them",
        )
    begin, end, step = [0] * rank, list(data.shape), [1] * rank
    for axis, first, last, by in zip(axes, starts, ends, steps, strict=True):
        if by == 0:
            node.refuse("a step must not be 0", "Correct it")
        begin[axis], end[axis], step[axis] = (
            *slice(first, last, by).indices(data.shape[axis])[:2],
            by,
        )
    if any(len(range(*span)) == 0 for span in zip(begin, end, step, strict=True)):
        node.refuse(f"it must leave an element, not slice {data.shape} away", "Leave it out")
    return [_sliced(build, data, begin, end, step)]


def _pad(node: OnnxNode, build: Builder) -> list[Value]:
    """Before: ``Pad`` by negative counts too. After: ``slice`` for those, ``pad`` for the rest."""
    data = build.operand(node, 0)
    rank = len(data.shape)
    pads = _list(node, build, 1, "pads", 11) or []
    axes = _list(node, build, 3, "axes", 18) if node.opset >= 18 else None
    axes = axes_in(node, list(range(rank)) if axes is None else axes, rank)
    if len(pads) != 2 * len(axes):
        node.refuse(
            f"pads must be {2 * len(axes)} integers, before and after each of {len(axes)} "
            f"dimensions, not {pads}",
            "Correct them",
        )
    pairs = [(0, 0)] * rank
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        pairs[axis] = (before, after)
    value = 0.0 if data.dtype.kind == "f" else 0
    if node.opset < 11:
        value = float(node.attrs.get("value", 0.0))
    elif node.has(2):
        value = build.known(node, 2, "fill value").reshape(-1)[0].item()
    begin = [max(-before, 0) for before, _ in pairs]
    end = [d - max(-after, 0) for d, (_, after) in zip(data.shape, pairs, strict=True)]
    data = _sliced(build, data, begin, end, [1] * rank)
    grown = tuple((max(before, 0), max(after, 0)) for before, after in pairs)
    if not any(map(any, grown)):
        return [data]
    mode = str(node.attrs.get("mode", "constant"))
    if mode == "reflect" and any(max(p) >= d for d, p in zip(data.shape, grown, strict=True)):
        node.refuse(
            f"what is reflected must be within the input, less than {data.shape}, not {grown}",
            "Pad less, or by the edge",
        )
    return [build.emit("pad", [data], paddings=grown, value=value, mode=mode)]


def _reshape(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    wanted = [int(d) for d in build.known(node, 1, "shape").ravel()]
    if not node.attrs.get("allowzero", 0):
        wanted = [data.shape[k] if d == 0 else d for k, d in enumerate(wanted)]
    if wanted.count(-1) == 1:
        known = -prod(wanted)
        wanted[wanted.index(-1)] = prod(data.shape) // known if known else 0
    if prod(wanted) != prod(data.shape) or min((1, *wanted)) < 0:
        node.refuse(
            f"a reshape must keep the number of elements, not make {tuple(wanted)} of {data.shape}",
            "Bind the batch that the shape was exported with",
        )
    return [build.reshape(data, wanted)]


def _flatten(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    rank, axis = len(data.shape), int(node.attrs.get("axis", 1))
    if not -rank <= axis <= rank:
        node.refuse(f"an axis must lie in {-rank}..{rank}, not be {axis}", "Correct it")
    axis += rank if axis < 0 else 0
    return [build.reshape(data, (prod(data.shape[:axis]), prod(data.shape[axis:])))]


def _transpose(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    perm = node.attrs.get("perm", list(range(len(data.shape)))[::-1])
    if sorted(perm) != list(range(len(data.shape))):
        node.refuse(
            f"perm must name each of {len(data.shape)} dimensions once, not {list(perm)}",
            "Correct it",
        )
    return [build.transpose(data, [int(p) for p in perm])]


def _squeeze(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    axes, rank = _list(node, build, 1, "axes", 13), len(data.shape)
    gone = [k for k, d in enumerate(data.shape) if d == 1] if axes is None else axes
    gone = axes_in(node, gone, rank)
    if any(data.shape[a] != 1 for a in gone):
        node.refuse(f"squeezed dimensions must be 1, not axes {gone} of {data.shape}", "Correct it")
    return [build.reshape(data, [d for k, d in enumerate(data.shape) if k not in gone])]


def _unsqueeze(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    axes = _list(node, build, 1, "axes", 13) or []
    rank = len(data.shape) + len(axes)
    new, old = set(axes_in(node, axes, rank)), iter(data.shape)
    return [build.reshape(data, [1 if k in new else next(old) for k in range(rank)])]


def _gather(node: OnnxNode, build: Builder) -> list[Value]:
    data, indices = build.operands(node)
    axis = _axis(node, len(data.shape))
    size = data.shape[axis]
    if isinstance(indices, Constant):
        places: Array = indices.data.astype(np.int64)
        if places.size and (places.min() < -size or places.max() >= size):
            node.refuse(
                f"indices must lie in {-size}..{size - 1}, not {places.min()}..{places.max()}",
                "Correct them",
            )
        indices = Constant(np.where(places < 0, places + size, places), source=indices.source)
    return [build.emit("gather", [data, indices], axis=axis)]


def _expand(node: OnnxNode, build: Builder) -> list[Value]:
    data = build.operand(node, 0)
    wanted = tuple(int(d) for d in build.known(node, 1, "shape").ravel())
    try:
        shape = np.broadcast_shapes(data.shape, wanted)
    except ValueError:
        node.refuse(f"{data.shape} must broadcast with {wanted}", "Correct the shape")
    return [data if shape == data.shape else build.emit("expand", [data], shape=shape)]


def _constant_of_shape(node: OnnxNode, build: Builder) -> list[Value]:
    build.known(node, 0, "shape")
    return []


def _reduction(op: str, since: int) -> Conversion:
    def convert(node: OnnxNode, build: Builder) -> list[Value]:
        data = build.operand(node, 0)
        axes, rank = _list(node, build, 1, "axes", since), len(data.shape)
        if not axes and node.attrs.get("noop_with_empty_axes", 0):
            return [data]
        chosen = tuple(sorted(axes_in(node, axes, rank))) if axes else tuple(range(rank))
        keep = bool(node.attrs.get("keepdims", 1))
        return [build.emit(op, [data], axes=chosen, keep_dims=keep)] if chosen else [data]

    return convert


MOVEMENT: Mapping[str, Callable[[OnnxNode, Builder], Sequence[Value]]] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Pad": _pad,
    "ReduceMax": _reduction("reduce_max", 18),
    "ReduceMean": _reduction("mean", 18),
    "ReduceSum": _reduction("reduce_sum", 13),
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""By type; ``(node, builder) -> values of its outputs``."""
