"""What an accelerator says of itself, and whether this vdla can drive it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdla.config import PRESETS, Config
from vdla.errors import DeviceError
from vdla.registers import CAPABILITIES, IDENTITY, INTERFACE, Register

__all__ = ["Identity"]


@dataclass(frozen=True)
class Identity:
    """An accelerator that this driver can speak to.

    Attributes
    ----------
    version : tuple of int
        Major and minor version of registers and instructions.
    hash : int
        Of its configuration.
    capabilities : tuple of str
    """

    version: tuple[int, int]
    hash: int
    capabilities: tuple[str, ...]

    @classmethod
    def read(cls, register: Callable[[Register], int]) -> Identity:
        """Read the registers that identify an accelerator, one after the other.

        Raises
        ------
        DeviceError
            What answers is no accelerator, or one that this version of vdla does not know.
        """
        identity = register(Register.ID)
        if identity != IDENTITY:
            raise DeviceError(
                f"An accelerator's ID register must read {IDENTITY:#010x}, not {identity:#010x}: "
                "is its bitstream loaded, and is this its address?"
            )
        word = register(Register.VERSION)
        major, minor = (Register.VERSION.bits(name).of(word) for name in ("major", "minor"))
        if major != INTERFACE[0]:
            raise DeviceError(
                f"An accelerator's interface must be version {INTERFACE[0]}, which this driver "
                f"speaks, not {major}.{minor}: load a bitstream of this version of vdla."
            )
        found = register(Register.CAPABILITY)
        has = tuple(n for n in CAPABILITIES if Register.CAPABILITY.bits(n).of(found))
        lacking = [name for name in CAPABILITIES if name not in has]
        if lacking:
            raise DeviceError(
                f"An accelerator must have the capabilities {', '.join(CAPABILITIES)}, and this "
                f"one lacks {', '.join(lacking)} (its register reads {found:#x}): load a bitstream "
                "of this version of vdla."
            )
        return cls((major, minor), register(Register.CONFIG_HASH), has)

    @property
    def names(self) -> tuple[str, ...]:
        """The named configurations that it may be; those of one hash differ in clock only."""
        return tuple(known.name for known in PRESETS.values() if known.hash == self.hash)

    def require(self, config: Config) -> None:
        """Refuse what is compiled for another configuration.

        Raises
        ------
        DeviceError
            Names both configurations.
        """
        if config.hash != self.hash:
            raise DeviceError(
                f"A program must be for the accelerator's configuration, "
                f"{' or '.join(self.names) or 'unknown'} (hash {self.hash:016x}), not for "
                f"{config.name} (hash {config.hash:016x}): compile it again, or load the bitstream "
                f"of {config.name}."
            )
