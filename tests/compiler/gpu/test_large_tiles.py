"""Large tiles under Oclgrind, on shapes so small that no default would choose them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.gpu.cases import SAME, Case, convolution, matmul
from tests.compiler.targets.gpu.race_checker import watched
from vdla.compiler.gpu import operator_kernel


@pytest.mark.parametrize(
    ("case", "block"),
    [
        (matmul((250, 20), (20, 124)), 128),
        (convolution((1, 9, 18, 12), 68, (3, 3), padding=SAME), 128),
    ],
    ids=["matmul", "conv"],
)
def test_threads_of_large_tiles_never_come_together(
    case: Case, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("product", "convolution_tiles"):
        monkeypatch.setattr(f"vdla.compiler.gpu.{module}.ENOUGH_BLOCKS", 1)
    made = operator_kernel(case.graph, case.graph.nodes[0])
    assert np.prod(made.kernel.block) == block
    report = watched(made.kernel, *case.inputs, *made.constants.values(), folder=tmp_path)
    assert report.text == ""
    np.testing.assert_allclose(report.output, case.exact, rtol=1e-5, atol=1e-4)
