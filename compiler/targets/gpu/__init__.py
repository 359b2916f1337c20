"""GPUs: schedules bound to blocks and threads become kernels, and those source.

`build_kernel` lowers a schedule to a `Kernel`, the program of one thread; `source_of` writes it in
OpenCL C, CUDA C or Metal.
"""

from __future__ import annotations

from .build import build_kernel
from .dialect import CUDA, DIALECTS, METAL, OPENCL, Dialect
from .kernel import Kernel, Parameter
from .source import entry_name, source_of

__all__ = [
    "CUDA",
    "DIALECTS",
    "METAL",
    "OPENCL",
    "Dialect",
    "Kernel",
    "Parameter",
    "build_kernel",
    "entry_name",
    "source_of",
]
