"""MLPerf Tiny's ResNet-8, quantized by onnxruntime and run by both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.calibrate import CalibrationDataReader

import vdla
from vdla.compiler.graph import import_tflite
from vdla.compiler.onnx import export_onnx


class Images(CalibrationDataReader):
    def __init__(self, name: str, images: np.ndarray) -> None:
        self._left = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


@pytest.mark.slow
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_both_choose_the_same_class(shared_data: Path, tmp_path: Path, form: QuantFormat) -> None:
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    model = export_onnx(import_tflite(shared_data / "mlperf_tiny" / "resnet8_float.tflite"))
    onnx.save(model, tmp_path / "float.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "float.onnx")
    (source,) = session.get_inputs()
    images = data["images"].astype(np.float32)
    if tuple(source.shape[1:]) == (3, 32, 32):
        images = images.transpose(0, 3, 1, 2)
    quantize_static(
        tmp_path / "float.onnx",
        tmp_path / "int8.onnx",
        Images(source.name, images[::5]),
        quant_format=form,
        per_channel=True,
        # Without VNNI onnxruntime's sums of 8-bit products saturate; 7 bits of weights do not.
        reduce_range=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    truth = onnxruntime.InferenceSession(tmp_path / "int8.onnx")
    want = np.concatenate([truth.run(None, {source.name: image[None]})[0] for image in images])

    network = vdla.compile(tmp_path / "int8.onnx")
    on_vdla = [layer.op for layer in network.module.layers if layer.device == "vdla"]
    assert on_vdla.count("conv2d") == 9
    run = network.run(images, device="functional")
    (got,) = run.outputs.values()
    same = (got.argmax(axis=1) == want.argmax(axis=1)).mean()
    assert same >= 0.99, same
    labels = data["labels"]
    assert (
        abs((got.argmax(axis=1) == labels).mean() - (want.argmax(axis=1) == labels).mean()) < 0.01
    )
