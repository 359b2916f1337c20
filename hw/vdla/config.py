"""The configuration: one frozen object from which every width and depth is derived."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from vdla.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:  # the boards' images carry Python 3.10
    import tomli as tomllib

__all__ = ["PAPER", "PRESETS", "PYNQ_Z1", "PYNQ_Z2", "TINY", "ULTRA96", "ZCU104", "Config", "named"]

_AXI_PAGE_BYTES = 4096
_UOP_BITS = 32
_GEMM_LOOP_BITS = 63 - 8 - 1 - 2 * 14
"""Bits of the first GEMM word left for uop_begin and uop_end less its carry bit."""


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
    name: str = field(default="custom", compare=False)

    def __post_init__(self) -> None:
        _check(self)

    # Bytes of one element in memory and in its scratchpad.

    @property
    def uop_elem_bytes(self) -> int:
        """Bytes of one micro-op."""
        return _UOP_BITS // 8

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

        Clock, DRAM latency and name stay out: they change when a program finishes, not what it
        means, so a program compiled for one clock runs at another.
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
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"A VTA configuration must be a JSON object of integers: {error}"
            ) from None
        if "LOG_BLOCK" in vta:
            values["block_in"] = values["block_out"] = 1 << int(vta["LOG_BLOCK"])
        if not values:
            raise ConfigError(
                f"A VTA configuration must hold keys such as LOG_BLOCK, not {sorted(vta)[:4]}."
            )
        return cls(name=name, **values)


_NOT_HASHED = frozenset({"clock_mhz", "dram_latency_cycles", "name"})

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


def _power_of_two(value: object) -> bool:
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value > 0
        and value & (value - 1) == 0
    )


def _check(config: Config) -> None:
    def require(held: bool, name: str, rule: str) -> None:
        if not held:
            raise ConfigError(f"{name} must {rule}, not {getattr(config, name)!r}.")

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
    require(isinstance(clock, (int, float)) and 0 < clock <= 1000, "clock_mhz", "lie in (0, 1000]")
    latency = config.dram_latency_cycles
    require(
        isinstance(latency, int) and 1 <= latency <= 65535,
        "dram_latency_cycles",
        "be an integer in 1..65535",
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
    if dst + src + wgt > _UOP_BITS:
        raise ConfigError(
            f"The index widths of a micro-op must sum to at most {_UOP_BITS} bits, not {dst} (acc) + "
            f"{src} (inp or acc) + {wgt} (wgt) = {dst + src + wgt}: make acc_bytes "
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


PYNQ_Z1 = Config(name="pynq-z1")
PYNQ_Z2 = PYNQ_Z1.replace(name="pynq-z2")
PAPER = Config(name="paper", wgt_bytes=32 << 10, clock_mhz=200.0)
ULTRA96 = Config(
    name="ultra96", axi_version=4, axi_data_bits=128, axi_burst_beats=64, clock_mhz=300.0
)
ZCU104 = ULTRA96.replace(name="zcu104")
TINY = Config(
    name="tiny",
    block_in=4,
    block_out=4,
    uop_bytes=2 << 10,
    inp_bytes=2 << 10,
    wgt_bytes=4 << 10,
    acc_bytes=8 << 10,
    axi_outstanding=4,
)

PRESETS = {config.name: config for config in (PYNQ_Z1, PYNQ_Z2, PAPER, ULTRA96, ZCU104, TINY)}
"""The named configurations, by name."""


def named(name: str) -> Config:
    """Return a named configuration; case, ``_`` and ``-`` make no difference.

    Raises
    ------
    ConfigError
        No configuration has that name.
    """
    try:
        return PRESETS[name.lower().replace("_", "-")]
    except KeyError:
        known = ", ".join(PRESETS)
        raise ConfigError(f"A configuration name must be one of {known}, not {name!r}.") from None
