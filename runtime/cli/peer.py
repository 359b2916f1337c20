"""ONNX Runtime on one thread, as the other opinion on a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy.typing as npt
import onnx

__all__ = ["peer_outputs"]

Array = npt.NDArray[Any]


def peer_outputs(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    also: Collection[str] = (),
    *,
    optimized: bool = False,
) -> dict[str, Array]:
    """Return what ONNX Runtime makes of a model, operator by operator as the file says.

    Parameters
    ----------
    model : onnx.ModelProto
    inputs : mapping of str to array
    also : collection of str
        Values inside the model to return beside its outputs, where it has them.
    optimized : bool
        Let it rewrite the model as it does by default. Integers change by that: of two
        quantizations in a row one is left out, and on processors without VNNI its kernels of uint8
        and int8 add products in pairs at 16 bits, and saturate.
    """
    import onnxruntime

    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    there = {output.name for output in exposed.graph.output}
    made = {name for node in exposed.graph.node for name in node.output}
    # Their types are ONNX Runtime's to infer.
    exposed.graph.output.extend(onnx.ValueInfoProto(name=n) for n in made & {*also} - there)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
