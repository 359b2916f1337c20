"""MLPerf Tiny's ResNet-8, quantized by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.calibrate import CalibrationDataReader

from vdla.compiler.graph import import_tflite
from vdla.compiler.onnx import export_onnx

__all__ = ["quantized_resnet8"]


class _Images(CalibrationDataReader):
    def __init__(self, name: str, images: np.ndarray) -> None:
        self._left = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def quantized_resnet8(
    shared_data: Path, folder: Path, form: QuantFormat
) -> tuple[Path, np.ndarray, np.ndarray]:
    """Return where the network was written, 500 images as it takes them, and their classes."""
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    model = export_onnx(import_tflite(shared_data / "mlperf_tiny" / "resnet8_float.tflite"))
    onnx.save(model, folder / "float.onnx")
    session = onnxruntime.InferenceSession(folder / "float.onnx")
    (source,) = session.get_inputs()
    images = data["images"].astype(np.float32)
    if tuple(source.shape[1:]) == (3, 32, 32):
        images = images.transpose(0, 3, 1, 2)
    quantize_static(
        folder / "float.onnx",
        folder / "int8.onnx",
        _Images(source.name, images[::5]),
        quant_format=form,
        per_channel=True,
        # Without VNNI onnxruntime's sums of 8-bit products saturate; 7 bits of weights do not.
        reduce_range=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    return folder / "int8.onnx", images, data["labels"]
