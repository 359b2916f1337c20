"""The example of docs/gpu.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.runtime.opencl import OpenClDevice

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gpu.md"


def test_the_example_computes_what_numpy_does(
    pocl: OpenClDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, Any] = {}
    exec(compile("\n".join(code), str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert printed.count("barrier(CLK_LOCAL_MEM_FENCE);") == 2
    assert printed.count("__syncthreads();") == 2
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(names[name].shape).astype(np.float32) for name in "ab")
    (found,) = pocl.build(names["kernel"])(a, b)
    np.testing.assert_array_equal(found, (a[:, :, None] * b[None]).max(1))
