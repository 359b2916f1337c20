"""Post-training quantization: a float network and a few images become an int8 network."""

from __future__ import annotations

from .integer import clip_levels
from .pipeline import Quantized, quantize
from .ranges import Range
from .report import LayerNoise
from .samples import Preprocessing, SampleSet, read_samples

__all__ = [
    "LayerNoise",
    "Preprocessing",
    "Quantized",
    "Range",
    "SampleSet",
    "clip_levels",
    "quantize",
    "read_samples",
]
