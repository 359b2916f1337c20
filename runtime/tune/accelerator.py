"""What candidates for the accelerator cost: cycles, with the values checked of those that lead."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.tune.kept import MOST_KEPT
from vdla.compiler.tune.space import Point
from vdla.errors import ProgramError
from vdla.module import Buffer
from vdla.runtime.blocked import pack, unpack

if TYPE_CHECKING:
    from vdla.compiler.ops import ConvTemplate
    from vdla.compiler.targets.vdla.build import Operator

__all__ = ["check_values", "cycles"]


def cycles(template: ConvTemplate, point: Point, to_beat: float) -> float:
    """Return a candidate's cycles on the cycle model, which computes no values by itself.

    Parameters
    ----------
    template : ConvTemplate
    point : mapping
    to_beat : float
        Of what is faster, the values are checked.

    Raises
    ------
    LoweringError
        The point cannot be lowered.
    ProgramError
        A value is wrong.
    """
    from vdla.sim import cycle

    operator = template.build(point)
    cost = cycle.time(operator.program, operator.memory({})).cycles
    if cost < to_beat:
        check_values(template, operator)
    return float(cost)


def check_values(template: ConvTemplate, operator: Operator) -> None:
    """Compare what a program computes of drawn inputs with the integer interpreter.

    Raises
    ------
    ProgramError
        A value differs.
    """
    from vdla.sim import functional

    inputs, expected = _example(template)
    memory = operator.memory({**template.constants, **inputs})
    functional.run(operator.program, memory)
    result = template.tensors.result
    data = operator.read(memory, result).view(np.uint8)
    found = unpack(
        data, _buffer(result), expected.shape, str(expected.dtype), images=expected.shape[0]
    )
    wrong = int(np.count_nonzero(found != expected))
    if wrong:
        raise ProgramError(
            f"a candidate's values must be the integer interpreter's, and {wrong:,} of "
            f"{expected.size:,} are not"
        )


@lru_cache(maxsize=MOST_KEPT)
def _example(template: ConvTemplate) -> tuple[dict[Any, NDArray[Any]], NDArray[Any]]:
    """Return drawn inputs, in blocks, and what the interpreter makes of them."""
    from vdla.compiler.reference import Interpreter

    graph, rng = template.graph, np.random.default_rng(0)
    given = {
        name: rng.integers(0, 256, graph.tensors[name].shape)
        .astype(np.uint8)
        .view(graph.tensors[name].dtype)
        for name in graph.inputs
    }
    blocked = {}
    for place, name in zip(template.inputs, graph.inputs, strict=True):
        packed = pack(_flat(given[name]), _buffer(place))
        blocked[place] = packed.view(np.int8).reshape(place.shape)
    (output,) = graph.outputs
    return blocked, _flat(Interpreter(graph).run(given)[output])


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    """Return images, or rows of channels."""
    return values if values.ndim == 4 else values.reshape(-1, values.shape[-1])


def _buffer(tensor: Any) -> Buffer:
    return Buffer(tensor.name, tensor.shape, 0)
