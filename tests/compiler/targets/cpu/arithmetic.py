"""Libraries of single operations that some processor has no instruction for."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.ir as ll

from tests.compiler.targets.cpu.arithmetic_check import COUNT
from tests.compiler.targets.cpu.handmade import KERNEL, counted, i64
from vdla.abi import Argument
from vdla.compiler.targets.cpu import Target, link
from vdla.compiler.targets.cpu.kernel import optimize
from vdla.compiler.targets.cpu.library import complete
from vdla.compiler.targets.cpu.types import I32, POINTER, element_type

INTEGERS = ("int32", "uint32", "int64", "uint64")
LANES = 8


def binary(module: ll.Module, operation: str, dtype: str) -> Any:
    signed = "s" if dtype.startswith("i") else "u"
    method = {"div": f"{signed}div", "rem": f"{signed}rem"}[operation]
    kinds = [element_type(dtype)] * 3
    return _kernel(module, f"{operation}_{dtype}", kinds, lambda b, x, y: getattr(b, method)(x, y))


def convert(module: ll.Module, source: str, target: str) -> Any:
    to_integer = source.startswith("float")
    whole = target if to_integer else source
    letter = "u" if whole.startswith("u") else "s"
    method = f"fpto{letter}i" if to_integer else f"{letter}itofp"
    kinds = [element_type(source), element_type(target)]
    name = f"convert_{source}_{target}"
    return _kernel(module, name, kinds, lambda b, x: getattr(b, method)(x, kinds[1]))


def rounding(module: ll.Module, operation: str, dtype: str, lanes: int) -> Any:
    scalar = element_type(dtype)
    kind = scalar if lanes == 1 else ll.VectorType(scalar, lanes)
    suffix = ("" if lanes == 1 else f"v{lanes}") + f"f{dtype[5:]}"
    name = f"llvm.{operation}.{suffix}"
    function = module.globals.get(name) or ll.Function(module, ll.FunctionType(kind, [kind]), name)
    called = f"{operation}_{dtype}" + ("" if lanes == 1 else f"_{lanes}")
    return _kernel(module, called, [kind, kind], lambda b, x: b.call(function, [x]))


def _kernel(module: ll.Module, name: str, kinds: list[Any], emit: Any) -> str:
    """Add a function that applies an operation to COUNT elements; return its name."""
    function = ll.Function(module, KERNEL, name)
    builder = ll.IRBuilder(function.append_basic_block())
    arrays = [
        builder.load(
            builder.gep(function.args[0], [ll.Constant(I32, k)], source_etype=POINTER), typ=POINTER
        )
        for k in range(len(kinds))
    ]
    lanes = kinds[0].count if isinstance(kinds[0], ll.VectorType) else 1

    def one(index: Any) -> None:
        places = [
            builder.gep(array, [index], source_etype=kind)
            for array, kind in zip(arrays, kinds, strict=True)
        ]
        values = [
            builder.load(place, typ=kind, align=4)
            for place, kind in zip(places[:-1], kinds[:-1], strict=True)
        ]
        builder.store(emit(builder, *values), places[-1], align=4)

    counted(builder, i64(0), i64(COUNT // lanes), one)
    builder.ret_void()
    return name


@functools.cache
def arithmetic_library(level: str) -> bytes:
    """Return a shared object; the names of its functions say what they do."""
    module = ll.Module("arithmetic")
    dtypes: dict[str, list[str]] = {}
    for dtype in INTEGERS:
        for operation in ("div", "rem"):
            dtypes[binary(module, operation, dtype)] = [dtype] * 3
        for real in ("float32", "float64"):
            dtypes[convert(module, dtype, real)] = [dtype, real]
            if dtype.endswith("64"):
                dtypes[convert(module, real, dtype)] = [real, dtype]
    for operation in ("floor", "ceil", "rint", "trunc"):
        for dtype in ("float32", "float64"):
            for lanes in (1, LANES):
                dtypes[rounding(module, operation, dtype, lanes)] = [dtype] * 2
    functions = {
        name: [
            Argument(dtype=dtype, shape=(COUNT,), written=k == len(each) - 1)
            for k, dtype in enumerate(each)
        ]
        for name, each in dtypes.items()
    }
    target = Target.named(level)
    complete(module, target, functions)
    parsed, machine = optimize(module, target)
    return link(machine.emit_object(parsed), target)
