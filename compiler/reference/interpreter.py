"""Running a graph, one operator after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.arguments import arrays_by_name
from vdla.batching import gather_images, split_images
from vdla.compiler.graph import Graph
from vdla.errors import InputError

from .operators import OPERATORS
from .values import Value

__all__ = ["Interpreter"]

Array = npt.NDArray[Any]

_ARRAY_BYTES = 64 << 20
"""Bound on the largest float64 array, by running a few images at a time."""


class Interpreter:
    """Run a graph on numpy arrays.

    Integer operators follow TFLite's reference kernels to the bit; float operators are float32.

    Parameters
    ----------
    graph : Graph

    Examples
    --------
    >>> import numpy as np
    >>> from vdla.compiler.zoo import resnet18
    >>> graph = resnet18()
    >>> images = np.zeros((1, 224, 224, 3), np.int8)
    >>> Interpreter(graph).run(images)[graph.outputs[0]].shape
    (1, 1000)
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._images_at_once = max(1, _ARRAY_BYTES // self._widest_bytes())
        self._roundings = {
            node.outputs[0]
            for node in graph.nodes
            if node.op == "quantize" and graph.input_tensors(node)[0].dtype.kind == "f"
        }

    def run(
        self,
        inputs: Array | Mapping[str, Array],
        keep_all: bool = False,
        rounded: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Compute the graph's outputs.

        Parameters
        ----------
        inputs : array or mapping of str to array
            Each (N, ...) with the dtype and the trailing shape of the graph's input; N is any
            number of images. An array alone serves a graph with one input. Where images cannot
            share a pass (`Graph.per_image`), inputs may also have the graph's own shapes.
        keep_all : bool
            Return every activation, not only the outputs.
        rounded : mapping of str to array, optional
            What others found for tensors, in the shapes of these inputs. Where floats are quantized
            within the network, theirs is taken if it is nowhere more than a step away: floats are
            not reproduced to the bit, and a tie may fall either way.

        Returns
        -------
        dict of str to array
            By tensor name, (N, ...) each; of the graph's own shapes where its inputs were.

        Raises
        ------
        InputError
            An input is missing, unknown, or of the wrong dtype or shape.
        ModelError
            A sum of products passes 32 bits.
        """
        given = self._named(inputs)
        theirs = {name: array for name, array in (rounded or {}).items() if name in self._roundings}
        if not self.graph.per_image:
            parts, stacked = split_images(
                {name: self.graph.tensors[name].shape for name in given}, given
            )
            return gather_images(
                [self._run_some(part, keep_all, theirs) for part in parts], stacked
            )
        self._check_images(given)
        images = next(iter(given.values())).shape[0]
        step = self._images_at_once
        parts = [
            self._run_some(
                {k: v[i : i + step] for k, v in given.items()},
                keep_all,
                {k: v[i : i + step] for k, v in theirs.items()},
            )
            for i in range(0, images, step)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _run_some(
        self, given: dict[str, Array], keep_all: bool, theirs: Mapping[str, Array]
    ) -> dict[str, Array]:
        tensors = self.graph.tensors
        values = dict(given)
        for tensor in tensors.values():
            if tensor.data is not None:
                values[tensor.name] = tensor.data
        for node in self.graph.nodes:
            operands = [Value(tensors[name], values[name]) for name in node.inputs]
            output = self.graph.output_tensor(node)
            result = OPERATORS[node.op](node, operands, output)
            result = result if output.shape else result.reshape(())
            values[output.name] = _settled(result, theirs.get(output.name))
            if not keep_all:
                self._forget(values, node.name, node.inputs)
        kept = self.graph.outputs
        if keep_all:
            kept = tuple(n for n, t in tensors.items() if not t.is_constant)
        return {name: values[name] for name in kept}

    def _forget(self, values: dict[str, Array], node: str, names: tuple[str, ...]) -> None:
        for name in set(names) - set(self.graph.outputs):
            if self.graph.consumers(name)[-1].name == node:
                del values[name]

    def _named(self, inputs: Array | Mapping[str, Array]) -> dict[str, Array]:
        given = arrays_by_name(self.graph.name, self.graph.inputs, inputs)
        for name, array in given.items():
            dtype = self.graph.tensors[name].dtype
            if array.dtype != dtype:
                raise InputError(f"Input {name!r} must be {dtype}, not {array.dtype}. Convert it.")
        return given

    def _check_images(self, given: Mapping[str, Array]) -> None:
        for name, array in given.items():
            tensor = self.graph.tensors[name]
            rest = tensor.shape[1:]
            if array.shape[1:] != rest or not array.size:
                raise InputError(
                    f"Input {name!r} must be {tensor.dtype} of shape (N, "
                    f"{', '.join(map(str, rest))}) with N at least 1, not {array.dtype} of shape "
                    f"{array.shape}. Convert it."
                )
        if len({array.shape[0] for array in given.values()}) > 1:
            counts = {name: array.shape[0] for name, array in given.items()}
            raise InputError(
                f"Every input must hold the same number of images, not {counts}. Trim them."
            )

    def _widest_bytes(self) -> int:
        """Bytes an image of the largest activation or of the patches a convolution gathers."""
        tensors = self.graph.tensors
        sizes = [t.size for t in tensors.values() if not t.is_constant]
        for node in self.graph.nodes:
            if node.op == "conv2d":
                weight, output = tensors[node.inputs[1]], self.graph.output_tensor(node)
                sizes.append(weight.size // weight.shape[0] * output.size // output.shape[-1])
        return 8 * max(sizes)


def _settled(ours: Array, theirs: Array | None) -> Array:
    """Return what others rounded where it is at most a step from ours."""
    if theirs is None or theirs.shape != ours.shape:
        return ours
    apart = np.abs(theirs.astype(np.int64) - ours)
    return theirs if apart.max(initial=0) <= 1 else ours
