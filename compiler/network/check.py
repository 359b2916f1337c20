"""What the host's processor takes, and the refusal of networks that nothing takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler.graph import OPS, Graph, Node
from vdla.errors import ModelError

__all__ = ["HOST_DTYPES", "check_network", "host_refusal"]

HOST_DTYPES = ("int8", "uint8", "float32")
"""Types of the activations that the host's kernels compute on."""

_SCALE_FREE = frozenset({"pad", "reshape"})
"""Operators that move integers without a need to know what they stand for."""


def host_refusal(graph: Graph, node: Node) -> str | None:
    """Return why the host cannot run `node`, None where it can."""
    inputs, output = graph.input_tensors(node), graph.output_tensor(node)
    activations = [t for t in (*inputs, output) if not t.is_constant]
    for tensor in activations:
        if str(tensor.dtype) not in HOST_DTYPES:
            return f"{tensor.label} is {tensor.dtype}, not one of {', '.join(HOST_DTYPES)}"
        if tensor.shape[:1] != (1,):
            return f"{tensor.label} has the shape {tensor.shape}, which is not a batch of 1"
    for name, tensor in zip(OPS[node.op].inputs[1:], inputs[1:], strict=False):
        if name in ("weight", "bias") and not tensor.is_constant:
            return f"its {name} {tensor.label} is computed, not constant"
    if node.op not in _SCALE_FREE:
        for tensor in (*inputs[:2], output):
            if np.dtype(tensor.dtype).kind in "iu" and tensor.quant is None:
                return f"{tensor.label} is {tensor.dtype} without scale and zero point"
    return None


def check_network(graph: Graph, refusals: Mapping[str, tuple[str | None, str | None]]) -> None:
    """Raise where some operators can run nowhere, naming every one of them.

    Parameters
    ----------
    graph : Graph
    refusals : mapping of str to (str or None, str or None)
        By node: why VDLA does not take it, and why the cpu does not.

    Raises
    ------
    ModelError
    """
    lost = [
        f"{place} {node.name} ({node.op}): vdla: {vdla}; cpu: {cpu}"
        for place, node in enumerate(graph.nodes)
        for vdla, cpu in [refusals[node.name]]
        if vdla is not None and cpu is not None
    ]
    if lost:
        raise ModelError(
            f"Every operator must run on vdla or on the cpu; of {graph.name!r}, {len(lost)} of "
            f"{len(graph.nodes)} can on neither (index, name, reasons): {' | '.join(lost)}. "
            "Rewrite the network without them."
        )
