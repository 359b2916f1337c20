"""Compiling a graph, as one list of stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from vdla.compiler.graph import Graph, Node
from vdla.compiler.ops import LoweredNode, Measure, Scheduling, lower_node
from vdla.compiler.tune.database import Database, built_in
from vdla.config import Config
from vdla.errors import ModelError
from vdla.module import Buffer, MemoryUse, Module, Segment
from vdla.program import Program

from .describe import describe_layer, describe_tensor
from .fusion import fuse_additions
from .layout import lay_out
from .memory import aligned, place_buffers
from .placement import GPU, VDLA, devices, is_view
from .prepare import prepare
from .programs import emit_programs, gather_constants
from .runs import CompileGpu, CompileNative, processor_runs

__all__ = ["PASSES", "compile_graph"]

Progress = Callable[[int, int, str], None]

PASSES: Mapping[str, str] = {
    "idle": "weights that multiply nothing become their zero point, which is never wide",
    "gather": "channels are ordered so that weights which leave int8 share blocks",
    "flatten": "a dense layer reads an image as it lies, and is not left to the cpu",
    "thin": "convolutions of few channels are laid out anew while the host packs their input",
    "concat": "what is concatenated by whole blocks is written side by side; nothing is copied",
    "fusion": "an addition is computed on the tiles of the convolution before it",
    "layout": "an operator reads the blocks that the one before left; nothing is unpacked between",
    "join": "consecutive operators make one program, so that weights come while others compute",
    "memory": "activations that never live at the same time share memory",
}
"""What can be switched off, and what each does."""


def compile_graph(
    graph: Graph,
    config: Config,
    *,
    vthreads: int = 2,
    place: Mapping[str, str] | None = None,
    rank: Measure | None = None,
    records: Database | None = None,
    native: CompileNative | None = None,
    gpu: CompileGpu | None = None,
    without: Collection[str] = (),
    lowered_as: Callable[[Mapping[str, LoweredNode]], None] | None = None,
    progress: Progress | None = None,
) -> Module:
    """Compile a network for one configuration.

    Stages, in order:

    1. weights that multiply nothing are cleared, and channels ordered so that those which leave
       int8 share blocks; dense layers flatten images themselves;
    2. every operator gets a device, or the network is refused with all that none takes;
    3. convolutions of few channels are laid out anew, to fill the core's lanes;
    4. operators on VDLA become scheduled tensor expressions, additions fused where it pays;
    5. edges get layouts, runs of VDLA operators become programs, copies go between;
    6. the arena is planned: constants, activations that share memory, micro-ops;
    7. schedules become instructions, and those of a run one program;
    8. runs of operators that stay off VDLA become kernels for a GPU, if that is asked for;
    9. runs of the others, on the processor, become functions of a library, if that is asked for.

    Parameters
    ----------
    graph : Graph
        For one image; on the accelerator only operators of batch 1 are placed.
    config : Config
    vthreads : int
        Virtual threads of each schedule, 1 or 2.
    place : mapping of str to str, optional
        ``'cpu'`` or ``'vdla'`` by node name.
    rank : callable, optional
        Measures candidate schedules, ``rank(schedule, tensors) -> cycles``; by default an
        analytic estimate ranks them.
    records : Database, optional
        Schedules to take, before those that come with vdla.
    native : callable, optional
        Compiles runs of operators on the processor; without, they are left to numpy.
    gpu : callable, optional
        Compiles runs of operators off VDLA to kernels, as far as there are some for them.
    without : collection of str
        Keys of `PASSES` to leave out.
    lowered_as : callable, optional
        Called with the schedule of each operator on the accelerator, by name.
    progress : callable, optional
        Called with the stages done, the stages in all and the node being worked on.

    Raises
    ------
    ModelError
        An operator can run nowhere, `place` asks for what cannot be, `without` names no pass, or
        the network takes more memory than the configuration has.
    LoweringError
        An operator on VDLA fits the buffers at no tiling.
    """
    _check_passes(without)
    known = built_in() if records is None else records.over(built_in())
    scheduling = Scheduling(vthreads, rank, known, graph.name)
    prepared = prepare(graph, config, scheduling=scheduling, place=place, without=without)
    graph, placed = prepared.graph, devices(prepared.graph, prepared.placements)
    mine = [n for n in graph.nodes if placed[n.name] == VDLA and not is_view(graph, n)]
    tell = _counting(progress, 2 * len(mine))
    lowered: dict[str, LoweredNode] = {}
    for node in mine:
        tell(node)
        lowered[node.name] = lower_node(graph, node, config, scheduling)
    heads = dict[str, Node]()
    if "fusion" not in without:
        lowered, heads = fuse_additions(graph, placed, lowered, config, scheduling)
    if lowered_as is not None:
        lowered_as(lowered)

    blocks = {name: (code.input_block, code.output_block) for name, code in lowered.items()}
    layout = lay_out(
        graph,
        placed,
        blocks,
        config,
        heads,
        joined="join" not in without,
        kept_blocked="layout" not in without,
    )

    constants = gather_constants(lowered)
    offsets, tensors_end = place_buffers(
        layout, constants.image.size, shared="memory" not in without
    )
    programs, uops, end = emit_programs(
        graph, layout, lowered, heads, constants, offsets, tensors_end, config, tell
    )

    _check_memory(graph, programs, end, config)
    runs = processor_runs(graph, layout.steps)
    kernels = gpu(graph, runs) if gpu is not None else None
    if kernels is not None:
        on_gpu = {graph.nodes[index].name for run in kernels.runs for index in run.layers}
        runs = processor_runs(graph, layout.steps, on_gpu)
        placed = {**placed, **dict.fromkeys(on_gpu, GPU)}
    code = native(graph, runs) if native is not None and runs else None
    segments = [Segment(0, constants.image)] if constants.image.size else []
    memory = MemoryUse(
        constants=constants.image.size,
        activations=tensors_end - constants.image.size,
        activations_unshared=sum(
            aligned(prod(shape))
            for index, (_, shape) in enumerate(layout.buffers)
            if index not in layout.inside
        ),
        micro_ops=end - tensors_end,
    )
    return Module(
        name=graph.name,
        config=config,
        tensors={name: describe_tensor(graph.tensors[name]) for name in _used(graph)},
        layers=tuple(
            describe_layer(
                graph,
                n,
                placed[n.name],
                macs=prepared.macs(n),
                fused_into=heads[n.name].name if n.name in heads else "",
            )
            for n in graph.nodes
        ),
        inputs=graph.inputs,
        outputs=graph.outputs,
        steps=tuple(layout.steps),
        programs=tuple(programs),
        buffers=tuple(
            Buffer(tensor, shape, offset, layout.inside.get(index, (None,))[0])
            for index, ((tensor, shape), offset) in enumerate(
                zip(layout.buffers, offsets, strict=True)
            )
        ),
        segments=(*segments, *uops),
        arena_bytes=end,
        memory=memory,
        per_image=graph.per_image,
        native=code,
        gpu=kernels,
    )


def _check_passes(without: Collection[str]) -> None:
    unknown = sorted(set(without) - set(PASSES))
    if unknown:
        raise ModelError(
            f"A pass that is left out must be one of {', '.join(PASSES)}, not "
            f"{', '.join(map(repr, unknown))}."
        )


def _check_memory(
    graph: Graph, programs: Sequence[Program], arena_bytes: int, config: Config
) -> None:
    need = arena_bytes + sum(aligned(program.instructions.nbytes) for program in programs)
    if need > config.memory_bytes:
        raise ModelError(
            f"A network must fit the board's contiguous memory; {graph.name!r} takes {need:,} "
            f"bytes and {config.name} has {config.memory_bytes:,}. Reserve more on the board and "
            "say so in the configuration's memory_bytes, or keep large layers on the cpu."
        )


def _used(graph: Graph) -> list[str]:
    """Return the tensors that a node or the caller touches, each once."""
    named = [*graph.inputs, *graph.outputs]
    named += [t for node in graph.nodes for t in (*node.inputs, *node.outputs)]
    return list(dict.fromkeys(named))


def _counting(progress: Progress | None, total: int) -> Callable[[Node], None]:
    done = iter(range(total))

    def tell(node: Node) -> None:
        if progress is not None:
            progress(next(done), total, node.name)

    return tell
