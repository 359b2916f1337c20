"""What NVIDIA's compiler makes of kernels in CUDA C, without a GPU: ``tox run -e sass``.

Its libraries take 318 MB and are no part of ``dev``: they have an environment of their own.
"""

from __future__ import annotations

import os

import pytest

from tests.sass.nvidia import INSTALL, Compiler, missing

# In CI a skip is a failure, and there the other environment runs these.
collect_ignore_glob = ["test_*.py"] if os.environ.get("CI") and missing() else []


@pytest.fixture(scope="session")
def nvidia(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """NVRTC and nvdisasm."""
    _need("libnvrtc.so.12", "nvdisasm")
    return Compiler(tmp_path_factory.mktemp("cubins"))


@pytest.fixture(scope="session")
def ptxas(nvidia: Compiler) -> Compiler:
    """The same, with the assembler of PTX."""
    _need("ptxas")
    return nvidia


def _need(*files: str) -> None:
    if lost := missing(*files):
        pytest.skip(f"no {' and no '.join(lost)}; install with: {INSTALL}")
