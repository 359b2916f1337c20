"""Built-in networks: true topologies, weights from a seed, no file needed."""

from __future__ import annotations

from .images import sample_image
from .mobilenet import mobilenet_v1, mobilenet_v2
from .names import BUILT_IN, built_in
from .resnet import resnet18, resnet34, resnet50

__all__ = [
    "BUILT_IN",
    "built_in",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet18",
    "resnet34",
    "resnet50",
    "sample_image",
]
