"""The networks that need no file, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vdla.compiler.graph import Graph
from vdla.errors import ModelError

from .digits import digits
from .mobilenet import mobilenet_v1, mobilenet_v2
from .resnet import resnet18, resnet34, resnet50

__all__ = ["BUILT_IN", "built_in"]

BUILT_IN: Mapping[str, Callable[[], Graph]] = {
    "digits": digits,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
}
"""Makers of the quantized networks."""


def built_in(name: str) -> Graph:
    """Return a quantized network.

    Raises
    ------
    ModelError
        There is none of the name.
    """
    if name not in BUILT_IN:
        raise ModelError(
            f"A built-in network must be one of {', '.join(BUILT_IN)}, not {name!r}. "
            "Name one of those, or a file."
        )
    return BUILT_IN[name]()
