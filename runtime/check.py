"""Comparing every layer with the integer interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node, Quant, Tensor
from vdla.isa import Opcode, decode_columns, element_bytes, layout
from vdla.isa.fields import MemoryType
from vdla.module import Launch, Layer, Module, TensorInfo
from vdla.program import Program
from vdla.runtime.session import Outcome

__all__ = ["Difference", "first_difference", "graph_of", "spread"]

Array = NDArray[Any]
_PAGE_BYTES = 4096
_FLOAT_TOLERANCE = 1e-4
"""Of a layer's largest value; float layers add in whatever order a matrix product adds."""
_HALF_TOLERANCE = 4e-3
"""The same for float16, four units in the last place."""


@dataclass(frozen=True)
class Difference:
    """The first element in which a layer differs from the interpreter.

    Attributes
    ----------
    layer : str
    index : tuple of int
        Image, then the indices of the layer's output.
    got, want : int or float
        On the device, and by the interpreter.
    """

    layer: str
    index: tuple[int, ...]
    got: float
    want: float

    def at_image(self, first: int) -> Difference:
        """Return the difference with images counted from `first`."""
        return replace(self, index=(self.index[0] + first, *self.index[1:]))

    def in_image(self, image: int) -> Difference:
        """Return the difference with its image named, of a network that takes one at a time."""
        return replace(self, index=(image, *self.index))

    def __str__(self) -> str:
        return f"{self.layer} at {self.index}: {self.got}, not {self.want}"


def graph_of(module: Module) -> Graph:
    """Return the network that a module was compiled from."""
    nodes = [Node(x.name, x.op, x.inputs, x.outputs, x.attrs) for x in module.layers]
    tensors = [_tensor(t) for t in module.tensors.values()]
    return Graph(module.name, tensors, nodes, module.inputs, module.outputs)


def _tensor(info: TensorInfo) -> Tensor:
    quant = None
    if info.scale is not None and info.zero_point is not None:
        quant = Quant(info.scale, info.zero_point, info.axis)
    return Tensor(info.name, info.shape, np.dtype(info.dtype), quant, info.data, info.source)


def spread(module: Module) -> Module:
    """Return a module that does the same with no two buffers in one place, but parts in wholes.

    Every layer's output is then still there at the end; on the processor numpy computes it, for
    machine code keeps what lies within a run to itself. Only addresses of activations change, by
    whole pages; instructions, their order and their tokens stay, and so does their timing.

    Before: ``conv a: 0x5000 -> 0x6000; conv b: 0x6000 -> 0x5000``. After: ``conv a: 0x9000 ->
    0xa000; conv b: 0xa000 -> 0xb000``.
    """
    end = -(-module.arena_bytes // _PAGE_BYTES) * _PAGE_BYTES
    buffers = []
    for buffer in module.buffers:
        buffers.append(replace(buffer, offset=end))
        if buffer.inside is None:
            end += -(-prod(buffer.shape) // _PAGE_BYTES) * _PAGE_BYTES
    for number, buffer in enumerate(module.buffers):
        whole = number
        while (outer := module.buffers[whole].inside) is not None:
            whole = outer
        shift = buffers[whole].offset - module.buffers[whole].offset
        buffers[number] = replace(buffer, offset=buffer.offset + shift)
    moved = replace(module, buffers=tuple(buffers), arena_bytes=end, gpu=None, native=None)
    programs = list(module.programs)
    for step in module.steps:
        if isinstance(step, Launch):
            programs[step.program] = _moved(module, moved, step)
    return replace(moved, programs=tuple(programs))


def _moved(module: Module, target: Module, step: Launch) -> Program:
    """Return a program with each access to a buffer of its layer's moved to the buffer's place."""
    program = module.programs[step.program]
    columns = decode_columns(program.instructions, module.config)
    sizes = np.zeros(max(MemoryType) + 1, np.int64)
    for kind in MemoryType:
        sizes[kind] = element_bytes(kind, module.config)
    element = sizes[columns["memory_type"]]
    transfers = np.isin(columns["opcode"], (Opcode.LOAD, Opcode.STORE)) & (columns["y_size"] > 0)
    address = columns["dram_base"] * element
    shift = np.zeros(len(program), np.int64)
    for number, layer in enumerate(step.layers):
        mine = transfers & (program.layer_of == number)
        for index in {*layer.reads, layer.writes}:
            begin, to = module.buffers[index].offset, target.buffers[index].offset
            inside = mine & (address >= begin) & (address < begin + module.buffers[index].nbytes)
            shift[inside] = (to - begin) // element[inside]
    place = next(b for b in layout(Opcode.LOAD, module.config) if b.name == "dram_base")
    words = program.instructions.copy()
    # dram_base lies at the same bits of the low word in LOAD and STORE.
    words[:, 0] += shift.astype(np.uint64) << np.uint64(place.lsb)
    return replace(program, instructions=words)


def first_difference(
    module: Module,
    outcome: Outcome,
    values: Mapping[str, Array],
    expected: Mapping[str, Array],
) -> Difference | None:
    """Return where a network first differs from the interpreter.

    Parameters
    ----------
    module : Module
        What `spread` made.
    outcome : Outcome
        Of running it, with its buffers.
    values : mapping of str to array
        What the network itself left in host memory: an error of the memory plan shows only here.
    expected : mapping of str to array
        Every activation, (n, ...).
    """
    written = {
        placed.layer: placed.writes
        for step in module.steps
        if isinstance(step, Launch)
        for placed in step.layers
    }
    for index, layer in enumerate(module.layers):
        output = layer.outputs[0]
        kept = outcome.buffers[written[index]] if index in written else outcome.values.get(output)
        for got in (kept, values.get(output)):
            if got is not None:  # a view that nobody reads is nowhere
                found = compare(layer, got, expected[output])
                if found is not None:
                    return found
    return None


def compare(layer: Layer, got: Array, want: Array) -> Difference | None:
    """Return the first element in which two arrays differ; real numbers may a little."""
    wrong = ~_close(got, want) if want.dtype.kind == "f" else got != want
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference(layer.name, index, got[index].item(), want[index].item())


def _close(got: Array, want: Array) -> NDArray[np.bool_]:
    """Return where reals are equal, or both no number, or as near as float layers come."""
    tolerance = _HALF_TOLERANCE if want.dtype.itemsize == 2 else _FLOAT_TOLERANCE
    finite = want[np.isfinite(want)].astype(np.float64)
    most = tolerance * np.abs(finite).max(initial=0)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got.astype(np.float64) - want) <= most
    return np.asarray(near | (got == want) | (np.isnan(got) & np.isnan(want)))
