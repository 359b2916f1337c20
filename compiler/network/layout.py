"""The steps of a network: which tensors are packed where, and which operators make one program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from vdla.compiler.graph import Graph, Node
from vdla.compiler.ops import other_operand
from vdla.config import Config
from vdla.module import Execute, Launch, Pack, PlacedLayer, Relayout, Step, Unpack

from .placement import VDLA, is_view

__all__ = ["Blocks", "BufferShape", "Layout", "blocked_shape", "lay_out"]

BufferShape = tuple[int, int, int, int, int, int]
Blocks = tuple[int, int]
"""Channels of a block on the way in and on the way out."""


@dataclass
class Layout:
    """Steps, and the buffers that they name by number.

    Attributes
    ----------
    steps : list of Step
    buffers : list of (str, BufferShape)
        Tensor and blocked shape of each.
    inside : dict of int to (int, int)
        Of a buffer that is a part of another one: that, and its first byte there.
    """

    steps: list[Step] = field(default_factory=list)
    buffers: list[tuple[str, BufferShape]] = field(default_factory=list)
    inside: dict[int, tuple[int, int]] = field(default_factory=dict)

    def root(self, buffer: int) -> int:
        """Return the buffer that one is a part of, or a part of a part, or itself."""
        while buffer in self.inside:
            buffer = self.inside[buffer][0]
        return buffer


def blocked_shape(shape: tuple[int, ...], block: int, batch: int) -> BufferShape:
    """Return ``(N / batch, ceil(C / block), H, W, batch, block)`` of NHWC or NC.

    >>> blocked_shape((1, 7, 5, 20), 16, 1)
    (1, 2, 7, 5, 1, 16)
    >>> blocked_shape((1, 20), 16, 4)
    (1, 2, 1, 1, 4, 16)
    """
    height, width = shape[1:3] if len(shape) == 4 else (1, 1)
    return (-(-shape[0] // batch), -(-shape[-1] // block), height, width, batch, block)


def lay_out(
    graph: Graph,
    placed: Mapping[str, str],
    blocks: Mapping[str, Blocks],
    config: Config,
    heads: Mapping[str, Node] | None = None,
    *,
    joined: bool = True,
    kept_blocked: bool = True,
) -> Layout:
    """Return the steps that run a placed graph.

    Consecutive operators on VDLA make one program. What is in host memory is packed before the
    program that needs it; what a cpu operator or the caller reads is unpacked after the program
    that made it. Views need no step: what is concatenated is written into one buffer, one part
    behind the other.

    Before: ``conv a (cpu); conv b (vdla); add c = a + b (vdla); softmax d (cpu)``. After:
    ``execute a; pack a; launch [b, c]; unpack c; execute d``.

    Parameters
    ----------
    graph : Graph
    placed : mapping of str to str
        Device of each node.
    blocks : mapping of str to Blocks
        Of each node on VDLA that is not a view and not part of another.
    config : Config
    heads : mapping of str to Node, optional
        The convolutions that are computed with an addition behind them, by its name.
    joined : bool
        Whether consecutive operators share a program.
    kept_blocked : bool
        Whether what one operator on VDLA leaves the next one reads where it lies; or each result
        is unpacked and packed again.
    """
    builder = _Builder(graph, config, kept_blocked, _parts(graph, placed))
    heads = heads or {}
    absorbed = {head.name for head in heads.values()}
    for index, node in enumerate(graph.nodes):
        if node.name in absorbed:
            continue
        if placed[node.name] != VDLA:
            builder.execute(index, node)
        elif node.op == "concat":
            builder.join(node)
        elif is_view(graph, node):
            builder.alias(node)
        else:
            builder.enqueue(index, node, blocks[node.name], heads.get(node.name))
            if not joined or not kept_blocked:
                builder.close()
    builder.close()
    builder.bring_home(name for name in graph.outputs if not graph.tensors[name].is_constant)
    return builder.layout


def _parts(graph: Graph, placed: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Return the whole that a tensor is a part of on VDLA, and its first channel there."""
    parts = {}
    for node in graph.nodes:
        if node.op == "concat" and placed[node.name] == VDLA:
            first = 0
            for tensor in graph.input_tensors(node):
                parts[tensor.name] = (node.outputs[0], first)
                first += tensor.shape[-1]
    return parts


