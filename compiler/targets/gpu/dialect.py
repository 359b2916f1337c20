"""What differs between the languages that kernels are written in; all else is C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CUDA", "DIALECTS", "OPENCL", "Dialect"]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A language.

    Attributes
    ----------
    name : str
    kernel : str
        What stands before a kernel's name; ``{x}``, ``{y}``, ``{z}`` and ``{threads}`` are the
        threads of a block.
    memory, shared : str
        What stands before an array in memory, or one that a block shares.
    restrict : str
        The promise that nothing else points into an array.
    block, thread : str
        A thread's place along ``{axis}``, x, y or z, which is ``{number}``.
    barrier : str
        The statement at which threads wait for each other, shared memory being written.
    helper : str
        What stands before a function that a kernel calls.
    single : str
        What follows the name of a function of floats in single precision.
    """

    name: str
    kernel: str
    memory: str
    shared: str
    restrict: str
    block: str
    thread: str
    barrier: str
    helper: str
    single: str


OPENCL = Dialect(
    name="OpenCL C",
    kernel="__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))\nvoid",
    memory="__global ",
    shared="__local ",
    restrict="restrict",
    block="get_group_id({number})",
    thread="get_local_id({number})",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    helper="static inline ",
    single="",
)
CUDA = Dialect(
    name="CUDA C",
    kernel='extern "C" __global__ __launch_bounds__({threads})\nvoid',
    memory="",
    shared="__shared__ ",
    restrict="__restrict__",
    block="blockIdx.{axis}",
    thread="threadIdx.{axis}",
    barrier="__syncthreads();",
    helper="__device__ static inline ",
    single="f",
)
DIALECTS: Mapping[str, Dialect] = {"opencl": OPENCL, "cuda": CUDA}
"""By the name that a user gives."""
