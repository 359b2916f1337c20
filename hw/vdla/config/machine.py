"""The configuration: one frozen object from which every width and depth is derived."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass, field, fields, replace
from math import gcd
from pathlib import Path
from typing import Any

from vdla.errors import ConfigError

from .checks import PACE_STEPS, UOP_BITS, check

if sys.version_info >= (3, 11):
    import tomllib
else:  # the boards' images carry Python 3.10
    import tomli as tomllib

__all__ = ["Config"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Parameters of one accelerator, checked when it is made.

    Parameters
    ----------
    batch, block_in, block_out : int
        Shape of the GEMM core: ``batch x block_in`` inputs times ``block_in x block_out``
        weights each cycle. Powers of two.
    inp_bits, wgt_bits, acc_bits, out_bits : int
        Width of one scalar of each kind.
    uop_bytes, inp_bytes, wgt_bytes, acc_bytes : int
        Sizes of the scratchpads. OUT has as many entries as ACC.
    command_queue_depth, token_queue_depth : int
        Entries of each command queue and of each dependence-token queue.
    axi_version : int
        3 (Zynq-7000 ports, bursts of at most 16 beats) or 4.
    axi_data_bits, axi_burst_beats, axi_outstanding : int
        Data width, longest burst in beats, bursts in flight.
    clock_mhz : float
        Clock of the whole accelerator.
    dram_latency_cycles : int
        Latency of the reference memory, from an accepted burst to its first beat.
    dram_bytes_per_cycle : float
        What the reference memory moves in each direction, in steps of 1/1024 byte; 0 for a whole
        beat in every cycle.
    memory_bytes : int
        Contiguous memory that a network's programs, weights and activations may take together.
        Images for the PYNQ boards reserve 128 MiB.
    name : str
        Label; it takes part neither in equality nor in the hash.

    Raises
    ------
    ConfigError
        Names the field, its value and the rule it breaks.
    """

    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    inp_bits: int = 8
    wgt_bits: int = 8
    acc_bits: int = 32
    out_bits: int = 8
    uop_bytes: int = 32 << 10
    inp_bytes: int = 32 << 10
    wgt_bytes: int = 256 << 10
    acc_bytes: int = 128 << 10
    command_queue_depth: int = 512
    token_queue_depth: int = 512
    axi_version: int = 3
    axi_data_bits: int = 64
    axi_burst_beats: int = 16
    axi_outstanding: int = 8
    clock_mhz: float = 100.0
    dram_latency_cycles: int = 30
    dram_bytes_per_cycle: float = 0
    memory_bytes: int = 128 << 20
    name: str = field(default="custom", compare=False)

    def __post_init__(self) -> None:
        check(self)

    # Bytes of one element in memory and in its scratchpad.

    @property
    def uop_elem_bytes(self) -> int:
        """Bytes of one micro-op."""
        return UOP_BITS // 8

    @property
    def inp_elem_bytes(self) -> int:
        """Bytes of one INP entry, ``batch x block_in`` scalars."""
        return self.batch * self.block_in * self.inp_bits // 8

    @property
    def wgt_elem_bytes(self) -> int:
        """Bytes of one WGT entry, ``block_out x block_in`` scalars."""
        return self.block_out * self.block_in * self.wgt_bits // 8

    @property
    def acc_elem_bytes(self) -> int:
        """Bytes of one ACC entry, ``batch x block_out`` scalars."""
        return self.batch * self.block_out * self.acc_bits // 8

    @property
    def out_elem_bytes(self) -> int:
        """Bytes of one OUT entry, ``batch x block_out`` scalars."""
        return self.batch * self.block_out * self.out_bits // 8

    # Entries of each scratchpad.

    @property
    def uop_depth(self) -> int:
        """Entries of the micro-op buffer."""
        return self.uop_bytes // self.uop_elem_bytes

    @property
    def inp_depth(self) -> int:
        """Entries of INP."""
        return self.inp_bytes // self.inp_elem_bytes

    @property
    def wgt_depth(self) -> int:
        """Entries of WGT."""
        return self.wgt_bytes // self.wgt_elem_bytes

    @property
    def acc_depth(self) -> int:
        """Entries of ACC, and of OUT."""
        return self.acc_bytes // self.acc_elem_bytes

    # Widths of index fields.

    @property
    def uop_index_bits(self) -> int:
        """Bits that index a micro-op."""
        return self.uop_depth.bit_length() - 1

    @property
    def dst_index_bits(self) -> int:
        """Bits of a micro-op's dst: an ACC index."""
        return self.acc_depth.bit_length() - 1

    @property
    def src_index_bits(self) -> int:
        """Bits of a micro-op's src: an INP index for GEMM, an ACC index for ALU."""
        return max(self.inp_depth, self.acc_depth).bit_length() - 1

    @property
    def wgt_index_bits(self) -> int:
        """Bits of a micro-op's wgt: a WGT index."""
        return self.wgt_depth.bit_length() - 1

    # Rates.

    @property
    def axi_bytes(self) -> int:
        """Bytes of one beat."""
        return self.axi_data_bits // 8

    @property
    def address_bits(self) -> int:
        """Width of an address in memory: the Zynq-7000 has 32, the MPSoC 40."""
        return 32 if self.axi_version == 3 else 40

    @property
    def dram_pace(self) -> tuple[int, int]:
        """What a channel of memory earns in a cycle, and what a beat costs it.

        In the largest unit in which both are integers. See the reference memory in
        ``docs/timing.md``.
        """
        cost = self.axi_bytes * PACE_STEPS
        earned = round(self.dram_bytes_per_cycle * PACE_STEPS) or cost
        unit = gcd(earned, cost)
        return earned // unit, cost // unit

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of the GEMM core in one cycle."""
        return self.batch * self.block_in * self.block_out

    @property
    def peak_gops(self) -> float:
        """Peak rate in 10^9 operations a second; one multiply-accumulate counts as two."""
        return 2 * self.macs_per_cycle * self.clock_mhz / 1000

    @property
    def hash(self) -> int:
        """Stable 64-bit hash of what a program can see of the machine.

        Clock, DRAM latency and bandwidth, memory and name stay out: they change when or where a
        program runs, not what it means, so a program compiled for one clock runs at another.
        """
        seen = {k: v for k, v in self.to_dict().items() if k not in _NOT_HASHED}
        digest = hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).digest()
        return int.from_bytes(digest[:8], "little")

    def replace(self, **changes: Any) -> Config:
        """Return a copy with some fields changed, checked again."""
        if not changes.keys() <= {f.name for f in fields(self)}:
            unknown = sorted(changes.keys() - {f.name for f in fields(self)})
            raise ConfigError(f"Config has no field {', '.join(unknown)}. {_field_list()}")
        return replace(self, **{"name": "custom", **changes})

    def to_dict(self) -> dict[str, Any]:
        """Return every field by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def to_toml(self) -> str:
        """Return the configuration as TOML text that `from_toml` reads back."""
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.to_dict().items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """Make a configuration from field values; missing fields take their default."""
        unknown = sorted(values.keys() - {f.name for f in fields(cls)})
        if unknown:
            raise ConfigError(f"Config has no field {', '.join(unknown)}. {_field_list()}")
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | Path) -> Config:
        """Read a TOML file, or VTA's ``vta_config.json`` where the name ends in ``.json``.

        Raises
        ------
        ConfigError
            The file cannot be read or parsed, or holds a value that breaks a rule.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"A configuration file must be readable text: {path}: {error}"
            ) from None
        if path.suffix == ".json":
            return cls.from_vta_json(text, name=path.stem)
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"A configuration file must be TOML: {path}: {error}") from None
        return cls.from_dict({"name": path.stem, **values})

    @classmethod
    def from_vta_json(cls, text: str, name: str = "vta") -> Config:
        """Make a configuration from the text of VTA's ``vta_config.json``.

        VTA gives the base-2 logarithm of every size.
        """
        try:
            vta = json.loads(text)
            values = {
                ours: 1 << int(vta[theirs]) for theirs, ours in _VTA_KEYS.items() if theirs in vta
            }
            if "LOG_BLOCK" in vta:
                values["block_in"] = values["block_out"] = 1 << int(vta["LOG_BLOCK"])
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"A VTA configuration must be a JSON object of integers: {error}"
            ) from None
        if not values:
            raise ConfigError(
                f"A VTA configuration must hold keys such as LOG_BLOCK, not {sorted(vta)[:4]}."
            )
        return cls(name=name, **values)


_NOT_HASHED = frozenset(
    {"clock_mhz", "dram_bytes_per_cycle", "dram_latency_cycles", "memory_bytes", "name"}
)

_VTA_KEYS = {
    "LOG_BATCH": "batch",
    "LOG_BLOCK_IN": "block_in",
    "LOG_BLOCK_OUT": "block_out",
    "LOG_INP_WIDTH": "inp_bits",
    "LOG_WGT_WIDTH": "wgt_bits",
    "LOG_ACC_WIDTH": "acc_bits",
    "LOG_OUT_WIDTH": "out_bits",
    "LOG_UOP_BUFF_SIZE": "uop_bytes",
    "LOG_INP_BUFF_SIZE": "inp_bytes",
    "LOG_WGT_BUFF_SIZE": "wgt_bytes",
    "LOG_ACC_BUFF_SIZE": "acc_bytes",
}


def _field_list() -> str:
    return "Its fields are: " + ", ".join(f.name for f in fields(Config)) + "."
