"""The thread pool that every library carries, in LLVM IR.

Its threads belong to whoever loads a library (``vdla.runtime.native``): they call
:func:`vdla_worker` and stay there. The state that they share is a block of memory whose address
stands in the library's variable ``vdla_pool``. It is given, not owned, so that all libraries of a
process share one set of threads, which are started and pinned once; a library whose ``vdla_pool``
is null runs its loops on the thread that called it, so it needs nobody to work.

What a library exports::

    void vdla_run(void (*function)(void **), void **arguments)
    void vdla_worker(void *state, int32 index)    index 1 to threads - 1
    void vdla_stop(void *state)                   workers return
    int64 vdla_pool_bytes(int32 threads)          of the state, to be zeroed and aligned to 128
    void vdla_pool_start(void *state, int32 threads, int64 share, int32 between, int32 after)
    void vdla_spin(int32 count)                   so many turns of an empty waiting loop

Inside, ``vdla_parallel(body, context, extent)`` runs ``body(context, begin, end)`` over all of
0 to extent, in pieces, on several threads.

How a loop is shared
    Every thread has a slot with its own share of the loop, the same share of each loop, so that
    what it wrote in one layer is in its cache for the next. It takes a quarter of what is left in
    its slot at a time, at least 1, and where that is empty takes from the others' slots: a thread
    that sleeps or was interrupted is worked for. A slot holds how much is left as one number that
    only goes down. A piece is taken by subtracting from it; who finds it zero or below has taken
    nothing. So whoever takes a piece takes it of the loop that is running, and the loop cannot end
    before the piece is reported done: a worker that comes late from an earlier loop does no harm,
    and nobody has to be waited for who did not take anything.
How workers wait
    They look at a number that each loop increments, with a pause between looks, and after so many
    looks sleep on it (a futex); more looks while a run is under way, few after it, none at all
    where there are more threads than processors.
What runs serially
    A loop inside a loop, and a loop of a second thread while the pool is busy: taking the pool is
    one compare-and-exchange, and who does not get it runs its loop itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ll
from llvmlite.ir.instructions import StoreAtomicInstr

from .target import Target
from .types import I8, I32, I64, POINTER

__all__ = ["add_pool"]

# The state, in bytes; a change of it, or of a function above, is a new ``vdla.abi.POOL_VERSION``.
# What one thread writes often and others read has 128 to itself: two lines of 64, because
# processors fetch neighbours in pairs.
_EPOCH, _SLEEPERS, _STOP = 0, 4, 8
_ACTIVE, _BETWEEN, _AFTER, _THREADS, _SHARE = 128, 132, 136, 140, 144
_BUSY = 256
_BODY, _CONTEXT, _EXTENT = 384, 392, 400
_DONE, _WAITING = 512, 516
_SLOTS, _SLOT_BYTES = 640, 128

_VOID = ll.VoidType()
_BODY_TYPE = ll.FunctionType(_VOID, [POINTER, I64, I64])
_KERNEL_TYPE = ll.FunctionType(_VOID, [POINTER])
_LARGEST_EXTENT = 2**31 - 1  # a slot is 32 bits, which every processor exchanges at once
_LARGEST_STEP = 2**16  # so that no number of threads subtracts a slot round to above zero

_SYS_FUTEX = {"x86-64": 202, "aarch64": 98, "armv7": 240}
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
# What tells the processor that this is a waiting loop.
_PAUSE: dict[str, tuple[str, list[int]]] = {
    "x86-64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [1]),  # yield
    "armv7": ("llvm.arm.hint", [1]),
}


def add_pool(module: ll.Module, target: Target) -> ll.Function:
    """Add the pool to a module and return ``vdla_parallel``, for its loops to call.

    Parameters
    ----------
    module : llvmlite.ir.Module
        Changed in place; a second call finds what the first added.
    target : Target
    """
    if "vdla_pool" in module.globals:
        return module.globals["vdla_parallel"]
    pool = ll.GlobalVariable(module, POINTER, "vdla_pool")
    pool.initializer = ll.Constant(POINTER, None)
    # On 32-bit ARM what C calls long, in which libc's syscall takes and returns everything.
    word = I32 if target.pointer_bits == 32 else I64
    syscall = ll.Function(module, ll.FunctionType(word, [word], var_arg=True), "syscall")
    name, arguments = _PAUSE[target.architecture]
    pause = ll.Function(module, ll.FunctionType(_VOID, [I32] * len(arguments)), name)

    emit = _Emitter(module, syscall, _SYS_FUTEX[target.architecture], pause, arguments)
    work = emit.work()
    parallel = emit.parallel(pool, work)
    emit.run(pool)
    emit.worker(work)
    emit.stop()
    emit.pool_bytes()
    emit.pool_start()
    emit.spin()
    return parallel


class _Emitter:
    """Emits the functions of a pool, one a method."""

    def __init__(
        self,
        module: ll.Module,
        syscall: ll.Function,
        futex: int,
        pause: ll.Function,
        pause_arguments: list[int],
    ) -> None:
        self._module = module
        self._syscall, self._futex = syscall, futex
        self._pause, self._pause_arguments = pause, [_i32(value) for value in pause_arguments]
        self._builder: Any = None

    # Building blocks.

    def _begin(self, name: str, result: Any, *arguments: Any, internal: bool = False) -> Any:
        kind = ll.FunctionType(result, list(arguments))
        function = self._module.globals.get(name) or ll.Function(self._module, kind, name)
        function.attributes.add("nounwind")
        function.attributes.add("noinline")
        if internal:
            function.linkage = "internal"
        self._builder = ll.IRBuilder(function.append_basic_block("entry"))
        return function

    def _field(self, state: Any, offset: int) -> Any:
        return self._builder.gep(state, [_i32(offset)], source_etype=I8)

    def _slot(self, state: Any, index: Any) -> Any:
        build = self._builder
        offset = build.add(build.mul(index, _i32(_SLOT_BYTES)), _i32(_SLOTS))
        return build.gep(state, [offset], source_etype=I8)

    def _callable(self, where: Any, kind: ll.FunctionType) -> Any:
        return self._builder.load(where, typ=kind.as_pointer())

    def _get(self, where: Any, order: str = "monotonic") -> Any:
        return self._builder.load_atomic(where, order, 4, typ=I32)

    def _set(self, where: Any, value: Any, order: str = "monotonic") -> None:
        # The builder's own method knows no pointers without a type.
        self._builder._insert(StoreAtomicInstr(self._builder.block, value, where, order, 4))

    def _add(self, where: Any, amount: Any, order: str = "seq_cst") -> Any:
        """Add and return what was there before."""
        return self._builder.atomic_rmw("add", where, amount, order)

    def _variable(self, value: Any) -> Any:
        build = self._builder
        with build.goto_entry_block():
            where = build.alloca(value.type)
        build.store(value, where)
        return where

    @contextmanager
    def _loop(self) -> Iterator[Any]:
        """Repeat the body until it branches to what is yielded; go on from there."""
        function = self._builder.function
        head = function.append_basic_block("again")
        leave = function.append_basic_block("leave")
        self._builder.branch(head)
        self._builder.position_at_end(head)
        yield leave
        if not self._builder.block.is_terminated:
            self._builder.branch(head)
        self._builder.position_at_end(leave)

    def _leave_if(self, condition: Any, leave: Any) -> None:
        on = self._builder.function.append_basic_block("on")
        self._builder.cbranch(condition, leave, on)
        self._builder.position_at_end(on)

    def _sleep(self, where: Any, while_it_is: Any) -> None:
        self._call_futex(where, _FUTEX_WAIT_PRIVATE, while_it_is)

    def _wake(self, where: Any, count: Any) -> None:
        self._call_futex(where, _FUTEX_WAKE_PRIVATE, count)

    def _call_futex(self, where: Any, operation: int, value: Any) -> None:
        word = self._syscall.function_type.return_type
        if word is I64:
            value = self._builder.zext(value, word)
        numbers = [ll.Constant(word, self._futex), where, ll.Constant(word, operation), value]
        self._builder.call(self._syscall, [*numbers, ll.Constant(POINTER, None)])

    def _between(self, least: Any, value: Any, most: Any) -> Any:
        build = self._builder
        value = build.select(build.icmp_signed("<", value, least), least, value)
        return build.select(build.icmp_signed(">", value, most), most, value)

    def _rest(self) -> None:
        self._builder.call(self._pause, self._pause_arguments)

    def _begin_of(self, state: Any, extent: Any, index: Any) -> Any:
        """Return where a slot's share begins: extent * index / threads, without dividing."""
        build = self._builder
        share = build.load(self._field(state, _SHARE), align=8, typ=I64)
        scaled = build.mul(build.mul(build.zext(extent, I64), build.zext(index, I64)), share)
        return build.trunc(build.lshr(scaled, ll.Constant(I64, 32)), I32)

    def _end_of(self, state: Any, extent: Any, index: Any) -> Any:
        build = self._builder
        after = build.add(index, _i32(1))
        threads = build.load(self._field(state, _THREADS), align=4, typ=I32)
        last = build.icmp_unsigned("==", after, threads)
        return build.select(last, extent, self._begin_of(state, extent, after))

    # The functions.

    def work(self) -> Any:
        """Take pieces of the loop that is running until there are none."""
        function = self._begin("vdla_work", _VOID, POINTER, I32, internal=True)
        state, index = function.args
        build = self._builder
        threads = build.load(self._field(state, _THREADS), align=4, typ=I32)
        mine = self._variable(_i32(0))  # iterations run here
        tried = self._variable(_i32(0))
        slot = self._variable(index)
        with self._loop() as leave:
            at = build.load(slot, typ=I32)
            with self._loop() as empty:
                where = self._slot(state, at)
                seen = self._get(where)
                self._leave_if(build.icmp_signed("<=", seen, _i32(0)), empty)
                step = self._between(_i32(1), build.lshr(seen, _i32(2)), _i32(_LARGEST_STEP))
                left = build.atomic_rmw("sub", where, step, "acquire")
                self._leave_if(build.icmp_signed("<=", left, _i32(0)), empty)
                # The piece is taken, so what follows is of the loop that it belongs to.
                extent = self._get(self._field(state, _EXTENT))
                end_of_slot = self._end_of(state, extent, at)
                begin = build.sub(end_of_slot, left)
                fits = build.icmp_signed("<", step, left)
                count = build.select(fits, step, left)
                body = self._callable(self._field(state, _BODY), _BODY_TYPE)
                context = build.load(self._field(state, _CONTEXT), align=8, typ=POINTER)
                first = build.zext(begin, I64)
                behind = build.zext(build.add(begin, count), I64)
                build.call(body, [context, first, behind])
                build.store(build.add(build.load(mine, typ=I32), count), mine)
            following = build.add(at, _i32(1))
            wraps = build.icmp_unsigned("==", following, threads)
            build.store(build.select(wraps, _i32(0), following), slot)
            more = build.add(build.load(tried, typ=I32), _i32(1))
            build.store(more, tried)
            self._leave_if(build.icmp_unsigned("==", more, threads), leave)
        ran = build.load(mine, typ=I32)
        with build.if_then(build.icmp_signed(">", ran, _i32(0))):
            extent = self._get(self._field(state, _EXTENT))
            done = self._field(state, _DONE)
            # The caller says that it waits and then looks at what is done; here it is the other
            # way round, so one of the two sees the other.
            total = build.add(self._add(done, ran), ran)
            with build.if_then(build.icmp_unsigned("==", total, extent)):
                waiting = self._get(self._field(state, _WAITING), "seq_cst")
                with build.if_then(build.icmp_unsigned("!=", waiting, _i32(0))):
                    self._wake(done, _i32(1))
        build.ret_void()
        return function

    def parallel(self, pool: Any, work: Any) -> Any:
        """Run a body over all of 0 to extent, on several threads where they are free."""
        function = self._begin("vdla_parallel", _VOID, POINTER, POINTER, I64, internal=True)
        body, context, extent = function.args
        build = self._builder
        held = self._variable(body)
        serial, attempt, shared = (
            function.append_basic_block(name) for name in ("serial", "attempt", "shared")
        )
        state = build.load(pool, typ=POINTER)
        alone = build.icmp_unsigned("==", state, ll.Constant(POINTER, None))
        small = build.icmp_signed("<", extent, ll.Constant(I64, 2))
        large = build.icmp_signed(">", extent, ll.Constant(I64, _LARGEST_EXTENT))
        build.cbranch(build.or_(alone, build.or_(small, large)), serial, attempt)

        build.position_at_end(serial)
        with build.if_then(build.icmp_signed(">", extent, ll.Constant(I64, 0))):
            build.call(self._callable(held, _BODY_TYPE), [context, ll.Constant(I64, 0), extent])
        build.ret_void()

        build.position_at_end(attempt)
        busy = self._field(state, _BUSY)
        taken = build.cmpxchg(busy, _i32(0), _i32(1), "acquire", "monotonic")
        build.cbranch(build.extract_value(taken, 1), shared, serial)

        build.position_at_end(shared)
        build.store(body, self._field(state, _BODY), align=8)
        build.store(context, self._field(state, _CONTEXT), align=8)
        size = build.trunc(extent, I32)
        self._set(self._field(state, _EXTENT), size)
        self._set(self._field(state, _DONE), _i32(0))
        self._set(self._field(state, _WAITING), _i32(0))
        threads = build.load(self._field(state, _THREADS), align=4, typ=I32)
        index = self._variable(_i32(0))
        begin = self._variable(_i32(0))
        with self._loop() as leave:
            at = build.load(index, typ=I32)
            end = self._end_of(state, size, at)
            left = build.sub(end, build.load(begin, typ=I32))
            self._set(self._slot(state, at), left, "release")
            build.store(end, begin)
            following = build.add(at, _i32(1))
            build.store(following, index)
            self._leave_if(build.icmp_unsigned("==", following, threads), leave)
        epoch = self._field(state, _EPOCH)
        # As above: a worker says that it sleeps and then looks at the epoch.
        self._add(epoch, _i32(1))
        asleep = self._get(self._field(state, _SLEEPERS), "seq_cst")
        with build.if_then(build.icmp_signed(">", asleep, _i32(0))):
            useful = build.sub(size, _i32(1))
            self._wake(epoch, build.select(build.icmp_signed("<", asleep, useful), asleep, useful))
        build.call(work, [state, _i32(0)])
        self._wait_for_done(state, size)
        self._set(busy, _i32(0), "release")
        build.ret_void()
        return function

    def _wait_for_done(self, state: Any, size: Any) -> None:
        build = self._builder
        done = self._field(state, _DONE)
        looks = self._variable(_i32(0))
        limit = self._get(self._field(state, _BETWEEN))
        with self._loop() as finished:
            now = self._get(done, "acquire")
            self._leave_if(build.icmp_unsigned("==", now, size), finished)
            count = build.load(looks, typ=I32)
            with build.if_else(build.icmp_unsigned("<", count, limit)) as (spin, sleep):
                with spin:
                    build.store(build.add(count, _i32(1)), looks)
                    self._rest()
                with sleep:
                    self._set(self._field(state, _WAITING), _i32(1), "seq_cst")
                    now = self._get(done, "seq_cst")
                    with build.if_then(build.icmp_unsigned("!=", now, size)):
                        self._sleep(done, now)

    def run(self, pool: Any) -> None:
        """Call a function of this library; between its loops, workers stay awake."""
        function = self._begin("vdla_run", _VOID, POINTER, POINTER)
        kernel, arguments = function.args
        build = self._builder
        held = self._variable(kernel)
        state = build.load(pool, typ=POINTER)
        alone = build.icmp_unsigned("==", state, ll.Constant(POINTER, None))
        with build.if_else(alone) as (serial, shared):
            with serial:
                build.call(self._callable(held, _KERNEL_TYPE), [arguments])
            with shared:
                active = self._field(state, _ACTIVE)
                self._add(active, _i32(1), "monotonic")
                build.call(self._callable(held, _KERNEL_TYPE), [arguments])
                self._add(active, _i32(-1), "monotonic")
        build.ret_void()

    def worker(self, work: Any) -> None:
        """Work on loops until the pool is stopped."""
        function = self._begin("vdla_worker", _VOID, POINTER, I32)
        state, index = function.args
        build = self._builder
        epoch, sleepers = self._field(state, _EPOCH), self._field(state, _SLEEPERS)
        seen = self._variable(_i32(0))
        looks = self._variable(_i32(0))
        with self._loop() as stopped:
            with self._loop() as called:
                now = self._get(epoch, "acquire")
                before = build.load(seen, typ=I32)
                self._leave_if(build.icmp_unsigned("!=", now, before), called)
                active = self._get(self._field(state, _ACTIVE))
                between = self._get(self._field(state, _BETWEEN))
                after = self._get(self._field(state, _AFTER))
                running = build.icmp_signed(">", active, _i32(0))
                limit = build.select(running, between, after)
                count = build.load(looks, typ=I32)
                with build.if_else(build.icmp_unsigned("<", count, limit)) as (spin, sleep):
                    with spin:
                        build.store(build.add(count, _i32(1)), looks)
                        self._rest()
                    with sleep:
                        self._add(sleepers, _i32(1))
                        now = self._get(epoch, "seq_cst")
                        with build.if_then(build.icmp_unsigned("==", now, before)):
                            self._sleep(epoch, before)
                        self._add(sleepers, _i32(-1))
            build.store(self._get(epoch, "acquire"), seen)
            build.store(_i32(0), looks)
            stop = self._get(self._field(state, _STOP), "acquire")
            self._leave_if(build.icmp_unsigned("!=", stop, _i32(0)), stopped)
            build.call(work, [state, index])
        build.ret_void()

    def stop(self) -> None:
        """Let every worker return."""
        function = self._begin("vdla_stop", _VOID, POINTER)
        (state,) = function.args
        epoch = self._field(state, _EPOCH)
        self._set(self._field(state, _STOP), _i32(1), "release")
        self._add(epoch, _i32(1))
        self._wake(epoch, _i32(_LARGEST_EXTENT))
        self._builder.ret_void()

    def pool_bytes(self) -> None:
        """Return how large the state of a pool is."""
        function = self._begin("vdla_pool_bytes", I64, I32)
        build = self._builder
        slots = build.mul(function.args[0], _i32(_SLOT_BYTES))
        build.ret(build.zext(build.add(slots, _i32(_SLOTS)), I64))

    def pool_start(self) -> None:
        """Fill in what does not change while a pool lives."""
        function = self._begin("vdla_pool_start", _VOID, POINTER, I32, I64, I32, I32)
        state, threads, share, between, after = function.args
        build = self._builder
        self._set(self._field(state, _THREADS), threads)
        build.store(share, self._field(state, _SHARE), align=8)
        self._set(self._field(state, _BETWEEN), between)
        self._set(self._field(state, _AFTER), after, "release")
        build.ret_void()

    def spin(self) -> None:
        """Look and pause so many times, for the loader to learn how long that takes."""
        function = self._begin("vdla_spin", _VOID, I32)
        build = self._builder
        looks = self._variable(_i32(0))
        with self._loop() as leave:
            count = self._get(looks)
            self._leave_if(build.icmp_unsigned("==", count, function.args[0]), leave)
            self._set(looks, build.add(count, _i32(1)))
            self._rest()
        build.ret_void()


def _i32(value: int) -> ll.Constant:
    return ll.Constant(I32, value)
