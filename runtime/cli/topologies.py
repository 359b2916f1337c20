"""Well-known topologies, quantized here and run on the cycle model, against ONNX Runtime."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.compiler.graph import Graph, Node
from vdla.compiler.onnx import export_onnx, import_onnx
from vdla.compiler.quantize import quantize
from vdla.compiler.reference import Interpreter
from vdla.errors import InputError
from vdla.runtime.cli.light import TOPOLOGIES, drawn_model, scale_scores, scores_of
from vdla.runtime.cli.peer import peer_outputs

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    from vdla.config import Config

    Array = NDArray[Any]

__all__ = ["largest_steps", "measure_topologies"]

_MEMORY_BYTES = 1 << 30
"""VGG-19 takes more than boards reserve by default."""


def measure_topologies(
    names: Sequence[str],
    config: Config,
    *,
    progress: Callable[[int, int, str], None],
) -> dict[str, Any]:
    """Quantize topologies with drawn weights, run an image, and compare with ONNX Runtime.

    Both run the quantized network: the exported QDQ file there, the compiled graph on the cycle
    model, every layer of which is held to the integer interpreter. One image of noise calibrates,
    another one is run. The configuration gets 1 GiB of memory if it has less.

    Parameters
    ----------
    names : sequence of str
        Of `vdla.runtime.cli.light.TOPOLOGIES`.
    config : Config
    progress : callable

    Returns
    -------
    dict
        ``topologies``: ``name``; ``layers`` compared, ``largest_step`` by which an integer of a
        layer fed ONNX Runtime's own inputs differs from its output, ``equal_layers``, the share
        without a difference; end to end ``equal_outputs`` and, before the softmax,
        ``equal_scores``, shares, and that of ONNX Runtime with its optimizations against itself
        without, ``equal_scores_peer``; ``same_argmax`` of the scores; ``bit_exact``;
        ``vdla_layers`` and ``cpu_layers`` by operator; ``cycles``, ``milliseconds``,
        ``compile_cpu_seconds``.

    Raises
    ------
    InputError
        There is no such topology.
    """
    unknown = sorted(set(names) - set(TOPOLOGIES))
    if unknown:
        raise InputError(
            f"A topology must be one of {', '.join(TOPOLOGIES)}, not {', '.join(unknown)}."
        )
    config = config.replace(memory_bytes=max(config.memory_bytes, _MEMORY_BYTES))
    rows = []
    for number, name in enumerate(names):
        progress(number, len(names), name)
        rows.append(_measure(name, config))
    return {
        "topologies": rows,
        "config": config.name,
        "config_hash": f"{config.hash:016x}",
    }


def _measure(name: str, config: Config) -> dict[str, Any]:
    from vdla.runtime import api

    graph, image = _quantized(name)
    source = graph.inputs[0]
    start = time.process_time()
    network = api.compile(graph, config=config, cache=False)
    seconds = time.process_time() - start
    run = network.run({source: image}, check=True)
    exported = export_onnx(graph)
    theirs = peer_outputs(exported, {source: image})
    rewritten = peer_outputs(exported, {source: image}, optimized=True)
    outputs, scores = graph.outputs[0], graph.outputs[-1]
    steps = largest_steps(graph, exported, image)
    layers = network.module.layers
    cycles = run.cycles or 0
    return {
        "name": name,
        "layers": len(steps),
        "largest_step": max(steps.values()),
        "equal_layers": sum(step == 0 for step in steps.values()) / len(steps),
        "equal_outputs": _equal(run.outputs[outputs], theirs[outputs]),
        "equal_scores": _equal(run.outputs[scores], theirs[scores]),
        "equal_scores_peer": _equal(rewritten[scores], theirs[scores]),
        "same_argmax": bool(run.outputs[scores].argmax() == theirs[scores].argmax()),
        "bit_exact": run.bit_exact,
        "vdla_layers": Counter(layer.op for layer in layers if layer.device == "vdla"),
        "cpu_layers": Counter(layer.op for layer in layers if layer.device == "cpu"),
        "cycles": cycles,
        "milliseconds": cycles / config.clock_mhz / 1e3,
        "compile_cpu_seconds": seconds,
    }


def _equal(ours: Array, theirs: Array) -> float:
    return float((ours == theirs).mean())


def largest_steps(graph: Graph, exported: onnx.ModelProto, image: Array) -> dict[str, int]:
    """Return by how much integers differ from ONNX Runtime's, layer by layer.

    Parameters
    ----------
    graph : Graph
        Quantized, with one input.
    exported : onnx.ModelProto
        What `export_onnx` made of it.
    image : array
        Its input.

    Returns
    -------
    dict of str to int
        The largest difference, by name of the node, where ONNX Runtime has its output. Each
        node is fed what ONNX Runtime made; where a layout or a real number is not there under
        its name, what the node before makes of that.
    """
    computed = [name for name, tensor in graph.tensors.items() if not tensor.is_constant]
    forms = [form for name in computed for form in (name, f"{name}.nchw")]
    found = peer_outputs(exported, {graph.inputs[0]: image}, forms)
    values = {graph.inputs[0]: image}
    for name in computed:
        if name in found:
            values[name] = found[name]
        elif f"{name}.nchw" in found:
            values[name] = found[f"{name}.nchw"].transpose(0, 2, 3, 1)
    steps = {}
    for node in graph.nodes:
        ours = _run_node(graph, node, values)
        theirs = values.setdefault(node.outputs[0], ours)
        if theirs is not ours and theirs.dtype.kind in "iu":
            steps[node.name] = int(np.abs(ours.astype(np.int64) - theirs).max())
    return steps


def _quantized(name: str) -> tuple[Graph, Array]:
    """Return an int8 network whose last output is what its softmax reads, and an image for it."""
    model = drawn_model(name)
    source = model.graph.input[0]
    shape = [d.dim_value for d in source.type.tensor_type.shape.dim]
    drawn = np.random.default_rng(1).normal(0, 1, (2, *shape)).astype(np.float32)
    scores = scores_of(model)
    scale_scores(model, peer_outputs(model, {source.name: drawn[0]}, [scores])[scores])
    graph = quantize(import_onnx(model), drawn[0], ends="int8", report=False).graph
    last = graph.producer(graph.outputs[0])
    if last is not None and last.op == "softmax":
        # Most probabilities of a thousand are below half a step of 1/256; scores tell more.
        outputs = [*graph.outputs, last.inputs[0]]
        graph = Graph(graph.name, graph.tensors.values(), graph.nodes, graph.inputs, outputs)
    quant = graph.tensors[graph.inputs[0]].quant
    assert quant is not None  # ends="int8"
    levels = np.rint(drawn[1] / quant.scale[0]) + quant.zero_point[0]
    return graph, levels.clip(-128, 127).astype(np.int8)


def _run_node(graph: Graph, node: Node, values: Mapping[str, Array]) -> Array:
    """Run one node by the interpreter's definition of it."""
    inputs = [t for t in graph.input_tensors(node) if not t.is_constant]
    tensors = dict.fromkeys([*node.inputs, *node.outputs])
    alone = Graph(
        node.name,
        [graph.tensors[name] for name in tensors],
        [node],
        list(dict.fromkeys(tensor.name for tensor in inputs)),
        node.outputs,
    )
    given = {name: values[name] for name in alone.inputs}
    return Interpreter(alone).run(given)[node.outputs[0]]
