"""Code for the operators on VDLA: one program for each run of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node
from vdla.compiler.ops import LoweredNode
from vdla.compiler.targets.vdla.build import assemble, emit_schedule
from vdla.compiler.targets.vdla.ops import Op
from vdla.config import Config
from vdla.module import Launch, Segment
from vdla.program import Program

from .layout import Layout
from .memory import aligned

__all__ = ["Constants", "emit_programs", "gather_constants"]


@dataclass(frozen=True)
class Constants:
    """Packed constants in the arena.

    Attributes
    ----------
    image : ndarray of uint8
        From byte 0 of the arena.
    offsets : mapping of str to tuple of int
        By node, in the order of its constants.
    """

    image: NDArray[np.uint8]
    offsets: Mapping[str, tuple[int, ...]]


def gather_constants(lowered: Mapping[str, LoweredNode]) -> Constants:
    """Lay the constants of all nodes one behind the other, each at a page."""
    parts: list[NDArray[np.uint8]] = []
    offsets: dict[str, tuple[int, ...]] = {}
    end = 0
    for name, node in lowered.items():
        mine = []
        for values in node.constants.values():
            raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
            mine.append(end)
            parts += [raw, np.zeros(aligned(raw.size) - raw.size, np.uint8)]
            end += aligned(raw.size)
        offsets[name] = tuple(mine)
    return Constants(np.concatenate(parts) if parts else np.zeros(0, np.uint8), offsets)


def emit_programs(
    graph: Graph,
    layout: Layout,
    lowered: Mapping[str, LoweredNode],
    heads: Mapping[str, Node],
    constants: Constants,
    offsets: Sequence[int],
    arena_bytes: int,
    config: Config,
    progress: Callable[[Node], None],
) -> tuple[list[Program], list[Segment], int]:
    """Emit and assemble the program of each launch.

    Returns
    -------
    programs : list of Program
        One a launch.
    uops : list of Segment
        Their micro-ops, behind the tensors.
    end : int
        End of the arena.
    """
    programs: list[Program] = []
    uops: list[Segment] = []
    end = arena_bytes
    for step in layout.steps:
        if not isinstance(step, Launch):
            continue
        ops: list[Op] = []
        nodes = [graph.nodes[layer.layer] for layer in step.layers]
        for number, (layer, node) in enumerate(zip(step.layers, nodes, strict=True)):
            for part in (heads.get(node.name), node):
                if part is not None:
                    progress(part)
            code = lowered[node.name]
            fixed = dict(zip(code.constants, constants.offsets[node.name], strict=True))
            moving = {t: offsets[b] for t, b in zip(code.inputs, layer.reads, strict=True)}
            memory = {**fixed, **moving, code.result: offsets[layer.writes]}
            ops += emit_schedule(code.schedule, memory, fixed, config, number)
        made = assemble(
            ops,
            config,
            arena_bytes=arena_bytes,
            uop_base=end,
            labels=[heads.get(node.name, node).name for node in nodes],
        )
        programs.append(made.program)
        if made.uops.size:
            uops.append(Segment(end, made.uops))
            end = aligned(end + made.uops.size)
    return programs, uops, end
