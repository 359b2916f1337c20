"""An ONNX file opened and checked: format, opset, external data, edges, order, finite weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import inliner, numpy_helper

from vdla.arguments import sizes_by_name
from vdla.compiler.graph.tensor import Array
from vdla.errors import ModelError

from .node import OnnxNode

__all__ = ["NEWEST_OPSET", "OLDEST_OPSET", "OnnxFile", "external_files"]

OLDEST_OPSET = 7
"""The first with numpy's broadcasting; older ones mean other things by the same names."""
NEWEST_OPSET = onnx.defs.onnx_opset_version()
"""The newest that the installed onnx knows."""

_DOMAINS = ("", "ai.onnx")


class OnnxFile:
    """The main graph of an ONNX model, its nodes in an order in which they can run.

    Parameters
    ----------
    source : path or onnx.ModelProto
    bind : mapping of str to int, optional
        Sizes of symbolic dimensions by name. A leading dimension without one is a batch of 1.

    Raises
    ------
    InputError
        `bind` is not whole numbers of at least 1 by name.
    ModelError
        The file cannot be read, is not ONNX, its opset is too old or too new, external data is
        missing, a dimension stays unbound, a weight is not a number, an edge leads nowhere, or
        the nodes form a cycle.

    Attributes
    ----------
    name : str
    path : str
        For messages.
    inputs : dict of str to (shape, dtype)
    outputs : list of str
    constants : dict of str to array
    nodes : list of OnnxNode
    """

    def __init__(
        self, source: str | Path | onnx.ModelProto, bind: Mapping[str, int] | None = None
    ) -> None:
        model = self._open(source)
        self.opset = self._opset(model)
        if model.functions:
            model = inliner.inline_local_functions(model)
        graph = model.graph
        self.name = self._stem or graph.name or "onnx"
        self._load_external(model)
        self.constants = dict(self._constants(graph))
        self.inputs = self._inputs(graph, sizes_by_name(bind))
        self.outputs = list(dict.fromkeys(value.name for value in graph.output))
        self.nodes = self._sorted(
            [OnnxNode.read(n, place, self.opset) for place, n in enumerate(graph.node)]
        )

    def _open(self, source: str | Path | onnx.ModelProto) -> onnx.ModelProto:
        if isinstance(source, onnx.ModelProto):
            self.path, self._stem, self._folder = "the model", "", Path()
            return source
        path = Path(source)
        self.path, self._stem, self._folder = str(path), path.stem, path.parent
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"A model must be a readable file, not {path}: {error.strerror}. Check the path."
            ) from None
        model = onnx.ModelProto()
        try:
            model.ParseFromString(raw)
            whole = bool(model.opset_import) and model.HasField("graph")
        except Exception:  # protobuf's DecodeError lives where its version puts it
            whole = False
        if not whole:
            raise ModelError(
                f"An ONNX file must hold a model with a graph and an opset; {path} "
                f"({len(raw)} bytes) does not. Check that the download is whole and the format is "
                "ONNX."
            )
        return model

    def _opset(self, model: onnx.ModelProto) -> int:
        versions = [o.version for o in model.opset_import if o.domain in _DOMAINS]
        opset = max(versions, default=NEWEST_OPSET)
        if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
            remedy = (
                "Convert it with onnx.version_converter"
                if opset < OLDEST_OPSET
                else "Install a newer onnx, or export for an older opset"
            )
            raise ModelError(
                f"The opset must be {OLDEST_OPSET} to {NEWEST_OPSET}, not {opset} ({self.path}). "
                f"{remedy}."
            )
        return opset

    def _load_external(self, model: onnx.ModelProto) -> None:
        missing = set()
        for tensor in _tensors(model.graph):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                where = {entry.key: entry.value for entry in tensor.external_data}.get("location")
                if where is None or not (self._folder / where).is_file():
                    missing.add(where or f"(no location for {tensor.name!r})")
        if missing:
            raise ModelError(
                f"A model's external data must lie beside it; {self.path} wants "
                f"{', '.join(sorted(missing))}. Copy the files there too."
            )
        try:
            onnx.load_external_data_for_model(model, str(self._folder))
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise ModelError(
                f"A model's external data must be readable and inside its folder; that of "
                f"{self.path} is not: {' '.join(str(error).split())}. Export it again."
            ) from None

    def _constants(self, graph: onnx.GraphProto) -> Iterator[tuple[str, Array]]:
        for tensor in graph.initializer:
            yield tensor.name, self._array(tensor)
        for sparse in graph.sparse_initializer:
            raise ModelError(
                f"A weight must be stored dense; {sparse.values.name!r} of {self.path} is sparse. "
                "Export it dense."
            )

    def _array(self, tensor: onnx.TensorProto) -> Array:
        try:
            array: Array = numpy_helper.to_array(tensor)
        except (KeyError, ValueError, TypeError) as error:
            raise ModelError(
                f"A weight must be stored whole; {tensor.name!r} of {self.path} is not: {error}. "
                "Export the model again."
            ) from None
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ModelError(
                f"Weights must be numbers; {tensor.name!r} of {self.path} holds "
                f"{int(np.isnan(array).sum())} NaN in {array.size} elements. Train or export the "
                "model again."
            )
        return array

    def _inputs(
        self, graph: onnx.GraphProto, bind: dict[str, int]
    ) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        given = [value for value in graph.input if value.name not in self.constants]
        self._refuse_passed_on([value.name for value in given], graph)
        shapes = {value.name: _dimensions(value, self.path) for value in given}
        symbols = {d for shape in shapes.values() for d in shape if isinstance(d, str) and d}
        stray = sorted(set(bind) - symbols)
        if stray:
            raise ModelError(
                "A bound dimension must be one of the model's "
                f"({', '.join(sorted(symbols)) or 'it has none'}), not {', '.join(stray)} "
                f"({self.path}). Leave it out."
            )
        for shape in shapes.values():
            if shape and isinstance(shape[0], str) and shape[0]:
                bind.setdefault(shape[0], 1)
        found, open_dims = {}, []
        for value in given:
            sizes = [
                1 if d == "" and place == 0 else bind.get(d, 0) if isinstance(d, str) else d
                for place, d in enumerate(shapes[value.name])
            ]
            names = [d or "?" for d, s in zip(shapes[value.name], sizes, strict=True) if s < 1]
            if names:
                open_dims.append(f"{value.name} ({', '.join(map(str, names))})")
            dtype = _dtype(value.type.tensor_type.elem_type, value.name, self.path)
            found[value.name] = (tuple(sizes), dtype)
        if open_dims:
            raise ModelError(
                f"Every dimension must be known but for the batch; in {self.path} these are not: "
                f"{'; '.join(open_dims)}. Bind named ones (--bind NAME=SIZE, or "
                "bind={'NAME': SIZE}), or export the model with a fixed input shape."
            )
        return found

    def _refuse_passed_on(self, inputs: Sequence[str], graph: onnx.GraphProto) -> None:
        both = [value.name for value in graph.output if value.name in inputs]
        if both:
            raise ModelError(
                f"An output must be computed; of {self.path} {', '.join(map(repr, both))} is an "
                "input too. Leave it out of the outputs, or pass it on under a name of its own by "
                "an Identity."
            )

    def _sorted(self, nodes: list[OnnxNode]) -> list[OnnxNode]:
        made = Counter(name for node in nodes for name in node.outputs if name)
        made.update([*self.inputs, *self.constants])
        twice = [name for name, count in made.items() if count > 1]
        if twice:
            raise ModelError(
                f"A value must have one source; {twice[0]!r} of {self.path} has "
                f"{made[twice[0]]}. Export the model again."
            )
        wanted = [(name, node.label) for node in nodes for name in node.inputs if name]
        wanted += [(name, "the graph's outputs") for name in self.outputs]
        lost = sorted({f"{name!r} (read by {who})" for name, who in wanted if name not in made})
        if lost:
            raise ModelError(
                f"Every value that is read must have a source; in {self.path} these have none: "
                f"{', '.join(lost)}. Export the model again."
            )
        ready, ordered, waiting = {*self.inputs, *self.constants}, [], nodes
        while waiting:
            later = []
            for node in waiting:
                if all(name in ready for name in node.inputs if name):
                    ordered.append(node)
                    ready.update(node.outputs)
                else:
                    later.append(node)
            if len(later) == len(waiting):
                raise ModelError(
                    f"Nodes must not form a cycle; in {self.path} these do, or wait for one that "
                    f"does: {', '.join(node.label for node in later)}. Export the model again."
                )
            waiting = later
        return ordered


def external_files(path: str | Path) -> list[Path]:
    """Return the files beside a model that hold its data, those that are there."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(Path(path).read_bytes())
    except Exception:  # what is damaged is refused when it is read
        return []
    names = {
        entry.value
        for tensor in _tensors(model.graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [file for name in sorted(names) if (file := Path(path).parent / name).is_file()]


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _dimensions(value: onnx.ValueInfoProto, path: str) -> list[int | str]:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise ModelError(
            f"Every graph input must be a tensor of known rank; {value.name!r} of {path} is not. "
            "Export the model with input shapes."
        )
    if any(d.HasField("dim_value") and d.dim_value == 0 for d in kind.shape.dim):
        shape = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim]
        raise ModelError(
            f"A dimension must be at least 1; input {value.name!r} of {path} has the shape "
            f"({', '.join(map(str, shape))}). Export the model with an input that is not empty."
        )
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else d.dim_param
        for d in kind.shape.dim
    ]


def _dtype(code: int, name: str, path: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError, ValueError):
        dtype = np.dtype(object)
    if dtype.kind == "O":
        raise ModelError(
            f"A graph input must be a tensor of numbers, not of type code {code} ({name!r} of "
            f"{path}). Export the model without it."
        )
    return dtype
