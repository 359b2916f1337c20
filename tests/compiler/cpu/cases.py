"""Networks of one operator with values: many shapes and dtypes of each operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tests.one_operator import network, quant
from vdla.compiler.graph import Graph, Quant

__all__ = ["CASES", "Case"]

Array = np.ndarray
INF = np.inf
FREE = {"clip": (-INF, INF), "rounding": "double"}
WHOLE = {"int8": (-128, 127), "uint8": (0, 255)}
NO_PADS = ((0, 0), (0, 0))
STEP = (1, 1)


@dataclass(frozen=True)
class Case:
    """A network of one operator, and a value for each of its inputs."""

    graph: Graph
    values: Sequence[Array]

    @property
    def steps(self) -> int:
        """About how many elements are read."""
        (node,) = self.graph.nodes
        inputs = sum(tensor.size for tensor in self.graph.input_tensors(node))
        return max(self.graph.macs(node), inputs)

    def __str__(self) -> str:
        (node,) = self.graph.nodes
        inputs = ", ".join(f"{t.dtype}{list(t.shape)}" for t in self.graph.input_tensors(node))
        return f"{node.op}({inputs}) with {dict(node.attrs)}"


CASES: dict[str, list[Case]] = defaultdict(list)
"""By operator."""


def _add(
    op: str,
    inputs: Sequence[Array],
    attrs: Mapping[str, Any] | None = None,
    *,
    constant: Sequence[int] = (),
    **more: Any,
) -> None:
    graph = network(op, inputs, dict(attrs or {}), constant=constant, **more)
    CASES[op].append(Case(graph, [x for k, x in enumerate(inputs) if k not in constant]))


RNG = np.random.default_rng(7)


def floats(*shape: int, dtype: str = "float32") -> Array:
    return np.asarray(RNG.standard_normal(shape) * 2).astype(dtype)


def whole(*shape: int, dtype: str = "int8") -> Array:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def per_channel(channels: int, axis: int, dtype: str = "int8") -> Quant:
    zero = np.zeros(channels, np.int64) if dtype == "int8" else RNG.integers(90, 160, channels)
    return Quant(RNG.uniform(0.01, 0.05, channels).astype(np.float32), zero, axis)


EXTREMES = np.float32([0.0, -0.0, INF, -INF, np.nan, 1e30, -1e30, 1e-30, 88.0, -104.0, 0.5, -2.5])
DTYPES = ("float16", "float32", "float64")
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def _elementwise() -> None:
    attrs: dict[str, dict[str, Any]] = {
        "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
        "leaky_relu": {"alpha": 0.1},
    }
    functions = ("erf", "exp", "hard_swish", "sigmoid", "tanh", *attrs)
    for op in functions:
        _add(op, [EXTREMES], attrs.get(op))
        for dtype in DTYPES:
            _add(op, [floats(3, 5, 7, dtype=dtype)], attrs.get(op))
        _add(op, [floats()], attrs.get(op))
    for op in ("log", "sqrt"):
        _add(op, [np.float32([*np.abs(EXTREMES), -1.0, 1.0, 3e-40])])
        for dtype in DTYPES:
            _add(op, [np.abs(floats(45, dtype=dtype)) + np.asarray(0.01, dtype)])
    pairs = [
        ((), ()),
        ((3,), ()),
        ((2, 3), (3,)),
        ((4, 1, 3), (2, 1)),
        ((1, 2, 1, 4), (3, 1, 3, 1)),
    ]
    for op in ("add", "div", "equal", "maximum", "minimum", "mul", "pow", "sub"):
        own = FREE if op == "add" else {}
        result = {"dtype": "bool"} if op == "equal" else {}
        for left, right in pairs:
            a, b = (np.round(floats(*shape)) + np.float32(0.5) for shape in (left, right))
            _add(op, [np.abs(a) if op == "pow" else a, b], own, **result)
        for dtype in ("float16", "float64"):
            a, b = np.abs(floats(4, 9, dtype=dtype)), floats(9, dtype=dtype)
            _add(op, [a, b], own, **result)
        grid = np.float32(list(product(EXTREMES, EXTREMES))).T
        grid = np.abs(grid[:, ::3]) if op == "pow" else grid
        _add(op, [np.ascontiguousarray(grid[0]), np.ascontiguousarray(grid[1])], own, **result)
        for dtype in INTEGERS:
            a, b = whole(60, dtype=dtype), whole(60, dtype=dtype)
            b[:20] = np.arange(20)
            b[20:25] = np.asarray(-1).astype(dtype)
            a[20:22] = np.iinfo(dtype).min
            if op == "pow":
                a[:40], b = np.resize([-2, -1, 0, 1, 3], 40).astype(dtype), np.minimum(b, 70)
                a, b = a[15:31], b[15:31]
            _add(op, [a, b], own, **result)
        row = np.float32([1, 2, 3, 4])
        for constant in (0, 1):
            operands = [np.abs(floats(2, 3, 4)), row][:: 1 if constant else -1]
            _add(op, operands, own, constant=[constant], **result)
    for exponent in (2.0, 0.5, 1.0, -1.0, 3.0):
        _add("pow", [np.abs(floats(9)), np.float32(exponent)], constant=[1])
    _add("pow", [whole(9, dtype="int32"), np.int32(2)], constant=[1])
    _add("add", [floats(2, 5), floats(5)], {"clip": (0.0, 6.0), "rounding": "double"})
    _add("add", [whole(9), whole(9)], {"clip": (-100, 127), "rounding": "double"})
    for op in ("clip", "relu", "relu6"):
        for clip in ((0.0, INF), (0.0, 6.0), (-INF, 1.5)):
            _add(op, [EXTREMES], {"clip": clip, "rounding": "double"})
        _add(op, [whole(30, dtype="int32")], {"clip": (-7, 1 << 20), "rounding": "double"})
        _add(op, [whole(2, 3, dtype="uint8")], {"clip": (9, 200), "rounding": "double"})
    for dtype in ("float32", "float16", "int8", "int32"):
        x = floats(2, 3, 4, dtype=dtype) if dtype[0] == "f" else whole(2, 3, 4, dtype=dtype)
        _add("prelu", [x, x[0, 0]])
        _add("prelu", [x, x[:, :1, :1]])
        _add("where", [floats(3, 4) > 0, x, x[0, :, :1]])
    _add("where", [np.bool_(True), floats(3), floats(2, 1)])


def _casts() -> None:
    for source, target in product((*INTEGERS, "bool"), (*INTEGERS, *DTYPES, "bool")):
        x = floats(9) > 0 if source == "bool" else whole(9, dtype=source)
        x[:2] = 0
        _add("cast", [x], dtype=target)
    for source, target in product(DTYPES, ("int8", "int16", "int32", "int64", *DTYPES, "bool")):
        _add("cast", [np.append(floats(9, dtype=source) * 5, 0).astype(source)], dtype=target)
    _add("cast", [np.abs(floats(9)) * 9], dtype="uint8")
    _add("cast", [EXTREMES], dtype="float16")
    _add("cast", [EXTREMES], dtype="bool")


def _windows() -> None:
    shapes: list[tuple[Any, ...]] = [
        # image, window, strides, dilation, padding
        ((1, 5, 4, 3), (1, 1), STEP, STEP, NO_PADS),
        ((2, 9, 5, 3), (3, 2), (3, 1), (1, 2), ((2, 0), (0, 1))),
        ((4, 4, 3, 5), (3, 3), STEP, STEP, ((1, 1), (1, 1))),
        ((1, 5, 4, 9), (3, 1), (2, 3), STEP, ((0, 2), (0, 0))),
    ]
    for image, window, strides, dilation, padding in shapes:
        attrs = {"dilation": dilation, "padding": padding, "strides": strides}
        every = image[0] == 2
        for outputs, groups in ((19, 1), (image[3] * 2, image[3])):
            weight = (outputs, *window, image[3] // groups)
            _weighted("conv2d", image, weight, attrs, 0, every=every and groups == 1)
            if every or groups == 1:
                more = {"groups": groups, "output_padding": (strides[0] - 1, 0)}
                own = every and groups > 1
                _weighted("conv_transpose2d", image, weight, attrs | more, 0, every=own)
        for multiplier in (1, 2):
            weight = (1, *window, image[3] * multiplier)
            own = every and multiplier == 2
            _weighted("depthwise_conv2d", image, weight, attrs, 3, every=own)
        pool = {"padding": padding, "strides": strides, "window": window}
        _pools(image, pool, every=every)
    wide = {"padding": NO_PADS, "strides": STEP, "window": (6, 6)}
    _pools((1, 6, 6, 3), wide, every=False)
    for rows, outputs in (((3, 16), 5), ((2, 3, 7), 10), ((1, 33), 1)):
        for keep in (False, True):
            own = keep and rows[0] == 3
            _weighted("dense", rows, (outputs, rows[-1]), {"keep_dims": keep}, 0, every=own)
    _add("dense", [floats(2, 3, 4), floats(5, 12)], {**FREE, "keep_dims": False}, constant=[1])


def _weighted(
    op: str,
    image: Sequence[int],
    weight: tuple[int, ...],
    attrs: Mapping[str, Any],
    axis: int,
    *,
    every: bool,
) -> None:
    """Add a convolution or dense layer: of floats and int8, or of every dtype and rounding."""
    channels, terms = weight[axis], int(np.prod(weight)) // weight[axis]
    for dtype in DTYPES if every else ("float32",):
        operands = [floats(*s, dtype=dtype) for s in (image, weight, (channels,))]
        _add(op, operands, {**attrs, **FREE}, constant=[1, 2])
    _add(op, operands[:2], {**attrs, "clip": (-1.0, INF), "rounding": "double"})
    for dtype in ("int8", "uint8", "int32") if every else ():
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        plain = {**attrs, "clip": (low, high), "rounding": "double"}
        _add(op, [whole(*s, dtype=dtype) for s in (image, weight)], plain)
    bias = RNG.integers(-3000, 3000, channels).astype(np.int32)
    spread = 73 * 73 * np.sqrt(terms) * 0.02 * 0.03 / 50
    for dtype, rounding in product(WHOLE, ("double", "single")):
        zero = 3 if dtype == "int8" else 131
        for scales in (quant(0.03, 0 if dtype == "int8" else 99), per_channel(channels, axis)):
            if dtype == "uint8" and scales.axis is not None:
                continue
            if not every and (scales.axis is None or rounding == "single"):
                continue
            operands = [whole(*image, dtype=dtype), whole(*weight, dtype=dtype), bias]
            quants = [quant(0.02, zero), scales, None, quant(spread, zero - 8)]
            clip = WHOLE[dtype] if rounding == "single" else (zero - 8, zero + 90)
            own = {**attrs, "clip": clip, "rounding": rounding}
            _add(op, operands, own, constant=[1, 2], quants=quants, dtype=dtype)
    # A multiplier above 1, which is shifted left first.
    quants = [quant(1.0, 3), quant(2.0), quant(0.7, -5)]
    small = [whole(*image) >> 6, whole(*weight) >> 6]
    own = {**attrs, "clip": (-128, 127), "rounding": "double"}
    _add(op, small, own, constant=[1], quants=quants)


def _pools(image: tuple[int, ...], attrs: Mapping[str, Any], *, every: bool) -> None:
    for op in ("max_pool2d", "avg_pool2d"):
        for dtype in DTYPES if every else ("float32",):
            _add(op, [floats(*image, dtype=dtype)], {**attrs, "clip": (-INF, INF)})
        x = floats(*image)
        x.reshape(-1)[::7] = np.nan
        x.reshape(-1)[1::9] = -INF
        _add(op, [x], {**attrs, "clip": (-0.5, 1.0)})
        for dtype in WHOLE:
            for clip in (WHOLE[dtype], (5, 100)) if every else (WHOLE[dtype],):
                q = [quant(0.1, 3)] * 2
                _add(op, [whole(*image, dtype=dtype)], {**attrs, "clip": clip}, quants=q)
    for dtype in ("int32", "uint8"):
        limits = np.iinfo(dtype)
        own = {**attrs, "clip": (limits.min, limits.max)}
        _add("max_pool2d", [whole(*image, dtype=dtype)], own)


def _products() -> None:
    pairs = [
        ((3, 4), (4, 5)),
        ((2, 5, 16), (16, 19)),
        ((3, 1, 2, 4), (2, 4, 5)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((7,), (7,)),
        ((1, 1), (1, 1)),
    ]
    for left, right in pairs:
        every = len(left) == 3
        kinds = (*DTYPES, "int8", "int32", "int64", "uint8", "uint32")
        for dtype in kinds if every else ("float32", "int8"):
            make = floats if dtype[0] == "f" else whole
            a, b = make(*left, dtype=dtype), make(*right, dtype=dtype)
            if dtype.endswith("64") and dtype[0] == "i":
                a, b = a >> 40, b >> 40
            _add("matmul", [a, b])
    _add("matmul", [floats(2, 3, 4), floats(4, 9)], constant=[1])
    _add("matmul", [floats(3, 4), floats(2, 4, 9)], constant=[0])


def _quantized() -> None:
    for dtype in WHOLE:
        zero = 3 if dtype == "int8" else 130
        every = np.arange(*np.add(WHOLE[dtype], (0, 1))).astype(dtype)
        first, second = quant(0.07, zero), quant(0.03, zero + 9)
        for rounding, (x, y) in product(
            ("double", "single"), ((first, second), (second, first), (quant(3.0), quant(0.5, 9)))
        ):
            low, high = WHOLE[dtype]
            for op, clip in (
                ("clip", (low + 9, high)),
                ("relu", (max(low, 5), high)),
                ("relu6", (9, 60)),
            ):
                attrs = {"clip": clip, "rounding": rounding}
                _add(op, [every], attrs, quants=[x, y])
            for target in WHOLE:
                _add("quantize", [every], {"rounding": rounding}, quants=[x, y], dtype=target)
            a, b = whole(4, 25, dtype=dtype), whole(25, dtype=dtype)
            attrs = {"clip": (low, high - 20), "rounding": rounding}
            _add("add", [a, b], attrs, quants=[x, y, first])
            _add("add", [a, b[:1]], attrs, quants=[x, y, first], constant=[1])
        _add("leaky_relu", [every], {"alpha": 0.125}, quants=[first, second])
        _add("leaky_relu", [every], {"alpha": 0.3}, quants=[second, first])
        parts = [whole(2, k, 3, dtype=dtype) for k in (1, 4, 2)]
        _add("concat", parts, {"axis": 1}, quants=[first, second, quant(0.2, 1), first])
        for axis, shape in ((1, (3, 11)), (0, (7, 3)), (2, (1, 5, 40))):
            x = whole(*shape, dtype=dtype)
            target = quant(1 / 256, WHOLE[dtype][0])
            for beta in (1.0, 0.7):
                attrs = {"axis": axis, "beta": beta}
                _add("softmax", [x], attrs, quants=[quant(0.1, zero), target])
    x = np.append(np.linspace(-9, 9, 300), [1e6, -1e6, INF, -INF]).astype(np.float32)
    ties = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997]) * np.float32(0.25)
    for target in ("int8", "uint8", "int16", "uint16", "int32"):
        for rounding in ("double", "even"):
            for given in (x, ties, ties.astype(np.float64), ties.astype(np.float16)):
                one = quant(0.25, 4)
                _add("quantize", [given], {"rounding": rounding}, quants=[None, one], dtype=target)
    scales = Quant(np.float32([0.1, 0.3, 0.02]), np.array([3, -7, 0]), 1)
    _add(
        "quantize",
        [floats(4, 3, 5)],
        {"rounding": "double"},
        quants=[None, scales],
        dtype="int8",
    )
    for source in ("int8", "uint8", "int16", "int32"):
        for target in DTYPES:
            y = whole(3, 7, dtype=source) >> (8 if source[-2:] in ("16", "32") else 0)
            _add("dequantize", [y], quants=[quant(0.013, 4), None], dtype=target)
    _add("dequantize", [whole(4, 3, 5)], quants=[scales, None], dtype="float32")


def _reductions() -> None:
    cases: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((5,), (0,)),
        ((2, 3), (0, 1)),
        ((1, 4, 5, 6), (1, 2)),
        ((2, 3, 70), (2,)),
        ((2, 3, 4), (1,)),
        ((2, 3, 4), ()),
        ((), ()),
    ]
    for (shape, axes), keep in product(cases, (False, True)):
        attrs, every = (
            {"axes": axes, "keep_dims": keep},
            len(shape) == 3 and axes != () and not keep,
        )
        for op in ("mean", "reduce_max", "reduce_sum"):
            own = attrs | ({"rounding": "double"} if op == "mean" else {})
            for dtype in DTYPES if every else ("float32",):
                _add(op, [floats(*shape, dtype=dtype)], own)
            if op != "mean":
                for dtype in ("int8", "uint8", "int32", "int64", "uint32") if every else ("int8",):
                    _add(op, [np.asarray(whole(*shape, dtype=dtype))], own)
        _add("reduce_max", [np.asarray(floats(*shape) > 1)], attrs)
        for dtype, rounding in product(WHOLE, ("double", "single")):
            if axes:
                x, q = whole(*shape, dtype=dtype), [quant(0.1, 3), quant(0.02, 7)]
                _add("mean", [x], attrs | {"rounding": rounding}, quants=q)
    strange = floats(3, 12)
    strange[0, 3], strange[1, 4] = np.nan, INF
    for op in ("mean", "reduce_max", "reduce_sum"):
        own = {"rounding": "double"} if op == "mean" else {}
        _add(op, [strange], {"axes": (1,), "keep_dims": False, **own})
    for shape, axis in (((4,), 0), ((2, 3), 0), ((1, 3, 4, 5), 1), ((1, 3, 4, 37), 3), ((2, 1), 1)):
        for dtype in DTYPES:
            _add("softmax", [floats(*shape, dtype=dtype)], {"axis": axis, "beta": 1.0})
    _add("softmax", [floats(2, 9) * 40], {"axis": 1, "beta": 0.3})
    _add("softmax", [strange], {"axis": 1, "beta": 1.0})
    for shape, size in (((1, 2, 3, 7), 4), ((2, 9), 5), ((1, 1, 1, 3), 3), ((2, 1, 6), 1)):
        for dtype in DTYPES:
            attrs = {"alpha": 0.3, "beta": 0.75, "bias": 2.0, "size": size}
            _add("lrn", [floats(*shape, dtype=dtype)], attrs)


MOVED = ("float32", "int8", "uint8", "bool", "int64", "float16")


def _any(shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == "bool":
        return np.asarray(floats(*shape) > 0)
    return floats(*shape, dtype=dtype) if dtype[0] == "f" else whole(*shape, dtype=dtype)


def _moves(
    x: Array, dtype: str
) -> Iterator[tuple[str, list[Array], dict[str, Any], dict[str, Any]]]:
    """Yield operators that move elements: inputs, attributes, and how else they are given."""
    for perm in ((0, 3, 1, 2), (3, 2, 1, 0), (0, 1, 2, 3), (1, 0, 2, 3)):
        yield ("transpose", [x], {"perm": perm}, {})
    for shape in ((6, 20), (2, 1, 12, 5, 1), (120,), (4, 30), (2, 3, 4, 5), (8, 15)):
        yield ("reshape", [x], {"shape": shape}, {})
    for begin, end, step in (
        ((0, 0, 0, 0), (2, 3, 4, 5), (1, 1, 1, 1)),
        ((1, 2, 3, 4), (-1, -1, -1, -1), (-1, -2, -3, -2)),
        ((0, 1, 1, 0), (1, 3, 4, 5), (1, 1, 2, 3)),
    ):
        yield ("slice", [x], {"begin": begin, "end": end, "step": step}, {})
    for axis in range(4):
        others = [np.take(x, [0] * k, axis) for k in (1, 3)]
        yield ("concat", [x, *others], {"axis": axis}, {})
    yield ("concat", [x], {"axis": 2}, {})
    yield ("concat", [x, x[:, :1]], {"axis": 1}, {"constant": [1]})
    yield ("expand", [x[:, :1]], {"shape": (3, 2, 6, 4, 5)}, {})
    yield ("expand", [x[:1, :, :, :1]], {"shape": (2, 3, 4, 5)}, {})
    real = dtype[0] == "f"
    for mode, paddings in (
        ("constant", ((0, 0), (1, 0), (0, 2), (0, 0))),
        ("constant", ((0, 0), (0, 0), (0, 0), (3, 1))),
        ("edge", ((2, 0), (0, 1), (3, 3), (0, 0))),
        ("reflect", ((1, 1), (2, 0), (0, 5), (4, 0))),
        ("wrap", ((1, 0), (0, 2), (5, 0), (0, 3))),
    ):
        value = 1.5 if real else 1
        yield ("pad", [x], {"mode": mode, "paddings": paddings, "value": value}, {})
    for block in (1, 2):
        attrs = {"block": block, "padding": ((1, 0), (0, 0)), "value": 1}
        yield ("space_to_depth", [x], attrs, {})
    for window, strides, dilation, padding in (
        ((2, 3), (1, 1), (1, 1), ((0, 0), (1, 2))),
        ((2, 2), (2, 3), (1, 2), ((1, 1), (0, 1))),
    ):
        attrs = {"dilation": dilation, "padding": padding, "strides": strides, "value": 1}
        yield ("unfold", [x], {**attrs, "window": window}, {})
    for axis, indices in product(range(4), (np.int64([[1, -1], [0, -2]]), np.int32(1))):
        for constant in ([], [1]):
            data = [x, np.asarray(indices)]
            yield ("gather", data, {"axis": axis}, {"constant": constant, "dtype": dtype})


def _movement() -> None:
    for dtype in MOVED:
        seen = set()
        for op, inputs, attrs, more in _moves(_any((2, 3, 4, 5), dtype), dtype):
            if dtype in ("float32", "int8") or op not in seen:
                _add(op, inputs, attrs, **more)
            seen.add(op)
    _add(
        "gather",
        [floats(6, 3), whole(9, dtype="uint8") % 6],
        {"axis": 0},
        constant=[0],
        dtype="float32",
    )
    for shape in ((1,), (1, 1, 1)):
        _add("reshape", [floats()], {"shape": shape})
        _add("reshape", [floats(*shape)], {"shape": ()})
    _add("expand", [floats()], {"shape": (2, 3)})
    _add("transpose", [floats()], {"perm": ()})


def _resizes() -> None:
    base = {
        "antialias": False,
        "cubic_a": -0.75,
        "exclude_outside": False,
        "extrapolation": 0.0,
        "nearest": "round_prefer_floor",
        "roi": None,
    }
    plain = (
        "align_corners",
        "asymmetric",
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "tf_half_pixel_for_nn",
    )
    sizes = [
        ((1, 4, 5, 3), (1, 8, 15, 3)),
        ((1, 5, 6, 2), (1, 3, 4, 2)),
        ((2, 4, 4, 1), (2, 1, 7, 1)),
    ]
    for (shape, size), kind, mode in product(sizes, plain, ("nearest", "linear", "cubic")):
        if mode == "cubic" and kind != "half_pixel":
            continue
        scales = tuple(b / a for a, b in zip(shape, size, strict=True))
        attrs = {**base, "mode": mode, "coordinates": kind, "size": size, "scales": scales}
        _add("resize", [floats(*shape)], attrs)
    for nearest in ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor"):
        for dtype in ("float32", "int8", "uint8", "bool"):
            more = {"coordinates": "half_pixel", "mode": "nearest", "nearest": nearest}
            size = {"size": (1, 7, 10, 3), "scales": (1.0, 1.75, 2.0, 1.0)}
            _add("resize", [_any((1, 4, 5, 3), dtype)], {**base, **more, **size})
    for mode, (shape, size) in product(("linear", "cubic"), sizes):
        scales = tuple(b / a for a, b in zip(shape, size, strict=True))
        more = {"mode": mode, "coordinates": "half_pixel", "size": size, "scales": scales}
        for key in ("antialias", "exclude_outside"):
            _add("resize", [floats(*shape)], {**base, **more, key: True})
        _add("resize", [floats(*shape, dtype="float16")], {**base, **more})
        roi = ((0.0, 1.0), (0.2, 1.1), (-0.3, 0.6), (0.0, 1.0))
        crop = {"coordinates": "tf_crop_and_resize", "roi": roi, "extrapolation": 9.5}
        _add("resize", [floats(*shape)], {**base, **more, **crop})
        _add("resize", [floats(*shape)], {**base, **more, **crop, "mode": "nearest"})
    same = {"mode": "linear", "coordinates": "half_pixel", "size": (2, 3), "scales": (1.0, 1.0)}
    _add("resize", [floats(2, 3)], {**base, **same})


for make in (
    _elementwise,
    _casts,
    _windows,
    _products,
    _quantized,
    _reductions,
    _movement,
    _resizes,
):
    make()
