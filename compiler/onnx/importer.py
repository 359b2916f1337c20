"""Reading ONNX models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import onnx

from vdla.compiler.graph import Graph
from vdla.compiler.passes import run_passes
from vdla.errors import ModelError

from .build import Builder
from .file import OnnxFile
from .folding import FOLDED_ALWAYS, evaluate, is_foldable
from .form import form_faults, type_fault
from .node import Constant, OnnxNode
from .table import CONVERSIONS

__all__ = ["import_onnx"]


def import_onnx(
    model: str | Path | onnx.ModelProto,
    *,
    bind: Mapping[str, int] | None = None,
    without: Collection[str] = (),
) -> Graph:
    """Read an ONNX model and run the graph passes on it.

    Takes float32 networks and quantized ones, as QuantizeLinear and DequantizeLinear around float
    operators or as QLinear operators. What is constant, shapes above all, is computed while
    reading. Inputs and outputs keep their names and layouts (images NCHW); inside, images are
    NHWC. Nodes are named after operator and place in the file (``conv2d_0``), activations after
    their node (``conv2d_0.out``) and constants after node and role.

    Before: ``Conv -> BatchNormalization -> Relu``. After: ``transpose -> conv2d (bias, clip) ->
    transpose``.

    Parameters
    ----------
    model : path or onnx.ModelProto
    bind : mapping of str to int, optional
        Sizes of symbolic dimensions by name; a leading one without a size is a batch of 1.
    without : collection of str
        Passes that are not to run (`vdla.compiler.passes.PASSES` names them).

    Returns
    -------
    Graph

    Raises
    ------
    InputError
        `bind` is not whole numbers of at least 1 by name.
    ModelError
        The file cannot be read, is not ONNX, has an opset that is not taken, lacks external data,
        holds NaN, a cycle, an edge to nothing, a dimension that stays unbound, operators that are
        not taken (all of them are listed), or an operator in a form that is not taken.
    """
    file = OnnxFile(model, bind)
    _refuse_unknown(file)
    _refuse_malformed(file)
    builder = Builder([*file.inputs, *file.outputs])
    for name, (shape, dtype) in file.inputs.items():
        builder.input(name, shape, dtype)
    for name, data in file.constants.items():
        builder.values[name] = Constant(data, source=name)
    for node in file.nodes:
        builder.start(node)
        _convert(node, builder)
    return run_passes(builder.finish(file.name, file.outputs), without)


_MALFORMED = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
"""What rules meet in operators without an attribute that they must have, or with a wrong one."""


def _convert(node: OnnxNode, builder: Builder) -> None:
    inputs = [builder.values[name] if name else None for name in node.inputs]
    fold = is_foldable(node, inputs)
    fault = type_fault(node, inputs)
    if fault is not None:
        node.refuse(fault, "Export the model again")
    try:
        results = list(evaluate(node, inputs) if fold else CONVERSIONS[node.op](node, builder))
    except ModelError as error:
        if str(error).startswith(node.label):
            raise
        raise ModelError(f"{node.label}: {error}") from None
    except _MALFORMED as error:
        node.refuse(
            f"its inputs or attributes are not ONNX's ({type(error).__name__}: {error})",
            "Export the model again",
        )
    for name, value in zip(node.outputs, results, strict=False):
        if name:
            builder.values[name] = value
            builder.attribute(value, name)
    lost = [name for name in node.outputs[len(results) :] if name]
    if lost:
        node.refuse(
            f"it gives {len(results)} outputs, not {len(node.outputs)}",
            "Drop those that only training needs",
        )


def _refuse_malformed(file: OnnxFile) -> None:
    faults = [f"{node.label}: {fault}" for node in file.nodes for fault in form_faults(node)]
    if faults:
        raise ModelError(
            f"Every operator must have the form that ONNX gives it; in {file.path} these have "
            f"not: {'; '.join(faults)}. Export the model again."
        )


def _refuse_unknown(file: OnnxFile) -> None:
    constant = set(file.constants)
    unknown = []
    for node in file.nodes:
        folds = all(name in constant for name in node.inputs if name) and node.is_pure
        if folds or node.op in FOLDED_ALWAYS:
            constant.update(node.outputs)
        elif node.op not in CONVERSIONS:
            unknown.append(node)
    if unknown:
        counts = ", ".join(
            f"{op} ({n})" for op, n in sorted(Counter(o.op for o in unknown).items())
        )
        raise ModelError(
            f"Every operator must be one that is taken; {file.path} holds {len(unknown)} others "
            f"(count): {counts}. Rewrite the network with {', '.join(sorted(CONVERSIONS))}."
        )
