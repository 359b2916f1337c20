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

from typing import Any

import llvmlite.ir as ll

from .emitter import VOID, Emitter, i32
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

_BODY_TYPE = ll.FunctionType(VOID, [POINTER, I64, I64])
_KERNEL_TYPE = ll.FunctionType(VOID, [POINTER])
_LARGEST_EXTENT = 2**31 - 1  # a slot is 32 bits, which every processor exchanges at once
_LARGEST_STEP = 2**16  # so that no number of threads subtracts a slot round to above zero


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
    emit = _Pool(module, target)
    work = emit.work()
    parallel = emit.parallel(pool, work)
    emit.run(pool)
    emit.worker(work)
    emit.stop()
    emit.pool_bytes()
    emit.pool_start()
    emit.spin()
    return parallel


class _Pool(Emitter):
    """Emits the functions of a pool, one a method."""

    def _slot(self, state: Any, index: Any) -> Any:
        build = self.builder
        offset = build.add(build.mul(index, i32(_SLOT_BYTES)), i32(_SLOTS))
        return build.gep(state, [offset], source_etype=I8)

    def _begin_of(self, state: Any, extent: Any, index: Any) -> Any:
        """Return where a slot's share begins: extent * index / threads, without dividing."""
        build = self.builder
        share = build.load(self.field(state, _SHARE), align=8, typ=I64)
        scaled = build.mul(build.mul(build.zext(extent, I64), build.zext(index, I64)), share)
        return build.trunc(build.lshr(scaled, ll.Constant(I64, 32)), I32)

    def _end_of(self, state: Any, extent: Any, index: Any) -> Any:
        build = self.builder
        after = build.add(index, i32(1))
        threads = build.load(self.field(state, _THREADS), align=4, typ=I32)
        last = build.icmp_unsigned("==", after, threads)
        return build.select(last, extent, self._begin_of(state, extent, after))

    def work(self) -> Any:
        """Take pieces of the loop that is running until there are none."""
        function = self.begin("vdla_work", VOID, POINTER, I32, internal=True)
        state, index = function.args
        build = self.builder
        threads = build.load(self.field(state, _THREADS), align=4, typ=I32)
        mine = self.variable(i32(0))  # iterations run here
        tried = self.variable(i32(0))
        slot = self.variable(index)
        with self.loop() as leave:
            at = build.load(slot, typ=I32)
            with self.loop() as empty:
                where = self._slot(state, at)
                seen = self.get(where)
                self.leave_if(build.icmp_signed("<=", seen, i32(0)), empty)
                step = self.between(i32(1), build.lshr(seen, i32(2)), i32(_LARGEST_STEP))
                left = build.atomic_rmw("sub", where, step, "acquire")
                self.leave_if(build.icmp_signed("<=", left, i32(0)), empty)
                # The piece is taken, so what follows is of the loop that it belongs to.
                extent = self.get(self.field(state, _EXTENT))
                end_of_slot = self._end_of(state, extent, at)
                begin = build.sub(end_of_slot, left)
                fits = build.icmp_signed("<", step, left)
                count = build.select(fits, step, left)
                body = self.callable_at(self.field(state, _BODY), _BODY_TYPE)
                context = build.load(self.field(state, _CONTEXT), align=8, typ=POINTER)
                first = build.zext(begin, I64)
                behind = build.zext(build.add(begin, count), I64)
                build.call(body, [context, first, behind])
                build.store(build.add(build.load(mine, typ=I32), count), mine)
            following = build.add(at, i32(1))
            wraps = build.icmp_unsigned("==", following, threads)
            build.store(build.select(wraps, i32(0), following), slot)
            more = build.add(build.load(tried, typ=I32), i32(1))
            build.store(more, tried)
            self.leave_if(build.icmp_unsigned("==", more, threads), leave)
        ran = build.load(mine, typ=I32)
        with build.if_then(build.icmp_signed(">", ran, i32(0))):
            extent = self.get(self.field(state, _EXTENT))
            done = self.field(state, _DONE)
            # The caller says that it waits and then looks at what is done; here it is the other
            # way round, so one of the two sees the other.
            total = build.add(self.add(done, ran), ran)
            with build.if_then(build.icmp_unsigned("==", total, extent)):
                waiting = self.get(self.field(state, _WAITING), "seq_cst")
                with build.if_then(build.icmp_unsigned("!=", waiting, i32(0))):
                    self.wake(done, i32(1))
        build.ret_void()
        return function

    def parallel(self, pool: Any, work: Any) -> Any:
        """Run a body over all of 0 to extent, on several threads where they are free."""
        function = self.begin("vdla_parallel", VOID, POINTER, POINTER, I64, internal=True)
        body, context, extent = function.args
        build = self.builder
        held = self.variable(body)
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
            build.call(self.callable_at(held, _BODY_TYPE), [context, ll.Constant(I64, 0), extent])
        build.ret_void()

        build.position_at_end(attempt)
        busy = self.field(state, _BUSY)
        taken = build.cmpxchg(busy, i32(0), i32(1), "acquire", "monotonic")
        build.cbranch(build.extract_value(taken, 1), shared, serial)

        build.position_at_end(shared)
        build.store(body, self.field(state, _BODY), align=8)
        build.store(context, self.field(state, _CONTEXT), align=8)
        size = build.trunc(extent, I32)
        self.set(self.field(state, _EXTENT), size)
        self.set(self.field(state, _DONE), i32(0))
        self.set(self.field(state, _WAITING), i32(0))
        threads = build.load(self.field(state, _THREADS), align=4, typ=I32)
        index = self.variable(i32(0))
        begin = self.variable(i32(0))
        with self.loop() as leave:
            at = build.load(index, typ=I32)
            end = self._end_of(state, size, at)
            left = build.sub(end, build.load(begin, typ=I32))
            self.set(self._slot(state, at), left, "release")
            build.store(end, begin)
            following = build.add(at, i32(1))
            build.store(following, index)
            self.leave_if(build.icmp_unsigned("==", following, threads), leave)
        epoch = self.field(state, _EPOCH)
        # As above: a worker says that it sleeps and then looks at the epoch.
        self.add(epoch, i32(1))
        asleep = self.get(self.field(state, _SLEEPERS), "seq_cst")
        with build.if_then(build.icmp_signed(">", asleep, i32(0))):
            useful = build.sub(size, i32(1))
            self.wake(epoch, build.select(build.icmp_signed("<", asleep, useful), asleep, useful))
        build.call(work, [state, i32(0)])
        self._wait_for_done(state, size)
        self.set(busy, i32(0), "release")
        build.ret_void()
        return function

    def _wait_for_done(self, state: Any, size: Any) -> None:
        build = self.builder
        done = self.field(state, _DONE)
        looks = self.variable(i32(0))
        limit = self.get(self.field(state, _BETWEEN))
        with self.loop() as finished:
            now = self.get(done, "acquire")
            self.leave_if(build.icmp_unsigned("==", now, size), finished)
            count = build.load(looks, typ=I32)
            with build.if_else(build.icmp_unsigned("<", count, limit)) as (spin, sleep):
                with spin:
                    build.store(build.add(count, i32(1)), looks)
                    self.rest()
                with sleep:
                    self.set(self.field(state, _WAITING), i32(1), "seq_cst")
                    now = self.get(done, "seq_cst")
                    with build.if_then(build.icmp_unsigned("!=", now, size)):
                        self.sleep(done, now)

    def run(self, pool: Any) -> None:
        """Call a function of this library; between its loops, workers stay awake."""
        function = self.begin("vdla_run", VOID, POINTER, POINTER)
        kernel, arguments = function.args
        build = self.builder
        held = self.variable(kernel)
        state = build.load(pool, typ=POINTER)
        alone = build.icmp_unsigned("==", state, ll.Constant(POINTER, None))
        with build.if_else(alone) as (serial, shared):
            with serial:
                build.call(self.callable_at(held, _KERNEL_TYPE), [arguments])
            with shared:
                active = self.field(state, _ACTIVE)
                self.add(active, i32(1), "monotonic")
                build.call(self.callable_at(held, _KERNEL_TYPE), [arguments])
                self.add(active, i32(-1), "monotonic")
        build.ret_void()

    def worker(self, work: Any) -> None:
        """Work on loops until the pool is stopped."""
        function = self.begin("vdla_worker", VOID, POINTER, I32)
        state, index = function.args
        build = self.builder
        epoch, sleepers = self.field(state, _EPOCH), self.field(state, _SLEEPERS)
        seen = self.variable(i32(0))
        looks = self.variable(i32(0))
        with self.loop() as stopped:
            with self.loop() as called:
                now = self.get(epoch, "acquire")
                before = build.load(seen, typ=I32)
                self.leave_if(build.icmp_unsigned("!=", now, before), called)
                active = self.get(self.field(state, _ACTIVE))
                between = self.get(self.field(state, _BETWEEN))
                after = self.get(self.field(state, _AFTER))
                running = build.icmp_signed(">", active, i32(0))
                limit = build.select(running, between, after)
                count = build.load(looks, typ=I32)
                with build.if_else(build.icmp_unsigned("<", count, limit)) as (spin, sleep):
                    with spin:
                        build.store(build.add(count, i32(1)), looks)
                        self.rest()
                    with sleep:
                        self.add(sleepers, i32(1))
                        now = self.get(epoch, "seq_cst")
                        with build.if_then(build.icmp_unsigned("==", now, before)):
                            self.sleep(epoch, before)
                        self.add(sleepers, i32(-1))
            build.store(self.get(epoch, "acquire"), seen)
            build.store(i32(0), looks)
            stop = self.get(self.field(state, _STOP), "acquire")
            self.leave_if(build.icmp_unsigned("!=", stop, i32(0)), stopped)
            build.call(work, [state, index])
        build.ret_void()

    def stop(self) -> None:
        """Let every worker return."""
        function = self.begin("vdla_stop", VOID, POINTER)
        (state,) = function.args
        epoch = self.field(state, _EPOCH)
        self.set(self.field(state, _STOP), i32(1), "release")
        self.add(epoch, i32(1))
        self.wake(epoch, i32(_LARGEST_EXTENT))
        self.builder.ret_void()

    def pool_bytes(self) -> None:
        """Return how large the state of a pool is."""
        function = self.begin("vdla_pool_bytes", I64, I32)
        build = self.builder
        slots = build.mul(function.args[0], i32(_SLOT_BYTES))
        build.ret(build.zext(build.add(slots, i32(_SLOTS)), I64))

    def pool_start(self) -> None:
        """Fill in what does not change while a pool lives."""
        function = self.begin("vdla_pool_start", VOID, POINTER, I32, I64, I32, I32)
        state, threads, share, between, after = function.args
        build = self.builder
        self.set(self.field(state, _THREADS), threads)
        build.store(share, self.field(state, _SHARE), align=8)
        self.set(self.field(state, _BETWEEN), between)
        self.set(self.field(state, _AFTER), after, "release")
        build.ret_void()

    def spin(self) -> None:
        """Look and pause so many times, for the loader to learn how long that takes."""
        function = self.begin("vdla_spin", VOID, I32)
        build = self.builder
        looks = self.variable(i32(0))
        with self.loop() as leave:
            count = self.get(looks)
            self.leave_if(build.icmp_unsigned("==", count, function.args[0]), leave)
            self.set(looks, build.add(count, i32(1)))
            self.rest()
        build.ret_void()
