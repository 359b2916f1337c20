"""MLPerf Tiny's ResNet-8, quantized by onnxruntime and run by both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnxruntime.quantization import QuantFormat

import vdla
from tests.compiler.onnx.resnet8 import quantized_resnet8


@pytest.mark.slow
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_both_choose_the_same_class(shared_data: Path, tmp_path: Path, form: QuantFormat) -> None:
    path, images, labels = quantized_resnet8(shared_data, tmp_path, form)
    truth = onnxruntime.InferenceSession(path)
    (source,) = truth.get_inputs()
    want = np.concatenate([truth.run(None, {source.name: image[None]})[0] for image in images])

    network = vdla.compile(path)
    on_vdla = [layer.op for layer in network.module.layers if layer.device == "vdla"]
    assert on_vdla.count("conv2d") == 9
    run = network.run(images, device="functional")
    (got,) = run.outputs.values()
    same = (got.argmax(axis=1) == want.argmax(axis=1)).mean()
    assert same >= 0.99, same
    assert (
        abs((got.argmax(axis=1) == labels).mean() - (want.argmax(axis=1) == labels).mean()) < 0.01
    )
