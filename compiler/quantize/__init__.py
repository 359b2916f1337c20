"""Post-training quantization: a float network and a few images become an int8 network."""

from __future__ import annotations

from .pipeline import Quantized, quantize
from .report import LayerNoise
from .samples import Preprocessing, read_samples

__all__ = ["LayerNoise", "Preprocessing", "Quantized", "quantize", "read_samples"]
