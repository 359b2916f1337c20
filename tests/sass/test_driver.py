"""The CUDA device through NVIDIA's own binding, over a library that stands for the driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from vdla.runtime.cuda import INSTALL

pytestmark = pytest.mark.skipif(
    not find_spec("cuda"), reason=f"no cuda-bindings; install with: {INSTALL}"
)
PROGRAM = """
import numpy as np
from vdla.compiler.gpu.code import kernel_code
from vdla.compiler.targets.gpu import build_kernel
from vdla.compiler.te import compute, create_schedule, placeholder
from vdla.runtime.cuda import CudaDevice

a, b = (placeholder((6,), "float32", name) for name in "ab")
out = compute((6,), lambda i: a[i] + b[i], "out")
s = create_schedule(out)
s[out].bind(s[out].axis[0], "threadIdx.x")
code = kernel_code(build_kernel("added", s, [a, b, out]), "ptx")
device = CudaDevice()
print(device.name, device.room, len(code.ptx))
run = device.load(code)
x, y = np.arange(12, dtype=np.float32).reshape(2, 6)
print(run(x, y)[0].tolist())
memories = [device.copied(x), device.copied(y), device.memory(24)]
again = device.recorded(lambda: run.enqueue(memories))
print(device.seconds(again, 2))
"""


def test_the_binding_is_called_as_it_takes_it(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    source, library = Path(__file__).with_name("driver.cpp"), tmp_path / "libcuda.so.1"
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, str(source), "-o", str(library), "-ldl"], check=True)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    name, sums, seconds = ended.stdout.splitlines()
    title, _, size = name.rpartition(" ")
    assert title == "Stand-in (CUDA, sm_90) (1024, (1024, 1024, 64))"
    assert sums == "[6.0, 8.0, 10.0, 12.0, 14.0, 16.0]"
    assert float(seconds) == pytest.approx(8e-3 / 2)
    launch = "launch 1 1 1 of 6 1 1, 0 bytes, no more"
    assert ended.stderr.splitlines() == [
        "stream of flags 1",
        f"image of {size} bytes with .visible",
        "function added_kernel",
        *["allocate 24"] * 3,
        launch,
        *["free"] * 3,
        *["allocate 24"] * 3,
        "capture in mode 1",
        launch,
        *["graph"] * 2,
    ]
