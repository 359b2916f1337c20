"""Networks as calls, compiled here and in the libraries that they are measured against."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnx

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph

__all__ = ["PEERS", "in_nchw", "missing_peer", "onnx_call", "our_call", "peer_call"]

Array = npt.NDArray[Any]
Call = Callable[[], Array]

PEERS = ("onnxruntime", "openvino")
"""By the name of the package."""


def missing_peer(peer: str) -> str | None:
    """Return what to do to have a peer, None where it is there."""
    return None if find_spec(peer) else f"{peer} is not installed: pip install {peer}"


def our_call(graph: Graph, image: Array, threads: int, *, level: str | None = None) -> Call:
    """Compile a network for the processor and return a call that runs it on an image.

    Parameters
    ----------
    graph : Graph
    image : array
        Of the network's input, with its first axis.
    threads : int
    level : str, optional
        Of the processor; by default this machine's.
    """
    from vdla.runtime import api

    network = api.compile(graph, target="cpu", cpu=level, cache=False).to("cpu", threads=threads)

    def call() -> Array:
        found = network(image)
        assert not isinstance(found, dict)  # one output
        return found

    return call


def peer_call(peer: str, graph: Graph, image: Array, threads: int) -> Call:
    """Return a call that runs the exported network in a peer.

    The peer reads images in its own layout, NCHW, so that no transpose is charged to it.

    Parameters
    ----------
    peer : str
        One of `PEERS`.
    graph : Graph
    image : array
        NHWC.
    threads : int
    """
    from vdla.compiler.onnx import export_onnx

    model, moved = in_nchw(export_onnx(graph))
    given = image.transpose(0, 3, 1, 2).copy() if moved else image
    return onnx_call(peer, model, given, threads)


def onnx_call(peer: str, model: onnx.ModelProto, image: Array, threads: int) -> Call:
    """Return a call that runs an ONNX model in a peer, on so many threads."""
    if peer == "onnxruntime":
        return _onnxruntime_call(model, image, threads)
    return _openvino_call(model, image, threads)


def in_nchw(model: onnx.ModelProto) -> tuple[onnx.ModelProto, bool]:
    """Return a model without the transpose that its image comes through, and whether it had one.

    Before: ``input (1, 224, 224, 3) -> Transpose -> Conv``. After: ``input (1, 3, 224, 224) ->
    Conv``.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    source = graph.input[0]
    readers = [node for node in graph.node if source.name in node.input]
    if len(readers) != 1 or readers[0].op_type != "Transpose":
        return changed, False
    (transpose,) = readers
    order = list(transpose.attribute[0].ints)
    dims = [d.dim_value for d in source.type.tensor_type.shape.dim]
    for dim, index in zip(source.type.tensor_type.shape.dim, order, strict=True):
        dim.dim_value = dims[index]
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == transpose.output[0]:
                node.input[place] = source.name
    graph.node.remove(transpose)
    return changed, True


def _onnxruntime_call(model: onnx.ModelProto, image: Array, threads: int) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors alone
    # Else its threads still look for work while whoever comes next is timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {session.get_inputs()[0].name: image}
    names = [session.get_outputs()[0].name]

    def call() -> Array:
        found: Array = session.run(names, feed)[0]
        return found

    return call


def _openvino_call(model: onnx.ModelProto, image: Array, threads: int) -> Call:
    openvino: Any = import_module("openvino")  # of no extra: used where it is there
    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16 where AMX is
    }
    compiled = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU", settings)
    request = compiled.create_infer_request()

    def call() -> Array:
        found: Array = next(iter(request.infer([image]).values()))
        return found

    return call
