"""Channelwise factors and offsets that no convolution could take in, in an integer form."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph, Node
from vdla.compiler.passes.dead_code import dead_code
from vdla.compiler.passes.draft import Draft

from .integer import form_of

__all__ = ["scales_as_depthwise"]

Array = npt.NDArray[Any]


def scales_as_depthwise(graph: Graph) -> Graph:
    """Make depthwise convolutions of multiplications by a constant for each channel.

    A network that normalizes before it convolves (DenseNet) is left with them, since a concat lies
    between them and the convolutions before. A convolution has an integer form, its weights with a
    scale a channel, and runs on the accelerator; a multiplication has none.

    Before, x of (1, H, W, C) and f, s of C values::

        add(mul(x, f), s, clip)

    After, w of (1, 1, 1, C)::

        depthwise_conv2d(x, w, s, clip)

    Only where what makes x has an integer form itself, so that float stretches stay whole.

    Parameters
    ----------
    graph : Graph
        Float.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        factor = _constant(graph, node, "mul")
        if factor is None:
            continue
        data, factors = factor
        producer = graph.producer(data)
        if producer is not None and form_of(graph, producer) is None:
            continue
        last, offsets, clip = node, None, (-inf, inf)
        reader = draft.only_reader(node.outputs[0])
        if reader is not None and (offset := _constant(graph, reader, "add")) is not None:
            last, offsets, clip = reader, offset[1], reader.attrs["clip"]
        names = [data, draft.add_constant(f"{node.name}.weight", factors.reshape(1, 1, 1, -1))]
        if offsets is not None:
            names.append(draft.add_constant(f"{node.name}.bias", offsets))
        attrs = {
            "clip": clip,
            "dilation": (1, 1),
            "padding": ((0, 0), (0, 0)),
            "rounding": "single",
            "strides": (1, 1),
        }
        draft.change(last, op="depthwise_conv2d", inputs=tuple(names), attrs=attrs)
    return dead_code(draft.finish())


def _constant(graph: Graph, node: Node, op: str) -> tuple[str, Array] | None:
    """Return what an operator computes with, and its constant of one value a channel of images."""
    if node.op != op:
        return None
    shape = graph.output_tensor(node).shape
    for data, other in (node.inputs, node.inputs[::-1]):
        source, values = graph.tensors[data], graph.tensors[other].data
        if values is None or source.is_constant or source.dtype != np.float32:
            continue
        channels = values.size == shape[-1] and values.shape[-1:] == shape[-1:]
        if channels and len(shape) == 4 and source.shape == shape:
            return data, values.reshape(-1)
    return None
