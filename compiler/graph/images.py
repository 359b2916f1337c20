"""Where images may share a pass: which operators leave axis 0 alone.

A network is written for one image, axis 0 of every activation being 1. Where every operator keeps
it an image axis, kernels take n images on it; where one does not (it transposes axis 0, reduces
over it, multiplies two activations' rows), images run one at a time. Each rule here is asked only
when axis 0 of every activation around the operator is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .tensor import Tensor

__all__ = [
    "beyond_axis",
    "broadcasts",
    "first_alone",
    "gathers",
    "last_axis",
    "multiplies",
    "reduces",
    "shares_pass",
    "transposes",
]

Attrs = Mapping[str, Any]


def shares_pass(rule: Any, inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """Whether n images may run through an operator at once, by its rule.

    Parameters
    ----------
    rule : callable
        `OpSpec.per_image` of the operator.
    """
    activations = [t for t in inputs if not t.is_constant]
    image_axes = all(t.shape[:1] == (1,) for t in (*activations, output))
    return bool(activations) and image_axes and bool(rule(inputs, output, attrs))


def first_alone(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """Weights and biases are constant."""
    return not inputs[0].is_constant and all(t.is_constant for t in inputs[1:])


def broadcasts(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """Activations have the output's rank, so that their axes 0 meet."""
    return all(t.is_constant or len(t.shape) == len(output.shape) for t in inputs)


def beyond_axis(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """The one axis that is worked along is not 0. Constants are repeated for each image."""
    return bool(attrs["axis"] != 0)


def last_axis(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """The last axis is not axis 0."""
    return len(output.shape) > 1


def reduces(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """Nothing is added up over images."""
    return 0 not in attrs["axes"]


def transposes(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """Axis 0 stays where it is."""
    return bool(attrs["perm"][0] == 0)


def gathers(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """Images of constant indices, or constant rows by images of indices."""
    data, indices = inputs
    if indices.is_constant:
        return bool(attrs["axis"] != 0)
    return data.is_constant and attrs["axis"] == 0


def multiplies(inputs: Sequence[Tensor], output: Tensor, attrs: Attrs) -> bool:
    """Axis 0 is a batch of matrices, or of rows by a constant matrix."""
    lhs, rhs = inputs
    if rhs.is_constant and len(lhs.shape) == 2:
        return len(rhs.shape) <= 2
    rank = max(len(lhs.shape), len(rhs.shape))
    return rank > 2 and all(t.is_constant or len(t.shape) == rank for t in inputs)
