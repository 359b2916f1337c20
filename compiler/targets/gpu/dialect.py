"""What differs between the languages that kernels are written in; all else is C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vdla.compiler.te.ranges import dtype_range
from vdla.errors import LoweringError

__all__ = ["CUDA", "C_TYPES", "DIALECTS", "HALF", "METAL", "OPENCL", "Dialect", "constant_text"]

HALF = "float16"
"""A dtype of arrays; its elements are computed with as floats of 32 bits."""
C_TYPES: Mapping[str, str] = {
    "float32": "float",
    HALF: "float",
    "bool": "unsigned char",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "{long}",
    "uint64": "unsigned {long}",
    "float64": "double",
}
"""The dtypes that kernels compute with so far, and what C calls a value of each."""

ARRAY = "{space}{type} {name}[{count}]{aligned};"
"""The line that declares an array."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A language.

    Attributes
    ----------
    name : str
    head : str
        What a source begins with.
    kernel : str
        What stands before a kernel's name; ``{x}``, ``{y}``, ``{z}`` and ``{threads}`` are the
        threads of a block.
    memory, shared : str
        What stands before an array in memory, or one that a block shares.
    restrict : str
        The promise that nothing else points into an array.
    parameter : str
        What follows the name of a parameter, which is ``{number}``.
    places : tuple of str
        Parameters by which a thread is told its place.
    block, thread : str
        A thread's place along ``{axis}``, x, y or z, which is ``{number}``.
    barrier : str
        The statement at which threads wait for each other, shared memory being written.
    table : str
        What stands before an array of integers that every kernel of a source reads.
    helper : str
        What stands before a function that a kernel calls.
    pointed : str
        What stands before what a pointer into an array that a block shares points to.
    vector : str
        A vector of the type ``{type}``, made of ``{lanes}``.
    single : str
        What follows the name of a function of floats in single precision.
    infinity, not_a_number : str
        The two floats that have no digits.
    lacks : tuple of str
        Functions of floats, and dtypes, that it does not have.
    long : str
        The integer of 64 bits.
    half : str
        What an array of half floats is made of.
    half_array : str
        The lines that declare one: ``{space}``, ``{type}``, ``{name}``, ``{count}`` elements, and
        ``{aligned}`` for what aligns it.
    half_loaded, half_stored : str
        Element ``{index}`` of array ``{name}`` as a float, and the statement that rounds the float
        ``{value}`` to it.
    half_moves : bool
        Whether elements can be assigned to each other as they are.
    functions : mapping of str to str
        Functions that kernels in this language alone call, by name, each after those it calls.
    """

    name: str
    head: str = ""
    kernel: str
    memory: str
    shared: str
    restrict: str
    parameter: str = ""
    places: tuple[str, ...] = ()
    infinity: str = "INFINITY"
    not_a_number: str = "NAN"
    lacks: tuple[str, ...] = ()
    long: str = "long"
    block: str
    thread: str
    barrier: str
    table: str
    helper: str
    single: str
    pointed: str
    vector: str
    half: str
    half_array: str = ARRAY
    half_loaded: str
    half_stored: str
    half_moves: bool = True
    functions: Mapping[str, str] = field(default_factory=dict)

    def array_type(self, dtype: str) -> str:
        """Return what the language calls an element of an array.

        Raises
        ------
        LoweringError
            It has none of that dtype.
        """
        return self.half if dtype == HALF else self.type_of(dtype)

    def type_of(self, dtype: str) -> str:
        """Return what the language calls a value of a dtype, which of half floats is a float.

        Raises
        ------
        LoweringError
            It has none of that dtype.
        """
        if dtype in self.lacks:
            raise LoweringError(
                f"A kernel computes with what its language has, and {self.name} has no {dtype}: "
                "convert it before, or leave the operator on the processor."
            )
        return C_TYPES[dtype].format(long=self.long)


def constant_text(value: int, dtype: str, dialect: Dialect) -> str:
    """Return an integer as a literal whose type in C is that of its dtype, or int."""
    wide = "64" in dtype
    suffix = ("u" if dtype in ("uint32", "uint64") else "") + (
        "".join(word[0].upper() for word in dialect.long.split()) if wide else ""
    )
    if value == dtype_range(dtype)[0] and dtype in ("int32", "int64"):
        return f"(-{-value - 1}{suffix} - 1)"  # C reads a number first, and then its sign
    return f"{value}{suffix}"


OPENCL = Dialect(
    name="OpenCL C",
    kernel="__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))\nvoid",
    memory="__global ",
    shared="__local ",
    restrict="restrict",
    block="get_group_id({number})",
    thread="get_local_id({number})",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    table="__constant ",
    helper="static inline ",
    single="",
    pointed="__local ",
    vector="({type})({lanes})",
    # Without cl_khr_fp16, which PoCL lacks on most processors, a half can only be pointed at.
    half="half",
    half_array="{space}ushort {name}_bits[{count}]{aligned};\n"
    "{space}half *const {name} = ({space}half *){name}_bits;",
    half_loaded="vload_half({index}, {name})",
    half_stored="vstore_half_rte({value}, {index}, {name});",
    half_moves=False,
    functions={
        "rounded": """\
{helper}float rounded(float value)
{{
    ushort bits;
    vstore_half_rte(value, 0, (half *)&bits);
    return vload_half(0, (const half *)&bits);
}}"""
    },
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
    table="__constant__ ",
    helper="__device__ static inline ",
    single="f",
    long="long long",
    pointed="",
    vector="make_{type}({lanes})",
    # NVRTC has no math.h, which defines the two names.
    infinity="__int_as_float(0x7f800000)",
    not_a_number="__int_as_float(0x7fc00000)",
    # The type half is in cuda_fp16.h, which comes with the toolkit and not with NVRTC.
    half="unsigned short",
    half_loaded="half_to_float({name}[{index}])",
    half_stored="{name}[{index}] = float_to_half({value});",
    functions={
        "half_to_float": """\
{helper}float half_to_float(unsigned short bits)
{{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}}""",
        "float_to_half": """\
{helper}unsigned short float_to_half(float value)
{{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}}""",
        "rounded": """\
{helper}float rounded(float value) {{ return half_to_float(float_to_half(value)); }}""",
    },
)
METAL = Dialect(
    name="Metal",
    head="#include <metal_stdlib>\nusing namespace metal;\n",
    kernel="[[max_total_threads_per_threadgroup({threads})]]\nkernel void",
    memory="device ",
    shared="threadgroup ",
    restrict="__restrict",
    parameter=" [[buffer({number})]]",
    places=(
        "uint3 block_place [[threadgroup_position_in_grid]]",
        "uint3 thread_place [[thread_position_in_threadgroup]]",
    ),
    block="block_place.{axis}",
    thread="thread_place.{axis}",
    barrier="threadgroup_barrier(mem_flags::mem_threadgroup);",
    table="constant ",
    helper="static inline ",
    single="",
    pointed="threadgroup ",
    vector="{type}({lanes})",
    lacks=("erf", "float64"),
    half="half",
    half_loaded="(float){name}[{index}]",
    half_stored="{name}[{index}] = (half)({value});",
    functions={"rounded": "{helper}float rounded(float value) {{ return (float)(half)value; }}"},
)
DIALECTS: Mapping[str, Dialect] = {"cuda": CUDA, "metal": METAL, "opencl": OPENCL}
"""By the name that a user gives."""
