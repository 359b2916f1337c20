"""No accelerator at all: networks whose operators all stay on the processor."""

from __future__ import annotations

from typing import NoReturn

from vdla.config import Config
from vdla.errors import DeviceError
from vdla.program import Program
from vdla.runtime.device import Bytes, Counters

__all__ = ["ProcessorDevice"]


class ProcessorDevice:
    """Runs networks without programs; it has no memory for them.

    Parameters
    ----------
    config : Config
    images : int
        How many a pass may hold.
    """

    def __init__(self, config: Config, images: int = 1) -> None:
        self.config = config
        self.images = images

    def allocate(self, nbytes: int, align: int = 4096) -> int:
        """Refuse a network that needs an accelerator's memory."""
        return 0 if nbytes == 0 else self._refuse()

    def write(self, address: int, data: Bytes) -> None:
        """Refuse."""
        self._refuse()

    def read(self, address: int, nbytes: int) -> Bytes:
        """Refuse."""
        self._refuse()

    def launch(self, program: Program, base: int = 0) -> None:
        """Refuse."""
        self._refuse()

    def wait(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Do nothing."""

    def counters(self) -> Counters:
        """Return nothing: nothing ran."""
        return Counters()

    def _refuse(self) -> NoReturn:
        raise DeviceError(
            "A network must have all its operators on the processor to run on the device cpu, and "
            "this one has programs for an accelerator: compile it with the target cpu, or name a "
            "simulator or a board."
        )
