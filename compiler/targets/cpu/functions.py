"""Functions of an LLVM module that others call before, or without, a body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.ir as ll

__all__ = ["declared"]


def declared(module: ll.Module, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """Return the function of a name, declared where the module has none yet.

    Parameters
    ----------
    module : llvmlite.ir.Module
        Changed in place.
    name : str
    result, arguments : LLVM types
    """
    known = module.globals.get(name)
    return known or ll.Function(module, ll.FunctionType(result, list(arguments)), name)
