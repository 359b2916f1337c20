"""Reading TFLite files."""

from __future__ import annotations

from pathlib import Path

from vdla.errors import ModelError

from .graph import Graph, Node
from .ops import OPS
from .tensor import Tensor
from .tflite_file import TfliteFile, TfliteOperator
from .tflite_ops import CONVERSIONS, attributes

__all__ = ["import_tflite"]


def import_tflite(path: str | Path) -> Graph:
    """Read a TFLite file.

    Takes int8 (per tensor and per channel), uint8 and float32 networks. Nodes are named after
    operator and place in the file (``conv2d_0``, ``add_3``), activations after their node
    (``conv2d_0.out``) and constants after node and role (``conv2d_0.weight``): names in the file
    repeat, and are kept as `Tensor.source`.

    Parameters
    ----------
    path : path

    Returns
    -------
    Graph
        Batch as in the file.

    Raises
    ------
    ModelError
        The file is not TFLite, is damaged, holds several subgraphs, an operator that is not taken
        (all of them are listed), a shape that is not static, or an 8-bit tensor without scales.
    """
    file = TfliteFile(path)
    _refuse_unknown(file)
    tensors: dict[int, Tensor] = {}
    for place, index in enumerate(file.inputs):
        name = "input" if len(file.inputs) == 1 else f"input_{place}"
        tensors[index] = file.tensor(index, name)
    nodes = []
    kept = set(file.inputs)
    for operator in file.operators:
        node, used = _node(file, operator, tensors)
        nodes.append(node)
        kept |= used
    unwritten = [i for i in file.outputs if i not in tensors]
    if unwritten:
        raise ModelError(
            f"Every graph output must be computed; tensor {file.source(unwritten[0])!r} of "
            f"{file.path} is not. Export the model again."
        )
    return Graph(
        file.path.stem,
        [tensors[index] for index in sorted(kept | set(file.outputs))],
        nodes,
        [tensors[index].name for index in file.inputs],
        [tensors[index].name for index in file.outputs],
    )


def _refuse_unknown(file: TfliteFile) -> None:
    unknown = [o for o in file.operators if o.name not in CONVERSIONS]
    if unknown:
        where = ", ".join(f"{o.index} {o.name}" for o in unknown)
        raise ModelError(
            f"Every operator must be one of {', '.join(CONVERSIONS)}; {file.path} holds others "
            f"(index and name): {where}. Rewrite the network without them."
        )


def _node(
    file: TfliteFile, operator: TfliteOperator, tensors: dict[int, Tensor]
) -> tuple[Node, set[int]]:
    conversion = CONVERSIONS[operator.name]
    name = f"{conversion.op}_{operator.index}"
    spec = OPS[conversion.op]
    present = [index for index in operator.inputs if index >= 0]
    least = len(spec.inputs) - spec.optional + conversion.parameters
    if len(present) < least or len(operator.outputs) != 1 or operator.outputs[0] in tensors:
        raise ModelError(
            f"{operator.name} must have at least {least} inputs and one output of its own; "
            f"operator {operator.index} of {file.path} has {len(present)} inputs and "
            f"{len(operator.outputs)} outputs. Export the model again."
        )
    for place, index in enumerate(present):
        if index not in tensors:
            role = spec.inputs[place] if place < len(spec.inputs) else f"parameter_{place}"
            tensors[index] = file.tensor(index, f"{name}.{role}")
    output = file.tensor(operator.outputs[0], f"{name}.out")
    with file.reading():
        attrs = attributes(operator, [tensors[i] for i in present], output)
    tensors[operator.outputs[0]] = output
    used = present[: len(spec.inputs)]
    names = tuple(tensors[i].name for i in used)
    return Node(name, conversion.op, names, (output.name,), attrs), {*used, operator.outputs[0]}
