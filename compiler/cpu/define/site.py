"""What a definition gets: a node, the tensor expressions it reads, and its constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.graph import Graph, Node, Tensor
from vdla.errors import LoweringError

__all__ = ["Array", "Constants", "Site", "wide_float"]

Array = npt.NDArray[Any]


class Constants(Mapping[te.Tensor, Array]):
    """Placeholders, and what to bind to each; an array may be made only when it is asked for."""

    def __init__(self) -> None:
        self._values: dict[te.Tensor, Array | Callable[[], Array]] = {}

    def __getitem__(self, tensor: te.Tensor) -> Array:
        value = self._values[tensor]
        if callable(value):
            value = self._values[tensor] = value()
        return value

    def __iter__(self) -> Iterator[te.Tensor]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def bind(self, tensor: te.Tensor, value: Array | Callable[[], Array]) -> None:
        """Bind a placeholder to an array, or to what makes it."""
        self._values[tensor] = value

    def take(self, others: Constants) -> None:
        """Take over what others hold."""
        self._values.update(others._values)


@dataclass(eq=False)
class Site:
    """A node to be defined.

    Attributes
    ----------
    graph : Graph
    node : Node
    operands : sequence of te.Tensor
        One for each input that is computed, in order.
    constants : Constants
        Placeholders that the definition made, and what to bind to each.
    """

    graph: Graph
    node: Node
    operands: Sequence[te.Tensor]
    constants: Constants = field(default_factory=Constants)
    _given: dict[int, te.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        moving = [k for k, tensor in enumerate(self.tensors) if not tensor.is_constant]
        if len(moving) != len(self.operands):
            raise LoweringError(
                f"A definition needs a tensor expression for each of {len(moving)} computed inputs "
                f"of {self.node.name!r}, not {len(self.operands)}."
            )
        for k, operand in zip(moving, self.operands, strict=True):
            tensor = self.tensors[k]
            if (operand.shape, operand.dtype) != (tensor.shape, str(tensor.dtype)):
                raise LoweringError(
                    f"{self.node.name!r} reads {tensor.dtype}{list(tensor.shape)} as input {k}, "
                    f"not {operand!r}."
                )
            self._given[k] = operand

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """The graph's tensors that the node reads."""
        return self.graph.input_tensors(self.node)

    @property
    def output(self) -> Tensor:
        """The graph's tensor that the node computes."""
        return self.graph.output_tensor(self.node)

    @property
    def dtype(self) -> str:
        """Dtype of the output."""
        return str(self.output.dtype)

    @property
    def attrs(self) -> Any:
        """Attributes of the node."""
        return self.node.attrs

    @property
    def quantized(self) -> bool:
        """Whether integers that stand for real numbers are computed with."""
        both = (self.tensors[0], self.output)
        return all(t.dtype.kind in "iu" for t in both) and any(t.quant for t in both)

    def input(self, k: int) -> te.Tensor:
        """Return the tensor expression of an input; a constant's is bound to its value."""
        if k not in self._given:
            tensor = self.tensors[k]
            assert tensor.data is not None
            self._given[k] = self.constant(tensor.data, tensor.name)
        return self._given[k]

    def value(self, k: int) -> Array | None:
        """Return an input's value where it is constant."""
        return self.tensors[k].data if k < len(self.tensors) else None

    def constant(self, array: Array, name: str) -> te.Tensor:
        """Return a placeholder that is bound to an array."""
        made = te.placeholder(array.shape, str(array.dtype), name)
        self.constants.bind(made, np.ascontiguousarray(array).reshape(array.shape))
        return made

    def made_later(
        self, shape: tuple[int, ...], dtype: str, name: str, make: Callable[[], Array]
    ) -> te.Tensor:
        """Return a placeholder that is bound to an array, which is made when it is asked for."""
        made = te.placeholder(shape, dtype, name)
        self.constants.bind(made, make)
        return made

    def named(self, part: str) -> str:
        """Return the name of a part of the definition."""
        return f"{self.output.name}.{part}"

    def compute(self, shape: Sequence[int], function: Any, part: str = "") -> te.Tensor:
        """Return a tensor of the definition; the last one has the output's name."""
        return te.compute(shape, function, self.named(part) if part else self.output.name)


def wide_float(dtype: str) -> str:
    """Return the type that floats are computed in: half floats in single precision."""
    return "float32" if dtype == "float16" else dtype
