"""Convolutions and dense layers of 8-bit integers, and what they are by the definition."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph import Graph, Node, Quant, Tensor

__all__ = ["extreme_and_drawn", "integer_layer"]

Array = np.ndarray


def integer_layer(
    shape: tuple[int, ...],
    outputs: int,
    window: int = 1,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    *,
    dilation: int = 1,
    weights: str = "drawn",
    zero_point: int = -7,
) -> Graph:
    """Return one convolution, or a dense layer where the shape has two dimensions.

    Parameters
    ----------
    weights : str
        ``"drawn"``: over all of int8. ``"lowest"`` or ``"highest"``: all -128 or 127.
    """
    rng = np.random.default_rng(7)
    reach = dilation * (window - 1) + 1
    if len(shape) == 2:
        out, of = (shape[0], outputs), (outputs, shape[1])
    else:
        size = [(extent + sum(padding) - reach) // stride + 1 for extent in shape[1:3]]
        out, of = (shape[0], *size, outputs), (outputs, window, window, shape[3])
    fixed = {"lowest": -128, "highest": 127}
    data = (
        np.full(of, fixed[weights], np.int8)
        if weights in fixed
        else rng.integers(-128, 128, of, np.int16).astype(np.int8)
    )
    scale = (0.01 + 0.01 * rng.random(outputs)).astype(np.float32) / np.prod(of[1:]) ** 0.5
    quant = Quant(np.array([0.05], np.float32), np.array([zero_point]))
    after = Quant(np.array([0.1], np.float32), np.array([3]))
    bias = rng.integers(-2000, 2000, outputs).astype(np.int32)
    tensors = [
        Tensor("x", shape, np.dtype(np.int8), quant),
        Tensor("w", of, data.dtype, Quant(scale, np.zeros(outputs, np.int64), axis=0), data),
        Tensor("b", bias.shape, bias.dtype, None, bias),
        Tensor("y", out, np.dtype(np.int8), after),
    ]
    attrs = {"clip": (-128, 127), "rounding": "double"}
    if len(shape) == 2:
        attrs |= {"keep_dims": False}
        nodes = [Node("dense", "dense", ("x", "w", "b"), ("y",), attrs)]
    else:
        attrs |= {
            "strides": (stride, stride),
            "padding": (padding, padding),
            "dilation": (dilation, dilation),
        }
        nodes = [Node("conv", "conv2d", ("x", "w", "b"), ("y",), attrs)]
    return Graph("one", tensors, nodes, ("x",), ("y",))


def extreme_and_drawn(graph: Graph) -> list[Array]:
    """Return inputs of a graph: drawn from its dtype's range, all its least, all its greatest."""
    tensor = graph.tensors["x"]
    low, high = np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max
    rng = np.random.default_rng(4)
    drawn = rng.integers(low, high, tensor.shape, tensor.dtype, endpoint=True)
    return [drawn, *(np.full(tensor.shape, value, tensor.dtype) for value in (low, high))]
