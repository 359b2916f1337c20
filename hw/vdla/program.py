"""A program: encoded instructions and the configuration they are encoded for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import ProgramError
from vdla.isa import Instruction, Opcode, encode

__all__ = ["Program"]


@dataclass(frozen=True, eq=False)
class Program:
    """One instruction stream.

    Micro-ops, weights and data are not part of it: they stand in memory, and an element's
    address is ``base + dram_base * element_bytes(memory_type)`` with one base for all types.

    Parameters
    ----------
    config : Config
        What the instructions are encoded for.
    instructions : ndarray of uint64, shape (n, 2)
        Low word first, as `vdla.isa.encode` returns them.
    labels : tuple of str
        Names of layers, for listings and reports.
    layer_of : ndarray of int64, shape (n,)
        Index into `labels` of each instruction, -1 where it belongs to none. All -1 by default.

    Raises
    ------
    ProgramError
        The arrays do not fit together.
    """

    config: Config
    instructions: NDArray[np.uint64]
    labels: tuple[str, ...] = ()
    layer_of: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        words = self.instructions
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != 2:
            raise ProgramError(
                f"Instructions must be uint64 of shape (n, 2), not {words.dtype} of {words.shape}."
            )
        if len(self.layer_of) == 0 and not self.labels:
            object.__setattr__(self, "layer_of", np.full(len(words), -1, np.int64))
        layers = self.layer_of
        if layers.shape != (len(words),) or (layers >= len(self.labels)).any():
            raise ProgramError(
                f"layer_of must hold one index below {len(self.labels)} for each of "
                f"{len(words)} instructions, not shape {layers.shape} up to "
                f"{layers.max(initial=-1)}."
            )

    def __len__(self) -> int:
        return len(self.instructions)

    @classmethod
    def from_instructions(
        cls,
        instructions: Iterable[Instruction],
        config: Config,
        labels: Sequence[str] = (),
        layer_of: Sequence[int] = (),
    ) -> Program:
        """Encode instructions.

        Raises
        ------
        EncodingError
            An instruction is illegal or does not fit the configuration.
        """
        words = encode(instructions, config)
        return cls(config, words, tuple(labels), np.array(layer_of, dtype=np.int64))

    @property
    def finish(self) -> int:
        """Index of the first FINISH, where execution ends.

        Raises
        ------
        ProgramError
            There is none.
        """
        found = np.flatnonzero(self.instructions[:, 0] & np.uint64(7) == Opcode.FINISH)
        if len(found) == 0:
            raise ProgramError(
                f"A program must contain FINISH; none of its {len(self)} instructions is one."
            )
        return int(found[0])
