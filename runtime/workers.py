"""Threads that run the parallel loops of libraries.

The code that they run stands in every library (``vdla.compiler.targets.cpu.pool``); the threads and
the memory that they share are the process's, and all libraries that ask for as many threads use the
same. They are threads of Python, which lets the others run while they are in a library, so nothing
has to be linked to start them.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from vdla.processor import available_cpus, cpu_budget

__all__ = ["Workers", "shared_workers"]

BETWEEN_LOOPS_US = 1000
"""How long a thread looks for the next loop of a run before it sleeps. Waking takes 50 to 100 us,
and most steps between two loops less than that."""
AFTER_A_RUN_US = 20
"""The same when no run is under way; long enough for the next call from Python."""

_SPIN_TURNS = 5000  # in one measurement of how long a turn of waiting takes
_pools: weakref.WeakValueDictionary[tuple[int, bool], Workers] = weakref.WeakValueDictionary()
_pools_lock = threading.Lock()


class Workers:
    """Threads and the state that they share.

    Parameters
    ----------
    handle : object
        Keeps the library loaded whose code the threads run.
    functions : ctypes.CDLL
        That library.
    threads : int
        At least 2, the caller's included.
    pin : bool
        Bind every thread but the caller's to a CPU of its own.
    """

    def __init__(self, handle: object, functions: ctypes.CDLL, threads: int, pin: bool) -> None:
        self.threads, self.pin = threads, pin
        self._handle, self._functions = handle, functions
        size = functions.vdla_pool_bytes
        size.argtypes, size.restype = [ctypes.c_int32], ctypes.c_int64
        # Private: a child that is forked gets a copy. Aligned to a page.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._state = mmap.mmap(-1, size(threads), flags=flags)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._state))
        self.lock = threading.Lock()
        """Held by whoever runs a function: two runs at once would be more threads than asked for,
        so the second waits."""
        self._started: list[threading.Thread] = []
        self._finalizer: Callable[[], Any] | None = None

    def start(self) -> None:
        """Start the threads, where they do not run already."""
        if self._started:
            return
        cpus = available_cpus()
        between = after = 0
        if self.threads <= cpu_budget():  # else who waits would keep others from working
            turns_per_us = _turns_per_us(self._functions)
            between = int(BETWEEN_LOOPS_US * turns_per_us)
            after = int(AFTER_A_RUN_US * turns_per_us)
        begin = self._functions.vdla_pool_start
        begin.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int32,
            ctypes.c_int64,
            ctypes.c_int32,
            ctypes.c_int32,
        ]
        begin.restype = None
        share = -(-(1 << 32) // self.threads)
        begin(self.address, self.threads, share, between, after)
        for index in range(1, self.threads):
            cpu = cpus[index % len(cpus)] if self.pin else None  # the first is left to the caller
            arguments = (self._functions, self.address, index, cpu)
            thread = threading.Thread(
                target=_work, args=arguments, name=f"vdla-{index}", daemon=True
            )
            thread.start()
            self._started.append(thread)
        held = (self._handle, self._functions, self._state, self.address, list(self._started))
        self._finalizer = weakref.finalize(self, _stop, *held)

    def forget(self) -> None:
        """Start over in a process that was forked: threads stay behind in the parent."""
        self.lock = threading.Lock()
        self._started = []
        if self._finalizer is not None:
            self._finalizer.detach()  # type: ignore[attr-defined]
        ctypes.memset(self.address, 0, len(self._state))


def shared_workers(handle: object, functions: ctypes.CDLL, threads: int, pin: bool) -> Workers:
    """Return the process's threads of this number and kind; they start with the first run.

    They stop when the last library that uses them is closed.

    Parameters
    ----------
    handle : object
    functions : ctypes.CDLL
        The library that gives the code, where these are new; see `Workers`.
    threads : int
    pin : bool
    """
    with _pools_lock:
        key = (threads, pin)
        found = _pools.get(key)
        if found is None:
            found = _pools[key] = Workers(handle, functions, threads, pin)
        return found


def _work(functions: ctypes.CDLL, address: int, index: int, cpu: int | None) -> None:
    if cpu is not None:
        with contextlib.suppress(OSError):  # taken from the process since; it runs anywhere then
            os.sched_setaffinity(0, {cpu})  # 0: this thread alone
    functions.vdla_worker(ctypes.c_void_p(address), ctypes.c_int32(index))


def _stop(
    handle: object,
    functions: ctypes.CDLL,
    state: mmap.mmap,
    address: int,
    started: list[threading.Thread],
) -> None:
    """Let threads return and wait until they have: what they run and share stays until then."""
    functions.vdla_stop(ctypes.c_void_p(address))
    for thread in started:
        thread.join()


def _turns_per_us(functions: ctypes.CDLL) -> float:
    """Return how many turns a waiting loop makes in a microsecond."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        functions.vdla_spin(ctypes.c_int32(_SPIN_TURNS))
        best = min(best, time.perf_counter() - begin)
    return _SPIN_TURNS / max(best * 1e6, 1e-3)


def _after_fork() -> None:
    global _pools_lock
    _pools_lock = threading.Lock()
    for pool in list(_pools.values()):
        pool.forget()


os.register_at_fork(after_in_child=_after_fork)
