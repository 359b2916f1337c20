"""What functions that wait for one another consist of, in LLVM IR: loops, atomics, sleeping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ll
from llvmlite.ir.instructions import StoreAtomicInstr

from .functions import declared
from .target import Target
from .types import I8, I32, I64, POINTER

__all__ = ["VOID", "Emitter", "i32"]

VOID = ll.VoidType()

_SYS_FUTEX = {"x86-64": 202, "aarch64": 98, "armv7": 240}
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
# What tells the processor that a loop waits.
_PAUSE: dict[str, tuple[str, list[int]]] = {
    "x86-64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [1]),  # yield
    "armv7": ("llvm.arm.hint", [1]),
}


def i32(value: int) -> ll.Constant:
    """Return a constant of 32 bits."""
    return ll.Constant(I32, value)


class Emitter:
    """Emits functions, one after the other, into a module.

    Parameters
    ----------
    module : llvmlite.ir.Module
    target : Target
    """

    def __init__(self, module: ll.Module, target: Target) -> None:
        self.module = module
        self.builder: Any = None
        """Of the function that was begun last."""
        # On 32-bit ARM what C calls long, in which libc's syscall takes and returns everything.
        self._word = I32 if target.pointer_bits == 32 else I64
        kind = ll.FunctionType(self._word, [self._word], var_arg=True)
        self._syscall = ll.Function(module, kind, "syscall")
        self._futex = _SYS_FUTEX[target.architecture]
        name, arguments = _PAUSE[target.architecture]
        self._pause_arguments = [i32(value) for value in arguments]
        self._pause = ll.Function(module, ll.FunctionType(VOID, [I32] * len(arguments)), name)

    def begin(self, name: str, result: Any, *arguments: Any, internal: bool = False) -> Any:
        """Begin a function, or the body of one that is declared, and return it."""
        function = declared(self.module, name, result, arguments)
        function.attributes.add("nounwind")
        function.attributes.add("noinline")
        if internal:
            function.linkage = "internal"
        self.builder = ll.IRBuilder(function.append_basic_block("entry"))
        return function

    def field(self, state: Any, offset: int) -> Any:
        """Return an address so many bytes into a block of memory."""
        return self.builder.gep(state, [i32(offset)], source_etype=I8)

    def callable_at(self, where: Any, kind: ll.FunctionType) -> Any:
        """Load a pointer to a function as something that can be called."""
        return self.builder.load(where, typ=kind.as_pointer())

    def get(self, where: Any, order: str = "monotonic") -> Any:
        """Load 32 bits that other threads write."""
        return self.builder.load_atomic(where, order, 4, typ=I32)

    def set(self, where: Any, value: Any, order: str = "monotonic") -> None:
        """Store 32 bits that other threads read."""
        # The builder's own method knows no pointers without a type.
        self.builder._insert(StoreAtomicInstr(self.builder.block, value, where, order, 4))

    def add(self, where: Any, amount: Any, order: str = "seq_cst") -> Any:
        """Add and return what was there before."""
        return self.builder.atomic_rmw("add", where, amount, order)

    def variable(self, value: Any) -> Any:
        """Return the address of a variable of this call, set to a value."""
        build = self.builder
        with build.goto_entry_block():
            where = build.alloca(value.type)
        build.store(value, where)
        return where

    @contextmanager
    def loop(self) -> Iterator[Any]:
        """Repeat the body until it branches to what is yielded; go on from there."""
        function = self.builder.function
        head = function.append_basic_block("again")
        leave = function.append_basic_block("leave")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        yield leave
        if not self.builder.block.is_terminated:
            self.builder.branch(head)
        self.builder.position_at_end(leave)

    def leave_if(self, condition: Any, leave: Any) -> None:
        """Branch where a condition holds, and go on from here where not."""
        on = self.builder.function.append_basic_block("on")
        self.builder.cbranch(condition, leave, on)
        self.builder.position_at_end(on)

    def sleep(self, where: Any, while_it_is: Any) -> None:
        """Sleep at an address until woken there; not at all if another value is in it."""
        self._call_futex(where, _FUTEX_WAIT_PRIVATE, while_it_is)

    def wake(self, where: Any, count: Any) -> None:
        """Wake at most so many of those who sleep at an address."""
        self._call_futex(where, _FUTEX_WAKE_PRIVATE, count)

    def _call_futex(self, where: Any, operation: int, value: Any) -> None:
        word = self._word
        if word is I64:
            value = self.builder.zext(value, word)
        numbers = [ll.Constant(word, self._futex), where, ll.Constant(word, operation), value]
        self.builder.call(self._syscall, [*numbers, ll.Constant(POINTER, None)])

    def between(self, least: Any, value: Any, most: Any) -> Any:
        """Return a signed value, or the bound that it is beyond."""
        build = self.builder
        value = build.select(build.icmp_signed("<", value, least), least, value)
        return build.select(build.icmp_signed(">", value, most), most, value)

    def rest(self) -> None:
        """Tell the processor that this is a waiting loop."""
        self.builder.call(self._pause, self._pause_arguments)
