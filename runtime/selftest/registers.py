"""What the registers of an accelerator must hold and keep."""

from __future__ import annotations

from collections.abc import Iterator

from vdla.config import Config
from vdla.registers import BASES, IDENTITY, INTERFACE, Register
from vdla.runtime.driver import Driver

__all__ = ["register_checks"]

_PATTERNS = (0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA, 0x0123_4567_89AB_CDEF)
_COUNT_BITS, _LIMIT_BITS = 32, 48


def register_checks(driver: Driver, config: Config) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each check, and what is wrong, None where nothing is."""
    identity = driver.read(Register.ID)
    yield "ID", _differs("ID", IDENTITY, identity)
    major = Register.VERSION.bits("major").of(driver.read(Register.VERSION))
    yield (
        "version",
        None
        if major == INTERFACE[0]
        else (
            f"the interface must be version {INTERFACE[0]}, not {major}: load a bitstream of this "
            "version of vdla"
        ),
    )
    found = driver.read(Register.CONFIG_HASH)
    yield (
        "configuration",
        None
        if found == config.hash
        else (
            f"the hash must be that of {config.name}, {config.hash:016x}, not {found:016x}: name "
            "the bitstream's configuration with --config, or load another"
        ),
    )
    capability = driver.read(Register.CAPABILITY)
    missing = [bits.name for bits in Register.CAPABILITY.fields if not capability & bits.mask]
    yield "capabilities", f"{', '.join(missing)} must be set" if missing else None
    for register, bits in _kept(config):
        yield register.name, _keeps(driver, register, bits)


def _kept(config: Config) -> Iterator[tuple[Register, int]]:
    """Yield the registers that software writes, and how many bits of them matter."""
    yield Register.INSTRUCTION_COUNT, _COUNT_BITS
    yield Register.CYCLE_LIMIT, _LIMIT_BITS
    for register in (Register.INSTRUCTION_BASE, *BASES.values()):
        yield register, config.address_bits


def _keeps(driver: Driver, register: Register, bits: int) -> str | None:
    """Write patterns and read them back; what stood there is put back."""
    mask = (1 << bits) - 1
    if register is Register.INSTRUCTION_BASE:
        mask &= ~0xFFF  # a page's address
    before = driver.read(register)
    try:
        for pattern in _PATTERNS:
            driver.write(register, pattern & mask)
            wrong = _differs(register.name, pattern & mask, driver.read(register) & mask)
            if wrong:
                return wrong
    finally:
        driver.write(register, before)
    return None


def _differs(name: str, expected: int, found: int) -> str | None:
    return None if expected == found else f"{name} must read {expected:#x}, not {found:#x}"
