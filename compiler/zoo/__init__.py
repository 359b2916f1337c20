"""Built-in networks: one that is trained, and true topologies with weights from a seed."""

from __future__ import annotations

from .digits import digits, digits_held_out
from .images import sample_image
from .mobilenet import mobilenet_v1, mobilenet_v2
from .names import BUILT_IN, built_in
from .resnet import resnet18, resnet34, resnet50

__all__ = [
    "BUILT_IN",
    "built_in",
    "digits",
    "digits_held_out",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet18",
    "resnet34",
    "resnet50",
    "sample_image",
]
