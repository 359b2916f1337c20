"""What candidates for the accelerator cost on a device: built here, and run there."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np

from vdla.compiler.tune.space import Point
from vdla.config import Config
from vdla.errors import DeviceError, InputError, ProgramError
from vdla.program import Program
from vdla.runtime.devices import HARDWARE, open_device

from .attempt import Measure

if TYPE_CHECKING:
    from vdla.compiler.ops import ConvTemplate
    from vdla.runtime.device import Device

__all__ = ["Built", "OnDevice", "close_devices", "measure_on"]

_RUNS = 3
"""Of a board, whose memory others use beside it: the middle one counts."""


def measure_on(device: str, config: Config) -> Measure:
    """Return what measures candidates of a configuration on a device.

    Parameters
    ----------
    device : str
        ``cycle``, ``rtl``, ``pynq``, or ``pynq@HOST``: a board on the network, reached over SSH
        anew for each candidate, one at a time. Faster is a worker of a pool on the board itself,
        with the tag ``pynq``, for the device ``pynq``.
    config : Config

    Raises
    ------
    InputError
        The device counts no cycles, or is none.
    """
    if device == "cycle":  # which needs no values to count
        from .accelerator import cycles

        return cycles
    name, _, host = device.partition("@")
    if name in HARDWARE and host:
        from .remote import OnBoard

        return OnBoard(name, config, host)
    if device not in ("rtl", *HARDWARE):
        raise InputError(
            f"Candidates must be measured on cycle, rtl, pynq or pynq@HOST, not {device!r}: name "
            "one of these."
        )
    return OnDevice(device, config)


@dataclass(frozen=True, eq=False)
class Built:
    """What a device needs of a candidate, in bytes: a board's numpy may not read a newer one's.

    Attributes
    ----------
    config : Config
    instructions : bytes
    memory : bytes
        Micro-ops, constants and inputs, from the program's address 0.
    start : int
        Where the result begins in it.
    expected : bytes
        The result.
    """

    config: Config
    instructions: bytes
    memory: bytes
    start: int
    expected: bytes

    @property
    def program(self) -> Program:
        """The program."""
        words = np.frombuffer(self.instructions, np.uint64).reshape(-1, 2)
        return Program(self.config, words)


@dataclass(frozen=True)
class OnDevice:
    """Counts cycles on a device, and compares what it computes.

    Parameters
    ----------
    device : str
    config : Config
    """

    device: str
    config: Config

    def __call__(self, template: ConvTemplate, point: Point, to_beat: float) -> float:
        """Return a candidate's cycles; built and run in one place."""
        return self.run(self.build(template, point), to_beat)

    def prepare(self) -> None:
        """Open the device; the gateware is built where nobody has simulated it before."""
        _opened(self.device, self.config)

    def build(self, template: ConvTemplate, point: Point) -> Built:
        """Return what the device needs, where a compiler is.

        What the program computes on the functional model is compared with the integer interpreter.

        Raises
        ------
        LoweringError
            The point cannot be lowered.
        ProgramError
            A value is wrong.
        """
        from vdla.sim import functional

        from .accelerator import check_values

        operator = template.build(point)
        check_values(template, operator)
        rng = np.random.default_rng(0)
        drawn = {
            place: rng.integers(0, 256, place.shape).astype(np.uint8).view(np.int8)
            for place in template.inputs
        }
        memory = operator.memory({**template.constants, **drawn})
        after = memory.copy()
        functional.run(operator.program, after)
        result = template.tensors.result
        start = operator.offsets[result]
        end = start + operator.read(after, result).nbytes
        program = operator.program
        return Built(
            program.config,
            program.instructions.tobytes(),
            memory.tobytes(),
            start,
            after[start:end].tobytes(),
        )

    def run(self, built: Built, to_beat: float) -> float:
        """Return the cycles of what was built, on the device.

        Raises
        ------
        ProgramError
            The device computes something else.
        DeviceError
            It counts no cycles, or cannot be used.
        """
        opened = _opened(self.device, self.config)
        counted = [opened.run(built) for _ in range(_RUNS if self.device in HARDWARE else 1)]
        return float(median_low(counted))


class _Opened:
    """A device, and the memory on it that one candidate after the other gets."""

    def __init__(self, name: str, config: Config) -> None:
        self._name = name
        self._device: Device = open_device(name, config)
        self._base, self._size = 0, 0

    def close(self) -> None:
        self._device.close()

    def run(self, built: Built) -> int:
        device, nbytes = self._device, len(built.memory)
        if nbytes > self._size:
            self._size = max(nbytes, 2 * self._size)  # what is outgrown stays reserved
            self._base = device.allocate(self._size)
        device.write(self._base, np.frombuffer(built.memory, np.uint8))
        device.launch(built.program, self._base)
        device.wait()
        cycles = device.counters().cycles
        if cycles is None:
            raise DeviceError(
                f"Candidates must be measured where cycles are counted, not on {self._name}: "
                "name cycle, rtl or pynq."
            )
        found = device.read(self._base + built.start, len(built.expected))[0]
        wrong = int(np.count_nonzero(found != np.frombuffer(built.expected, np.uint8)))
        if wrong:
            raise ProgramError(
                f"a device must compute what the functional model does, and {self._name} computes "
                f"{wrong:,} of {len(found):,} bytes otherwise"
            )
        return cycles


_OPEN: dict[tuple[str, Config], _Opened] = {}
"""The one that this process has."""


def _opened(name: str, config: Config) -> _Opened:
    if (name, config) not in _OPEN:
        close_devices()
        _OPEN[name, config] = _Opened(name, config)
    return _OPEN[name, config]


def close_devices() -> None:
    """Close what candidates ran on in this process: a board is free for others then."""
    while _OPEN:
        _OPEN.popitem()[1].close()
