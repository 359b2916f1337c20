"""What every library holds beside its kernels: the pool, and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import llvmlite.ir as ll

from vdla.abi import LIBRARY_SYMBOL, POOL_VERSION, Argument, LibraryInfo

from .fallbacks import add_fallbacks
from .pool import add_pool
from .target import Target
from .types import I8

__all__ = ["complete"]


def complete(
    module: ll.Module, target: Target, functions: Mapping[str, Sequence[Argument]]
) -> None:
    """Add to a module of kernels what makes it a library; call it when all kernels are in it.

    It adds the thread pool that parallel loops call, what the processor has no instruction for,
    and a text that the loader reads. No function can be unwound, which no code here asks for and
    32-bit ARM would need a library for.

    Parameters
    ----------
    module : llvmlite.ir.Module
        Changed in place.
    target : Target
    functions : mapping of str to sequence of Argument
        What callers may call, and with what.
    """
    add_pool(module, target)
    info = LibraryInfo(
        architecture=target.architecture,
        level=target.level,
        requires=target.requires,
        pool=POOL_VERSION,
        functions={name: tuple(arguments) for name, arguments in functions.items()},
    )
    text = info.to_json().encode() + b"\0"
    held = ll.GlobalVariable(module, ll.ArrayType(I8, len(text)), LIBRARY_SYMBOL)
    held.initializer = ll.Constant(held.value_type, bytearray(text))
    held.global_constant = True
    add_fallbacks(module, target)
    for function in module.functions:
        if not function.is_declaration:
            function.attributes.add("nounwind")
