"""Kernels as PTX, NVIDIA's assembly, through LLVM: for drivers alone, without NVRTC."""

from __future__ import annotations

from functools import cache, reduce
from math import prod
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ll

from vdla.compiler.ir.stmt import Buffer, Intrinsic, Stmt
from vdla.compiler.targets.cpu.statements import StatementEmitter
from vdla.compiler.targets.cpu.types import I32, I64, element_type
from vdla.compiler.te.expr import Const
from vdla.errors import LoweringError

from .intrinsics import WORD, signs_of
from .kernel import BLOCK, THREAD, Barrier, Guard, Kernel, Loop, Matrix, Sequence, Statement, walk
from .source import entry_name

__all__ = ["llvm_of", "ptx_of"]

TRIPLE = "nvptx64-nvidia-cuda"
ARCHITECTURE = "sm_70"
"""The oldest that is tried; a driver compiles its code for every later one."""
FEATURES = "+ptx63"
"""The version of PTX, which drivers since CUDA 10 read."""
MEMORY, SHARED = (ll.PointerType(addrspace=space) for space in (1, 3))
"""Pointers to memory of the device, and of a block."""
_FEW = 4
"""Steps that are written one after the other, as NVIDIA's compiler does: its assembler does not."""
VECTOR_BYTES = 16
"""The most that a thread reads of shared memory at once."""
_REGISTERS = dict(
    zip(
        (*BLOCK, *THREAD),
        (f"{which}.{axis}" for which in ("ctaid", "tid") for axis in "xyz"),
        strict=True,
    )
)


def ptx_of(kernel: Kernel) -> str:
    """Return a kernel as PTX; its function has the name that it has in CUDA C.

    Stages, in order:

    1. each statement of a thread becomes LLVM's instructions, as on the processor, but arrays lie
       in the address spaces of the device and of a block;
    2. LLVM optimizes: arrays of a thread become registers, where loops over them are unrolled;
    3. its back end for NVIDIA's GPUs writes PTX.

    Parameters
    ----------
    kernel : Kernel

    Raises
    ------
    LoweringError
        The kernel calls a function that GPUs have in a library of NVIDIA's alone, or warps multiply
        matrices in it.
    """
    module = llvm_of(kernel)
    machine = _machine()
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    _refuse_libraries(module, kernel)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    # Loops over arrays of a thread are unrolled already; others are the driver's, which counts
    # registers.
    tuning.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(parsed, passes)
    return str(machine.emit_assembly(parsed))


def llvm_of(kernel: Kernel) -> ll.Module:
    """Return a kernel as LLVM's instructions, of no target yet but for the functions they call."""
    module = ll.Module(kernel.name)
    _emit(module, kernel)
    return module


@cache
def _machine() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=ARCHITECTURE, features=FEATURES, opt=3)


def _emit(module: ll.Module, kernel: Kernel) -> None:
    kind = ll.FunctionType(ll.VoidType(), [MEMORY] * len(kernel.parameters))
    function = ll.Function(module, kind, entry_name(kernel))
    function.calling_convention = "ptx_kernel"
    for argument in function.args:
        argument.add_attribute("noalias")
    threads = ll.Constant(I32, prod(kernel.block))
    most = module.add_metadata([function, "maxntidx", threads])
    module.add_named_metadata("nvvm.annotations", most)
    emitter = _ThreadEmitter(function, kernel)
    emitter.emit(kernel.body)
    emitter.finish()


