"""Models that PyTorch exported, as onnx ships them with their inputs and outputs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, version_converter

from tests.compiler.onnx.running import DATA, run_on_host
from vdla.compiler.graph import Graph
from vdla.compiler.onnx import import_onnx
from vdla.errors import ModelError

# They are of opset 6; the converter brings them to an opset with numpy's broadcasting, and leaves
# these with what opset 6 meant.
OLD_MEANING = {"test_PReLU_1d_multiparam", "test_PReLU_2d_multiparam", "test_PReLU_3d_multiparam"}
FOLDERS = sorted(
    folder
    for kind in ("converted", "operator")
    for folder in (DATA / f"pytorch-{kind}").iterdir()
    if folder.name not in OLD_MEANING
)


def read(folder: Path) -> Graph | None:
    """Return the graph; None where an operator is not taken, or has three dimensions."""
    model = onnx.load(folder / "model.onnx")
    if model.opset_import[0].version < 7:
        model = version_converter.convert_version(model, 8)
    try:
        return import_onnx(model)
    except ModelError as error:
        if re.search("must have 1 or 2 dimensions|must be one that is taken", str(error)):
            return None
        raise


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_model_gives_its_outputs(folder: Path) -> None:
    graph = read(folder)
    if graph is None:
        return
    for data in sorted(folder.glob("test_data_set_*")):
        inputs, outputs = (
            [
                numpy_helper.to_array(onnx.load_tensor(str(path)))
                for path in sorted(data.glob(f"{end}put_*.pb"))
            ]
            for end in ("in", "out")
        )
        found = run_on_host(graph, dict(zip(graph.inputs, inputs, strict=True)))
        for name, expected in zip(graph.outputs, outputs, strict=True):
            assert found[name].dtype == expected.dtype
            np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-5)


def test_most_are_taken() -> None:
    assert sum(read(folder) is not None for folder in FOLDERS) == 90
