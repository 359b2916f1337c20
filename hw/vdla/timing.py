"""The constants of ``docs/timing.md``, for the gateware, the cycle model and the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from vdla.config import Config
from vdla.isa import AluOp

__all__ = [
    "INSTRUCTION_BYTES",
    "PAGE_BYTES",
    "SLOW_OPERATIONS",
    "TIMING",
    "Constant",
    "Timing",
    "compute_latency",
    "constants",
    "fetch_bursts",
    "read_slots",
    "store_latency",
    "unloaded_load_latency",
]

INSTRUCTION_BYTES = 16
PAGE_BYTES = 4096
"""No AXI burst crosses an address that this divides."""
SLOW_OPERATIONS = (AluOp.RQ, AluOp.MUL, AluOp.SHR)
"""Vector operations that take `Timing.slow_cycles`; results of the others are forwarded after 1."""


def _constant(value: int, unit: str, reason: str) -> Any:
    return field(default=value, metadata={"unit": unit, "reason": reason})


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Pipeline depths and overheads; each field's metadata holds its unit and its reason.

    Examples
    --------
    >>> TIMING.queue_cycles
    2
    """

    fetch_start_cycles: int = _constant(
        1, "cycles", "from the start bit to fetch's first burst: the bit is registered"
    )
    fetch_burst_slots: int = _constant(
        2, "bursts", "one burst of instructions arrives while the one before is dispatched"
    )
    queue_cycles: int = _constant(
        2,
        "cycles",
        "from dispatch to the head of a command queue: block RAM and its output register",
    )
    setup_cycles: int = _constant(
        2,
        "cycles",
        "from the start of a LOAD or STORE to its first burst: byte address, then the "
        "length up to the page, each an adder deep",
    )
    request_cycles: int = _constant(
        1, "cycles", "from a generated burst to the arbiter: the request is a register"
    )
    grant_cycles: int = _constant(
        1, "cycles", "from the arbiter's choice to the bus: the address channel is a register"
    )
    drain_cycles: int = _constant(
        1, "cycles", "from a beat on the bus to the stage that writes it: the beat is stored first"
    )
    store_data_cycles: int = _constant(
        3,
        "cycles",
        "from a generated burst to its first beat: OUT's address, its output register, "
        "the data channel's register",
    )
    response_cycles: int = _constant(
        1, "cycles", "from a write response to retirement: the response is counted first"
    )
    inflight: int = _constant(
        32,
        "instructions",
        "started and not retired, in each module: covers compute_latency, so that even "
        "instructions of one micro-op leave no bubble",
    )
    sequencer_cycles: int = _constant(
        4,
        "cycles",
        "from the head of compute's queue to the issue stage: micro-op address, block RAM, "
        "its output register, index addition",
    )
    sram_cycles: int = _constant(2, "cycles", "INP, WGT and ACC: block RAM and its output register")
    broadcast_cycles: int = _constant(
        1, "cycles", "an operand register per lane keeps the fan-out of INP short"
    )
    multiply_cycles: int = _constant(3, "cycles", "DSP48E1 input, product and output registers")
    slow_cycles: int = _constant(
        9,
        "cycles",
        "from ACC operands to a result: 1 for GEMM, ADD, MIN and MAX, which forward it; all of "
        "them for RQ (bias 1, 32x32 product 4, rounding 1, shift 2, clip 1), MUL and SHR",
    )
    acc_write_cycles: int = _constant(1, "cycles", "the write ports of ACC and OUT are registered")
    rq_parameter_reads: int = _constant(
        3, "cycles", "bias, multiplier and packed shift through ACC's one read port"
    )
    tensor_slots: int = _constant(
        2, "cycles", "a tensor-tensor ALU vector reads acc[src], then acc[dst], through one port"
    )


TIMING = Timing()
"""The machine's constants."""


@dataclass(frozen=True)
class Constant:
    """A row of the table."""

    name: str
    value: int
    unit: str
    reason: str


def constants(timing: Timing = TIMING) -> tuple[Constant, ...]:
    """Return the table, a row for each constant."""
    return tuple(
        Constant(f.name, getattr(timing, f.name), f.metadata["unit"], f.metadata["reason"])
        for f in fields(timing)
    )


def compute_latency(config: Config, timing: Timing = TIMING) -> int:
    """Return the cycles from an issue slot to the retirement of the instruction it ends.

    One adder-tree level a cycle, so the depth grows with log2 of `block_in`.
    """
    tree = config.block_in.bit_length() - 1
    return (
        timing.sram_cycles
        + timing.broadcast_cycles
        + timing.multiply_cycles
        + tree
        + timing.slow_cycles
        + timing.acc_write_cycles
    )


def fetch_bursts(config: Config, timing: Timing = TIMING) -> int:
    """Return fetch's burst slots: at least two whole instructions, however short a burst is."""
    burst_bytes = config.axi_burst_beats * config.axi_bytes
    return max(timing.fetch_burst_slots, 2 * INSTRUCTION_BYTES // burst_bytes)


def read_slots(config: Config) -> int:
    """Return the burst slots of load and of compute's loader."""
    return config.axi_outstanding


def unloaded_load_latency(config: Config, timing: Timing = TIMING) -> int:
    """Return the cycles from a LOAD's start to its first write, with nothing else on the bus."""
    return (
        timing.setup_cycles
        + timing.request_cycles
        + timing.grant_cycles
        + config.dram_latency_cycles
        + timing.drain_cycles
    )


def store_latency(config: Config, timing: Timing = TIMING) -> int:
    """Return the cycles a STORE takes beyond its beats: from start to first beat, then response."""
    return (
        timing.setup_cycles
        + timing.store_data_cycles
        + config.dram_latency_cycles
        + timing.response_cycles
        - 1
    )
