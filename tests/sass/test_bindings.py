"""NVRTC through NVIDIA's binding, as the CUDA device calls it, and a machine without a driver."""

from __future__ import annotations

import struct
from importlib.util import find_spec

import pytest

from tests.sass.test_kernels import ARCHITECTURES
from vdla.errors import DeviceError
from vdla.runtime.cuda import INSTALL, CudaDevice, CudaError, compile_source

pytestmark = pytest.mark.skipif(
    not find_spec("cuda"), reason=f"no cuda-bindings; install with: {INSTALL}"
)
ADDED = """
extern "C" __global__ void added(const float *a, float *out) {
    out[threadIdx.x] = a[threadIdx.x] + 1.0f;
}
"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_source_becomes_machine_code_of_the_architecture(architecture: int) -> None:
    cubin = compile_source(ADDED, architecture)
    assert cubin[:4] == b"\x7fELF"
    (flags,) = struct.unpack_from("<I", cubin, 48)
    assert architecture in (flags & 0xFF, flags >> 8 & 0xFF)  # where it stands depends on the ABI


def test_an_architecture_that_nvrtc_does_not_know_is_the_drivers_to_compile() -> None:
    text = compile_source(ADDED, 999).decode()
    assert ".target sm_121" in text
    assert ".visible .entry added(" in text


def test_source_that_does_not_compile() -> None:
    with pytest.raises(CudaError, match=r'kernel\.cu\(3\): error: identifier "b" is undefined'):
        compile_source(ADDED.replace("= a[", "= b["), 80)


def test_a_machine_without_a_driver() -> None:
    try:
        CudaDevice()
    except DeviceError as error:
        text = str(error)
    else:
        pytest.skip("there is a GPU")
    assert text.startswith("CUDA needs a GPU of NVIDIA's")
    assert "\n" not in text
