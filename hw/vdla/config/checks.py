"""The rules that a configuration must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.errors import ConfigError

if TYPE_CHECKING:
    from .machine import Config

__all__ = ["PACE_STEPS", "UOP_BITS", "check"]

UOP_BITS = 32
"""Width of a micro-op."""

PACE_STEPS = 1024
"""Steps of a byte in which the memory's bandwidth is counted."""

_SLOWEST_BEAT = 64
"""Cycles of a beat; a run does not begin before the last beat of the one before has passed."""
_REAL = ("clock_mhz", "dram_bytes_per_cycle")
_AXI_PAGE_BYTES = 4096
_REACH_BYTES = 4 << 30  # 30 bits of elements of at least 4 bytes
_GEMM_LOOP_BITS = 63 - 8 - 1 - 2 * 14
"""Bits of the first GEMM word left for uop_begin and uop_end less its carry bit."""


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def check(config: Config) -> None:
    """Raise `ConfigError`, with field, value and rule, where a configuration breaks one."""

    def require(held: bool, name: str, rule: str) -> None:
        if not held:
            raise ConfigError(f"{name} must {rule}, not {getattr(config, name)!r}.")

    for name, value in config.to_dict().items():
        if name == "name":
            require(isinstance(value, str), name, "be a string")
        elif name not in _REAL:  # 64.0 equals 64, and would give another hash
            require(type(value) is int, name, "be an integer")
    for name in (
        "batch",
        "block_in",
        "block_out",
        "uop_bytes",
        "inp_bytes",
        "wgt_bytes",
        "acc_bytes",
    ):
        require(_power_of_two(getattr(config, name)), name, "be a positive power of two")
    for name in ("inp_bits", "wgt_bits", "out_bits"):
        require(getattr(config, name) == 8, name, "be 8, the width of the GEMM core's operands")
    require(config.acc_bits == 32, "acc_bits", "be 32, the width of the accumulator")
    for name in ("command_queue_depth", "token_queue_depth"):
        value = getattr(config, name)
        require(_power_of_two(value) and value >= 2, name, "be a power of two of at least 2")
    require(config.axi_version in (3, 4), "axi_version", "be 3 or 4")
    require(config.axi_data_bits in (32, 64, 128, 256), "axi_data_bits", "be 32, 64, 128 or 256")
    longest = 16 if config.axi_version == 3 else 256
    require(
        _power_of_two(config.axi_burst_beats) and config.axi_burst_beats <= longest,
        "axi_burst_beats",
        f"be a power of two of at most {longest} on AXI{config.axi_version}",
    )
    require(
        config.axi_burst_beats * config.axi_bytes <= _AXI_PAGE_BYTES,
        "axi_burst_beats",
        f"keep a burst of {config.axi_bytes}-byte beats within {_AXI_PAGE_BYTES} bytes",
    )
    value = config.axi_outstanding
    require(
        _power_of_two(value) and value <= 64, "axi_outstanding", "be a power of two of at most 64"
    )
    clock = config.clock_mhz
    require(
        type(clock) in (int, float) and 0 < clock <= 1000, "clock_mhz", "be a number in (0, 1000]"
    )
    latency = config.dram_latency_cycles
    require(
        1 <= latency <= 65535,
        "dram_latency_cycles",
        "be in 1..65535",
    )
    rate, beat = config.dram_bytes_per_cycle, config.axi_bytes
    require(
        type(rate) in (int, float) and (rate == 0 or beat / _SLOWEST_BEAT <= rate <= beat),
        "dram_bytes_per_cycle",
        f"be 0, for a beat in every cycle, or in {beat / _SLOWEST_BEAT:g}..{beat}, the bytes of a "
        "beat",
    )
    memory = config.memory_bytes
    require(
        0 < memory <= _REACH_BYTES and memory % _AXI_PAGE_BYTES == 0,
        "memory_bytes",
        f"be whole pages of {_AXI_PAGE_BYTES} bytes within the {_REACH_BYTES} addresses reach",
    )
    _check_elements(config)
    _check_encoding(config)


def _check_elements(config: Config) -> None:
    for kind in ("uop", "inp", "wgt", "acc", "out"):
        size = getattr(config, f"{kind}_elem_bytes")
        if not 4 <= size <= _AXI_PAGE_BYTES:
            raise ConfigError(
                f"An {kind} element must take 4..{_AXI_PAGE_BYTES} bytes in memory, not {size}: "
                f"change batch ({config.batch}), block_in ({config.block_in}) or "
                f"block_out ({config.block_out})."
            )
    for kind in ("uop", "inp", "wgt", "acc"):
        size, total = getattr(config, f"{kind}_elem_bytes"), getattr(config, f"{kind}_bytes")
        if total < 2 * size:
            raise ConfigError(
                f"{kind}_bytes must hold at least two elements of {size} bytes, not {total}."
            )


def _check_encoding(config: Config) -> None:
    dst, src, wgt = config.dst_index_bits, config.src_index_bits, config.wgt_index_bits
    if dst + src + wgt > UOP_BITS:
        raise ConfigError(
            f"The index widths of a micro-op must sum to at most {UOP_BITS} bits, not "
            f"{dst} (acc) + {src} (inp or acc) + {wgt} (wgt) = {dst + src + wgt}: make acc_bytes "
            f"({config.acc_bytes}), inp_bytes ({config.inp_bytes}) or wgt_bytes "
            f"({config.wgt_bytes}) smaller."
        )
    if dst + src > 22:
        raise ConfigError(
            f"The dst and src factors of an ALU instruction must take at most 44 bits, not "
            f"{2 * (dst + src)}: make acc_bytes ({config.acc_bytes}) or inp_bytes "
            f"({config.inp_bytes}) smaller."
        )
    if 2 * config.uop_index_bits > _GEMM_LOOP_BITS:
        raise ConfigError(
            f"uop_bytes must be at most {4 << (_GEMM_LOOP_BITS // 2)} for uop_begin and uop_end to "
            f"fit a GEMM instruction, not {config.uop_bytes}."
        )
