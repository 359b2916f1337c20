"""Kernels: schedules as functions of a shared object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ll

from vdla.compiler.ir.printer import stmt_text
from vdla.compiler.lower.narrow import narrow
from vdla.compiler.lower.pipeline import dump, lower
from vdla.compiler.lower.versions import version_tails
from vdla.compiler.te import Schedule, Tensor
from vdla.errors import LoweringError

from .statements import StatementEmitter, Workspace
from .target import Target
from .types import I32, POINTER

__all__ = ["Kernel", "KernelCode", "emit_kernel", "optimize"]


@dataclass(frozen=True)
class Kernel:
    """A function to be compiled.

    Attributes
    ----------
    name : str
        Its symbol, ``void name(void **args)``.
    schedule : Schedule
    args : tuple of Tensor
        Every input and output of the schedule, in the order of the pointers; after them comes one
        to the workspace.
    """

    name: str
    schedule: Schedule
    args: tuple[Tensor, ...]


@dataclass(frozen=True)
class KernelCode:
    """What a caller must know of a kernel.

    Attributes
    ----------
    name : str
    function : llvmlite.ir.Function
        ``void body(void *arg, ..., void *workspace)``, to be called from the same module.
    workspace_bytes : int
    """

    name: str
    function: Any
    workspace_bytes: int


def emit_kernel(module: ll.Module, kernel: Kernel, *, exported: bool = True) -> KernelCode:
    """Add a kernel's function to an LLVM module; an exported one also by its name.

    Raises
    ------
    LoweringError
        The schedule cannot be lowered, or its arguments are not those of the kernel.
    """
    body, arguments = lower(kernel.schedule)
    if set(arguments) != set(kernel.args):
        raise LoweringError(
            f"The arguments of kernel {kernel.name} must be the inputs and outputs of its "
            f"schedule, {_names(arguments)}, not {_names(kernel.args)}."
        )
    body = narrow(version_tails(narrow(body)))
    dump("tails", lambda: stmt_text(body))
    pointers = [POINTER] * (len(kernel.args) + 1)
    inner = ll.Function(module, ll.FunctionType(ll.VoidType(), pointers), f"{kernel.name}.body")
    inner.linkage = "internal"
    for tensor, arg in zip((*kernel.args, None), inner.args, strict=True):
        arg.name = tensor.name if tensor is not None else "workspace"
        arg.add_attribute("noalias")
    workspace = Workspace(inner.args[-1])
    buffers = dict(zip((arguments[tensor] for tensor in kernel.args), inner.args, strict=False))
    emitter = StatementEmitter(inner, buffers, {}, workspace)
    emitter.emit(body)
    emitter.finish()
    if exported:
        _export(module, kernel.name, inner)
    return KernelCode(kernel.name, inner, workspace.bytes)


def _names(tensors: Sequence[Tensor] | Any) -> str:
    return ", ".join(tensor.name for tensor in tensors)


def _export(module: ll.Module, name: str, inner: Any) -> None:
    """Add ``void name(void **args)``, which calls a function with its pointers."""
    outer = ll.Function(module, ll.FunctionType(ll.VoidType(), [POINTER]), name)
    builder = ll.IRBuilder(outer.append_basic_block())
    places = (
        builder.gep(outer.args[0], [ll.Constant(I32, k)], source_etype=POINTER)
        for k in range(len(inner.args))
    )
    builder.call(inner, [builder.load(place, typ=POINTER) for place in places])
    builder.ret_void()


def optimize(module: ll.Module, target: Target) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Return a module after LLVM's passes, and the machine it is for.

    Vectors and unrolling are the schedule's business: LLVM's own passes for them are off.
    """
    machine = target.machine()
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    text = str(module)
    dump("llvm", lambda: text)
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    tuning.loop_interleaving = False
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(parsed, passes)
    dump("optimized", lambda: str(parsed))
    dump("assembly", lambda: machine.emit_assembly(parsed))
    return parsed, machine
