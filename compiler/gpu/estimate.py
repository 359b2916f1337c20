"""An estimate of the time that a tile takes: a roofline of a nominal GPU."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Work", "registers_of", "seconds_of"]

_MULTIPROCESSORS, _CLOCK_HZ = 64, 1.5e9
_PRODUCTS, _REQUESTS, _ISSUED = 128, 1, 4
"""Of a multiprocessor and cycle: multiplications, a warp's reads of shared memory, instructions."""
_WARP = 32
_BYTES_A_SECOND = 2e12
"""From the cache that all multiprocessors share."""
_LATENCY_CYCLES = 500
"""From the first read of a step to its last barrier."""
_COPIED = 4
"""Instructions for an element that is copied to shared memory: address, read, write, loop."""
_RESIDENT_THREADS, _RESIDENT_BLOCKS = 2048, 24
_REGISTERS, _SHARED_BYTES = 64 << 10, 96 << 10
"""Of a multiprocessor, as NVIDIA's have since Volta, or nearly."""
_OWN_REGISTERS = 24
"""Of a thread, beside its sums and their operands: addresses and counters."""
_ELEMENT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the blocks of a tile do, all of them alike: the last ones are as large.

    Attributes
    ----------
    blocks, threads, steps : int
        Of the grid, of a block, and of a block's reduction.
    products, reads : float
        Of a thread and step: multiplications, and reads of shared memory, up to 128 bits at a time.
    fetched : int
        Elements of four bytes that a block copies to shared memory in a step: what it takes there.
    sums, operands : int
        In the registers of a thread.
    """

    blocks: int
    threads: int
    steps: int
    products: float
    reads: float
    fetched: int
    sums: int
    operands: int

    @property
    def shared_bytes(self) -> int:
        """What a block takes of shared memory."""
        return self.fetched * _ELEMENT_BYTES


def registers_of(work: Work) -> int:
    """Return about how many registers a thread needs."""
    return work.sums + work.operands + _OWN_REGISTERS


def seconds_of(work: Work) -> float:
    """Return an estimate of the time that a kernel takes.

    A multiprocessor holds several blocks, and computes for one while another waits for memory. What
    they do in a step takes as long as its multiplications, its reads of shared memory or its
    instructions, whichever is the most; all blocks together take no less than what they read.
    """
    warps = -(-work.threads // _WARP)
    copied = -(-work.fetched // work.threads) * _COPIED
    cycles = warps * max(
        _WARP * work.products / _PRODUCTS,
        work.reads / _REQUESTS,
        (work.products + work.reads + copied) / _ISSUED,
    )
    each = -(-work.blocks // _MULTIPROCESSORS)
    resident = min(
        each,
        _RESIDENT_BLOCKS,
        max(1, _RESIDENT_THREADS // (warps * _WARP)),
        max(1, _REGISTERS // (warps * _WARP * registers_of(work))),
        max(1, _SHARED_BYTES // work.shared_bytes),
    )
    rounds = -(-each // resident)
    step = max(resident * cycles, cycles + _LATENCY_CYCLES)
    computed = rounds * work.steps * step / _CLOCK_HZ
    read = work.blocks * work.steps * work.shared_bytes / _BYTES_A_SECOND
    return max(computed, read)