class _Builder:
    def __init__(
        self, graph: Graph, config: Config, kept_blocked: bool, parts: Mapping[str, tuple[str, int]]
    ) -> None:
        self.layout = Layout()
        self._parts = parts
        self._graph = graph
        self._config = config
        self._kept_blocked = kept_blocked
        self._home = set(graph.inputs)
        """Tensors that are in host memory."""
        self._places: dict[str, dict[int, int]] = {}
        """Buffers of a tensor by block."""
        self._original: dict[str, str] = {}
        """The tensor that a view shows."""
        self._run: list[PlacedLayer] = []
        self._programs = 0

    def execute(self, index: int, node: Node) -> None:
        """Run an operator on the host, after the program that is being collected."""
        self.close()
        self.bring_home(self._activations(node))
        self.layout.steps.append(Execute(index))
        self._home.update(node.outputs)

    def alias(self, node: Node) -> None:
        """Let a view's output share the place of its input."""
        source = node.inputs[0]
        self._original[node.outputs[0]] = self._original.get(source, source)

    def join(self, node: Node) -> None:
        """Have every part of a concatenation in its place; what VDLA made is there already."""
        for name in node.inputs:
            self._place(name, self._config.block_out)

    def enqueue(self, index: int, node: Node, blocks: Blocks, head: Node | None) -> None:
        """Append an operator, with the one that is computed before it, to the current program."""
        activations = self._activations(node)
        if head is not None:
            activations = [*self._activations(head), other_operand(head, node)]
        reads = tuple(self._place(tensor, blocks[0]) for tensor in activations)
        target = self._new_buffer(node.outputs[0], blocks[1])
        self._run.append(PlacedLayer(index, reads, target))

    def close(self) -> None:
        """End the program that is being collected."""
        if self._run:
            self.layout.steps.append(Launch(self._programs, tuple(self._run)))
            self._programs += 1
            self._run = []

    def bring_home(self, tensors: Iterable[str]) -> None:
        """Unpack what is not in host memory."""
        for tensor in tensors:
            if tensor not in self._home:
                place = next(iter(self._places[self._original.get(tensor, tensor)].values()))
                self.layout.steps.append(Unpack(place, tensor))
                self._home.add(tensor)

    def _activations(self, node: Node) -> list[str]:
        return [name for name in node.inputs if not self._graph.tensors[name].is_constant]

    def _place(self, tensor: str, block: int) -> int:
        """Return a buffer of a tensor in some blocks, made by a copy where there is none."""
        tensor = self._original.get(tensor, tensor)
        places = self._places.get(tensor, {})
        if not self._kept_blocked and places:
            self.bring_home([tensor])
            places = {}
        if block in places:
            return places[block]
        # Steps go before the program that is being collected, unless it makes what they copy.
        if not places:
            buffer = self._new_buffer(tensor, block)
            self.layout.steps.append(Pack(tensor, buffer))
            return buffer
        source = next(iter(places.values()))
        root = self.layout.root
        if any(root(layer.writes) == root(source) for layer in self._run):
            self.close()
        buffer = self._new_buffer(tensor, block)
        self.layout.steps.append(Relayout(source, buffer))
        return buffer

    def _new_buffer(self, tensor: str, block: int) -> int:
        shape = blocked_shape(self._graph.tensors[tensor].shape, block, self._config.batch)
        self.layout.buffers.append((tensor, shape))
        index = len(self.layout.buffers) - 1
        self._places.setdefault(tensor, {})[block] = index
        if tensor in self._parts and block == self._config.block_out:
            whole, channel = self._parts[tensor]
            outer = self._places.get(whole, {}).get(block)
            if outer is None:
                outer = self._new_buffer(whole, block)
            bytes_before = channel // block * prod(shape[2:])
            self.layout.inside[index] = (outer, bytes_before)
        return index
