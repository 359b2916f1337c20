"""Kernels on an OpenCL device: what is returned, and what is said where something is missing."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vdla.compiler.gpu.code import kernel_code
from vdla.compiler.targets.gpu import Kernel, build_kernel
from vdla.compiler.te import compute, create_schedule, placeholder
from vdla.errors import DeviceError, InputError
from vdla.runtime.opencl import OpenClDevice


def added(size: int = 6) -> Kernel:
    a = placeholder((size,), "float32", "a")
    b = placeholder((size,), "float32", "b")
    out = compute((size,), lambda i: a[i] + b[i], "out")
    s = create_schedule(out)
    s[out].bind(s[out].axis[0], "threadIdx.x")
    return build_kernel("added", s, [a, b, out])


def test_a_kernel_is_called_with_arrays(pocl: OpenClDevice) -> None:
    run = pocl.build(added())
    a, b = np.arange(12, dtype=np.float32).reshape(2, 6)
    for k in range(3):
        (found,) = run(a * k, b)
        np.testing.assert_array_equal(found, a * k + b)
    (found,) = run(np.arange(12, dtype=np.float32)[::2], b)  # not contiguous
    np.testing.assert_array_equal(found, np.arange(0, 12, 2) + b)


def test_a_part_of_the_name_finds_a_device(pocl: OpenClDevice) -> None:
    assert "Portable Computing Language" in pocl.name
    assert OpenClDevice(pocl.name[:9].upper()).name.startswith(pocl.name[:9])


def test_a_name_that_no_device_has(pocl: OpenClDevice) -> None:
    with pytest.raises(
        DeviceError,
        match=r"An OpenCL device must be one of .*Portable Computing Language.*, and none is "
        r"called 'abacus': name a part of one of these\.",
    ):
        OpenClDevice("abacus")


def test_a_machine_without_pyopencl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(
        DeviceError,
        match=r"OpenCL needs the package pyopencl, and it cannot be imported \(.*\): "
        r"pip install 'vdla\[opencl\]'$",
    ):
        OpenClDevice()


def test_a_machine_without_a_platform(pocl: OpenClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> list[Any]:
        import pyopencl

        raise pyopencl.LogicError("clGetPlatformIDs", -1001)

    monkeypatch.setattr("pyopencl.get_platforms", none)
    with pytest.raises(
        DeviceError,
        match=r"OpenCL needs a device, and no platform offers one: install the driver of the GPU, "
        r"or PoCL, which runs kernels on the processor: pip install 'vdla\[opencl\]'$",
    ):
        OpenClDevice()


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ([np.zeros(6, np.float32)], r"added must be given 2 arrays \(a, b\), not 1\."),
        (
            [np.zeros(6, np.float32), np.zeros(5, np.float32)],
            r"b must be float32\[6\], not float32\[5\]\.",
        ),
        (
            [np.zeros(6), np.zeros(6, np.float32)],
            r"a must be float32\[6\], not float64\[6\]\.",
        ),
    ],
)
def test_arrays_of_another_kind(arrays: list[Any], text: str, pocl: OpenClDevice) -> None:
    with pytest.raises(InputError, match=text):
        pocl.build(added())(*arrays)


def test_source_that_the_compiler_refuses(pocl: OpenClDevice) -> None:
    code = kernel_code(added(), "opencl")
    with pytest.raises(
        DeviceError, match=r"must be what the device's compiler takes, and .* refuses added: "
    ):
        pocl.load(replace(code, source="__kernel void f("))


def test_a_block_that_the_device_has_no_room_for(
    pocl: OpenClDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small:
        max_work_group_size = 4
        max_work_item_sizes = (4, 4, 4)

    monkeypatch.setattr(pocl, "_device", Small())
    with pytest.raises(
        DeviceError,
        match=r"A block must have at most 4 threads, 4 x 4 x 4, on .*, and added has 6 x 1 x 1: "
        r"choose a smaller tile\.",
    ):
        pocl.build(added())
