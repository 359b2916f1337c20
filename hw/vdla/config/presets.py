"""The named configurations."""

from __future__ import annotations

from vdla.errors import ConfigError

from .machine import Config

__all__ = [
    "AUP_ZU3",
    "KV260",
    "PAPER",
    "PRESETS",
    "PYNQ_Z1",
    "PYNQ_Z2",
    "TINY",
    "ULTRA96",
    "ZCU104",
    "named",
]

PYNQ_Z1 = Config(name="pynq-z1")
PYNQ_Z2 = PYNQ_Z1.replace(name="pynq-z2")
PAPER = Config(name="paper", wgt_bytes=32 << 10, clock_mhz=200.0)
ULTRA96 = Config(
    name="ultra96", axi_version=4, axi_data_bits=128, axi_burst_beats=64, clock_mhz=300.0
)
ZCU104 = ULTRA96.replace(name="zcu104")
KV260 = ULTRA96.replace(name="kv260", clock_mhz=250.0)  # its PL clock divides 1000 MHz
AUP_ZU3 = ULTRA96.replace(name="aup-zu3")
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

PRESETS = {
    config.name: config
    for config in (PYNQ_Z1, PYNQ_Z2, PAPER, ULTRA96, ZCU104, KV260, AUP_ZU3, TINY)
}
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
