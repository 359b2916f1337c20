"""Libraries of functions written by hand in LLVM IR: what the pool and the loader are tried with.

Every function takes an array of int32 whose elements its loops increment, each by one an iteration,
so an iteration that is left out or run twice shows.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.ir as ll

from vdla.abi import Argument
from vdla.compiler.targets.cpu import Target, link
from vdla.compiler.targets.cpu.kernel import optimize
from vdla.compiler.targets.cpu.library import complete
from vdla.compiler.targets.cpu.types import I32, I64, POINTER

VOID = ll.VoidType()
BODY = ll.FunctionType(VOID, [POINTER, I64, I64])
KERNEL = ll.FunctionType(VOID, [POINTER])


def i64(value: int) -> ll.Constant:
    return ll.Constant(I64, value)


def counted(builder: Any, begin: Any, end: Any, body: Any) -> None:
    """Emit ``for i in begin..end: body(i)``; a range may be empty."""
    function = builder.function
    head, inside, after = (function.append_basic_block(n) for n in ("head", "inside", "after"))
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(I64)
    index.add_incoming(begin, before)
    builder.cbranch(builder.icmp_signed("<", index, end), inside, after)
    builder.position_at_end(inside)
    body(index)
    index.add_incoming(builder.add(index, i64(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)


class Module:
    """A module with a body that counts, and ways to run it."""

    def __init__(self) -> None:
        self.module = ll.Module("handmade")
        self.parallel = ll.Function(
            self.module, ll.FunctionType(VOID, [POINTER, POINTER, I64]), "vdla_parallel"
        )
        self.functions: dict[str, tuple[Argument, ...]] = {}
        self.count = self.body("count", self._count)

    def body(self, name: str, emit: Any) -> Any:
        """Add the body of a loop: emit(builder, context, index) is one iteration."""
        function = ll.Function(self.module, BODY, f"{name}.body")
        function.linkage = "internal"
        context, begin, end = function.args
        builder = ll.IRBuilder(function.append_basic_block())
        counted(builder, begin, end, lambda index: emit(builder, context, index))
        builder.ret_void()
        return function

    def _count(self, builder: Any, context: Any, index: Any) -> None:
        counts = builder.load(context, typ=POINTER)
        where = builder.gep(counts, [index], source_etype=I32)
        builder.store(builder.add(builder.load(where, typ=I32), ll.Constant(I32, 1)), where)

    def kernel(self, name: str, extent: int, emit: Any) -> None:
        """Add a function of one array of int32 of so many elements."""
        function = ll.Function(self.module, KERNEL, name)
        builder = ll.IRBuilder(function.append_basic_block())
        emit(builder, function.args[0])
        builder.ret_void()
        self.functions[name] = (Argument(dtype="int32", shape=(extent,), written=True),)

    def loop(self, extent: int) -> None:
        """Add ``loop_EXTENT``: one parallel loop."""
        self.kernel(
            f"loop_{extent}",
            extent,
            lambda builder, args: builder.call(self.parallel, [self.count, args, i64(extent)]),
        )

    def network(self, extent: int, loops: int) -> None:
        """Add ``network_EXTENT_LOOPS``: so many parallel loops, one after the other."""

        def emit(builder: Any, args: Any) -> None:
            run = [self.count, args, i64(extent)]
            counted(builder, i64(0), i64(loops), lambda index: builder.call(self.parallel, run))

        self.kernel(f"network_{extent}_{loops}", extent, emit)

    def nested(self, extent: int, outer: int) -> None:
        """Add ``nested_EXTENT``: a parallel loop, each iteration a parallel loop of its own."""
        width = extent // outer

        def inner(builder: Any, context: Any, index: Any) -> None:
            counts = builder.load(context, typ=POINTER)
            mine = builder.gep(counts, [builder.mul(index, i64(width))], source_etype=I32)
            with builder.goto_entry_block():
                held = builder.alloca(POINTER)
            builder.store(mine, held)
            builder.call(self.parallel, [self.count, held, i64(width)])

        body = self.body(f"nested_{extent}", inner)
        self.kernel(
            f"nested_{extent}",
            extent,
            lambda builder, args: builder.call(self.parallel, [body, args, i64(outer)]),
        )

    def meeting(self, threads: int) -> None:
        """Add ``meeting_THREADS``: an iteration a thread, which all wait for all to have begun.

        It ends only where as many threads take part.
        """

        def wait(builder: Any, context: Any, index: Any) -> None:
            begun = builder.load(context, typ=POINTER)  # in the first element
            builder.atomic_rmw("add", begun, ll.Constant(I32, 1), "seq_cst")
            again = builder.function.append_basic_block("again")
            over = builder.function.append_basic_block("over")
            builder.branch(again)
            builder.position_at_end(again)
            seen = builder.load_atomic(begun, "acquire", 4, typ=I32)
            few = builder.icmp_signed("<", seen, ll.Constant(I32, threads))
            builder.cbranch(few, again, over)
            builder.position_at_end(over)

        body = self.body(f"meeting_{threads}", wait)
        self.kernel(
            f"meeting_{threads}",
            1,
            lambda builder, args: builder.call(self.parallel, [body, args, i64(threads)]),
        )

    def object(self, target: Target) -> bytes:
        complete(self.module, target, self.functions)
        parsed, machine = optimize(self.module, target)
        return bytes(machine.emit_object(parsed))


EXTENTS = (0, 1, 2, 3, 7, 1000)
MEETINGS = (2, 3, 4)


@functools.cache
def library(level: str) -> bytes:
    """Return a shared object with every function that the tests call."""
    made = Module()
    for extent in EXTENTS:
        made.loop(extent)
    made.network(64, 1000)
    made.network(3, 100)
    made.nested(60, 6)
    for threads in MEETINGS:
        made.meeting(threads)
    target = Target.named(level)
    return link(made.object(target), target)
