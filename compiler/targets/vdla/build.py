"""From scheduled tensor expressions to a program: the whole back end, in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.ir.stmt import Buffer
from vdla.compiler.lower.pipeline import dump, lower
from vdla.compiler.te import Schedule, Tensor
from vdla.config import Config
from vdla.errors import InputError, LoweringError
from vdla.isa import Finish, ModuleName
from vdla.isa.asm import disassemble
from vdla.program import Program

from .emit import Emitter, Target
from .kernels import KernelStore, place_kernels
from .ops import Op, ops_text
from .sram import assign_scratchpads
from .tokens import link_tokens

__all__ = ["Assembly", "Operator", "assemble", "build", "emit_schedule"]

_ALIGN_BYTES = 4096
"""Every tensor starts on a page, so that its first burst is never cut short."""


@dataclass(frozen=True)
class Assembly:
    """A finished program and the micro-ops it loads.

    Attributes
    ----------
    program : Program
    uops : ndarray of uint8
        Image of the micro-op store, to be put at the base it was assembled for.
    """

    program: Program
    uops: NDArray[np.uint8]


def emit_schedule(
    schedule: Schedule,
    memory: Mapping[Tensor, int],
    constants: Collection[Tensor],
    config: Config,
    layer: int = 0,
) -> list[Op]:
    """Lower one schedule and return its instructions, not yet joined by tokens.

    Parameters
    ----------
    schedule : Schedule
    memory : mapping of Tensor to int
        Byte offset in the arena of every input and output.
    constants : collection of Tensor
        Inputs that nothing writes while the program runs.
    layer : int
        Recorded in every instruction, for reports.

    Raises
    ------
    LoweringError
        The schedule does not lower, or does not fit the scratchpads.
    """
    body, arguments = lower(schedule)
    missing = [tensor.name for tensor in arguments if tensor not in memory]
    if missing:
        raise LoweringError(f"Every input and output needs a place; {', '.join(missing)} has none.")
    places: dict[Buffer, int] = {arguments[tensor]: memory[tensor] for tensor in arguments}
    fixed = {arguments[tensor] for tensor in constants if tensor in arguments}
    scratchpads = assign_scratchpads(body, config, from_end=bool(layer % 2))
    target = Target(config, scratchpads, places, fixed)
    return Emitter(target, layer).emit(body)


def assemble(
    ops: list[Op], config: Config, *, arena_bytes: int, uop_base: int, labels: Sequence[str]
) -> Assembly:
    """Join instructions into a program.

    Stages, in order; ``VDLA_DUMP`` set to one's name prints what it leaves:

    ``kernels``
        equal kernels of micro-ops are shared and their loads placed;
    ``tokens``
        dependences become tokens, and FINISH waits for all of them;
    ``program``
        instructions are encoded.

    Parameters
    ----------
    ops : list of Op
        Instructions of one or more schedules, in stream order.
    arena_bytes : int
        Bytes of tensors in the arena.
    uop_base : int
        Byte offset where the micro-ops will stand.
    labels : sequence of str
        Name of each layer.
    """
    store = KernelStore(config, uop_base)
    placed = place_kernels(ops, store)
    dump("kernels", lambda: ops_text(placed))
    finish = Op(ModuleName.COMPUTE, Finish, {}, max((op.layer for op in ops), default=0))
    linked = link_tokens(placed, config, arena_bytes, finish)
    dump("tokens", lambda: ops_text(linked))
    program = Program.from_instructions(
        (op.instruction() for op in linked),
        config,
        labels,
        [op.layer if labels else -1 for op in linked],
    )
    dump("program", lambda: disassemble(program))
    return Assembly(program, store.image())


@dataclass(frozen=True)
class Operator:
    """One compiled schedule with its memory.

    Attributes
    ----------
    program : Program
    offsets : dict of Tensor to int
        Byte offset of each argument.
    size : int
        Bytes of memory the operator needs.
    """

    program: Program
    offsets: dict[Tensor, int]
    size: int
    _uops: NDArray[np.uint8]
    _uop_base: int

    def memory(self, inputs: Mapping[Tensor, NDArray[np.generic]]) -> NDArray[np.uint8]:
        """Return a memory image holding the micro-ops and the given tensors.

        Raises
        ------
        InputError
            An array does not have its tensor's shape and dtype.
        """
        image = np.zeros(self.size, np.uint8)
        image[self._uop_base : self._uop_base + len(self._uops)] = self._uops
        for tensor, values in inputs.items():
            if values.shape != tensor.shape or values.dtype != tensor.dtype:
                raise InputError(
                    f"{tensor.name} must be {tensor.dtype} of shape {tensor.shape}, not "
                    f"{values.dtype} of {values.shape}."
                )
            start = self.offsets[tensor]
            image[start : start + values.nbytes] = (
                np.ascontiguousarray(values).view(np.uint8).ravel()
            )
        return image

    def read(self, memory: NDArray[np.uint8], tensor: Tensor) -> NDArray[np.generic]:
        """Return a tensor's values from a memory image."""
        start, dtype = self.offsets[tensor], np.dtype(tensor.dtype)
        count = int(np.prod(tensor.shape))
        values = memory[start : start + count * dtype.itemsize].view(dtype)
        return values.reshape(tensor.shape)


def build(schedule: Schedule, arguments: Sequence[Tensor], config: Config) -> Operator:
    """Compile one schedule for the accelerator.

    Parameters
    ----------
    schedule : Schedule
        Every stage ends in an intrinsic of `vdla.compiler.targets.vdla.intrinsics` or in a copy
        marked ``dma_copy``.
    arguments : sequence of Tensor
        Inputs and outputs.
    """
    offsets: dict[Tensor, int] = {}
    size = 0
    for tensor in arguments:
        offsets[tensor] = size
        nbytes = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
        size += -(-nbytes // _ALIGN_BYTES) * _ALIGN_BYTES
    constants = [tensor for tensor in arguments if tensor.body is None]
    ops = emit_schedule(schedule, offsets, constants, config)
    made = assemble(ops, config, arena_bytes=size, uop_base=size, labels=())
    return Operator(made.program, offsets, size + len(made.uops), made.uops, size)