class _ThreadEmitter(StatementEmitter):
    """Emits what a thread runs."""

    def __init__(self, function: Any, kernel: Kernel) -> None:
        given = (parameter.buffer for parameter in kernel.parameters)
        super().__init__(function, dict(zip(given, function.args, strict=True)), {}, None)
        for buffer in kernel.shared:
            self._buffers[buffer] = self._shared(buffer)
        for buffer in kernel.registers:
            held = ll.ArrayType(element_type(buffer.dtype), buffer.total)
            self._buffers[buffer] = self._on_stack(held, buffer.name)
        for var, extent in kernel.places:
            place = self._special(f"llvm.nvvm.read.ptx.sreg.{_REGISTERS[var]}", I32)
            alone = extent == Const(1)
            self._bindings[var] = 0 if alone else self.builder.zext(place, I64)

    def _shared(self, buffer: Buffer) -> Any:
        module = self._function.module
        held = ll.ArrayType(element_type(buffer.dtype), buffer.total)
        name = module.get_unique_name(buffer.name)
        array = ll.GlobalVariable(module, held, name, addrspace=SHARED.addrspace)
        array.linkage, array.align = "internal", VECTOR_BYTES
        array.initializer = ll.Constant(held, ll.Undefined)
        array.type = SHARED  # elements are reached by their own type
        return array

    def _special(self, name: str, result: Any, *args: Any) -> Any:
        """Call one of LLVM's functions for these GPUs."""
        module = self._function.module
        kind = ll.FunctionType(result, [arg.type for arg in args])
        return self.builder.call(module.globals.get(name) or ll.Function(module, kind, name), args)

    def emit(self, stmt: Statement | Stmt) -> None:
        """Emit a statement."""
        if isinstance(stmt, Sequence):
            for child in stmt.stmts:
                self.emit(child)
        elif isinstance(stmt, Barrier):
            self._special("llvm.nvvm.barrier0", ll.VoidType())
        elif isinstance(stmt, Guard):
            self._guarded(stmt)
        elif isinstance(stmt, Loop):
            self._repeat(stmt)
        elif isinstance(stmt, Intrinsic):
            self._dot(stmt)
        elif isinstance(stmt, Matrix):
            raise LoweringError(
                f"PTX must be of what a thread does by itself, and {stmt.function} is for a warp: "
                "compile its CUDA C."
            )
        else:
            super().emit(stmt)

    def _guarded(self, stmt: Guard) -> None:
        """Emit a statement with the conditions that the shape of the grid leaves open."""
        conditions = [self._index(condition) for condition in stmt.conditions]
        left = [one for one in conditions if not isinstance(one, int)]
        if not all(one for one in conditions if isinstance(one, int)):
            return
        if not left:
            self.emit(stmt.body)
            return
        with self.builder.if_then(reduce(self.builder.and_, left)):
            self.emit(stmt.body)

    def _dot(self, stmt: Intrinsic) -> None:
        """Emit a dot product, whose operands are words of shared memory."""
        target, *words = (
            self._pointer(one, self._index(one.offset)) for one in (stmt.output, *stmt.operands)
        )
        factors = [self.builder.load(word, align=WORD, typ=I32) for word in words]
        total = self.builder.load(target, align=WORD, typ=I32)
        name = f"llvm.nvvm.idp4a.{'.'.join(signs_of(stmt.intrin.name))}"
        self.builder.store(self._special(name, I32, *factors, total), target, align=WORD)

    def _repeat(self, stmt: Loop) -> None:
        extent = self._index(stmt.extent)
        constant = isinstance(extent, int)
        if constant and (stmt.unroll or stmt.vector or (extent <= _FEW and _is_flat(stmt))):
            for value in range(extent):
                with self._bound(stmt.var, value):
                    self.emit(stmt.body)
            return
        body: Any = stmt.body  # given back to `emit` as it is
        start, end = ll.Constant(I64, 0), ll.Constant(I64, extent) if constant else extent
        self.loop(stmt.var, start, end, body, certain=constant and extent > 0)


def _is_flat(loop: Loop) -> bool:
    """Tell whether a loop holds none but vectors."""
    inner = (part for part in walk(loop.body) if isinstance(part, Loop))
    return all(part.vector for part in inner)


def _refuse_libraries(module: ll.Module, kernel: Kernel) -> None:
    """Refuse a kernel that calls what stands in no module: C's library, which GPUs have not."""
    called = [
        function.name
        for function in module.functions
        if not function.basic_blocks and not function.name.startswith("llvm.")
    ]
    if called:
        raise LoweringError(
            f"PTX must hold all that a kernel calls, and {kernel.name} calls {', '.join(called)} "
            "of a library: compile its CUDA C."
        )
