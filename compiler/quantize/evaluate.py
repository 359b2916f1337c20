"""Running float networks, and single nodes of them, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.reference import Interpreter

from .checks import Samples

__all__ = ["Tell", "activations", "in_double", "run_node"]

Array = npt.NDArray[Any]

Tell = Callable[[str, int], None]
"""Called with what is being done, and how many images were done since the last call."""

_ARRAY_BYTES = 128 << 20
"""Bound on the activations that are held at once, by running a few images at a time."""


def in_double(graph: Graph) -> Graph:
    """Return the network with every float32 tensor as float64.

    Rounding errors that differ between machines then lie twenty-odd bits below those of the
    ranges made from the values.
    """
    tensors = [_double(t) if t.dtype.kind == "f" else t for t in graph.tensors.values()]
    return Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)


def activations(
    graph: Graph, samples: Samples, doing: str, tell: Tell
) -> Iterator[dict[str, Array]]:
    """Run the network, a few images at a time.

    Parameters
    ----------
    graph : Graph
        Float.
    samples : dict of str to array
    doing : str
        What for, in a word.
    tell : callable
        Told of each few images when whoever reads them is done with them.

    Yields
    ------
    dict of str to array
        Every activation, the inputs among them, by name.
    """
    interpreter = Interpreter(in_double(graph))
    step = images_at_once(graph)
    for first in range(0, len(next(iter(samples.values()))), step):
        part = {name: array[first : first + step] for name, array in samples.items()}
        yield {**part, **interpreter.run(part, keep_all=True)}
        tell(doing, len(next(iter(part.values()))))


def images_at_once(graph: Graph) -> int:
    """Return how many images to hold with all their activations."""
    held = sum(8 * t.size for t in graph.tensors.values() if not t.is_constant)
    return max(1, _ARRAY_BYTES // held)


def run_node(graph: Graph, node: Node, values: Mapping[str, Array], **attrs: Any) -> Array:
    """Compute one node.

    Parameters
    ----------
    graph : Graph
        Whose tensors it reads.
    node : Node
    values : mapping of str to array
        (n, ...) for each input; what is absent is the graph's constant.
    **attrs
        Attributes that differ from the node's.
    """
    tensors = {name: graph.tensors[name] for name in node.inputs}
    given = {name: values[name] for name, t in tensors.items() if not t.is_constant}
    output = graph.output_tensor(node)
    changed = replace(node, attrs={**node.attrs, **attrs})
    one = Graph(node.name, [*tensors.values(), output], [changed], list(given), [output.name])
    return Interpreter(one).run(given)[output.name]


def _double(tensor: Tensor) -> Tensor:
    data = None if tensor.data is None else tensor.data.astype(np.float64)
    return replace(tensor, dtype=np.dtype(np.float64), data=data)
