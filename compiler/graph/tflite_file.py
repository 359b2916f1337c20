"""A TFLite file opened and checked: magic, offsets, one subgraph, static shapes, whole buffers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from vdla.errors import ModelError

from .tensor import Array, Quant, Tensor

__all__ = ["TfliteFile", "TfliteOperator"]

_DTYPES: dict[int, np.dtype[Any]] = {
    tflite.TensorType.FLOAT32: np.dtype(np.float32),
    tflite.TensorType.INT32: np.dtype(np.int32),
    tflite.TensorType.UINT8: np.dtype(np.uint8),
    tflite.TensorType.INT8: np.dtype(np.int8),
}
_TYPE_NAMES = {v: k for k, v in vars(tflite.TensorType).items() if isinstance(v, int)}

# What flatbuffers' Python classes raise on offsets that lead outside the file.
_DAMAGE = (ArithmeticError, AttributeError, IndexError, TypeError, ValueError, struct.error)


@dataclass(frozen=True)
class TfliteOperator:
    """One operator of the file: its place, name, tensor indices (-1 where absent) and options."""

    index: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any


class TfliteFile:
    """The one subgraph of a TFLite file.

    Parameters
    ----------
    path : path
        File to read.

    Raises
    ------
    ModelError
        The file cannot be read, is not TFLite, is damaged, or holds several subgraphs.

    Attributes
    ----------
    operators : list of TfliteOperator
    inputs, outputs : tuple of int
        Tensor indices.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._bytes = self.path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"A model must be a readable file, not {self.path}: {error.strerror}. "
                "Check the path."
            ) from None
        if self._bytes[4:8] != b"TFL3":
            raise ModelError(
                f"A TFLite file must carry 'TFL3' in bytes 4..7, not {self._bytes[4:8]!r} "
                f"({self.path}). Check that the download is whole and the format is TFLite."
            )
        with self.reading():
            self._model = tflite.Model.GetRootAsModel(self._bytes, 0)
            subgraphs = self._model.SubgraphsLength()
            if subgraphs != 1:
                raise ModelError(
                    f"A TFLite file must hold one subgraph, not {subgraphs} ({self.path}). "
                    "Export one inference function without control flow."
                )
            self._graph = self._model.Subgraphs(0)
            self.inputs = _indices(self._graph.InputsAsNumpy())
            self.outputs = _indices(self._graph.OutputsAsNumpy())
            count = self._counted(self._graph.OperatorsLength())
            self.operators = [self._operator(i) for i in range(count)]
            used = {i for o in self.operators for i in (*o.inputs, *o.outputs)}
            used |= {*self.inputs, *self.outputs}
            tensors = self._counted(self._graph.TensorsLength())
            if not used <= {-1, *range(tensors)}:
                raise IndexError(f"tensor {max(used)} of {tensors}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn the errors of a damaged file into a `ModelError`."""
        try:
            yield
        except _DAMAGE as error:
            raise ModelError(
                f"Every offset of a TFLite file must lead inside it; in {self.path} "
                f"({len(self._bytes)} bytes) one does not: {error}. The file is cut short or "
                "damaged: fetch it again."
            ) from None

    def tensor(self, index: int, name: str) -> Tensor:
        """Return tensor `index` of the file under a name of the graph's.

        Raises
        ------
        ModelError
            Shape or dtype is unknown, the buffer does not fit the shape, or an 8-bit tensor has
            no scales.
        """
        with self.reading():
            raw = self._graph.Tensors(index)
            source = (raw.Name() or b"").decode("utf-8", "replace")
            dtype = self._dtype(raw, source)
            data = self._buffer(raw)
            shape = self._shape(raw, source, constant=data is not None)
            quant = self._quant(raw, dtype, source)
            if data is not None:
                whole = prod(shape) * dtype.itemsize
                if raw.Sparsity() is not None or data.nbytes != whole:
                    raise ModelError(
                        f"A constant must be stored whole: {whole} bytes for "
                        f"{dtype}{list(shape)}, not {data.nbytes} (tensor {source!r} of "
                        f"{self.path}). Export it dense, or fetch the file again."
                    )
                data = data.view(dtype).reshape(shape)
            return Tensor(name, shape, dtype, quant, data, source)

    def source(self, index: int) -> str:
        """Return the file's name of tensor `index`."""
        with self.reading():
            return str((self._graph.Tensors(index).Name() or b"").decode("utf-8", "replace"))

    def _counted(self, count: int) -> int:
        # Each entry takes 4 bytes of offset: a larger count is damage, and would loop for long.
        if 4 * count > len(self._bytes):
            raise ValueError(f"a vector of {count} entries")
        return count

    def _operator(self, index: int) -> TfliteOperator:
        raw = self._graph.Operators(index)
        code = self._model.OperatorCodes(raw.OpcodeIndex())
        # Codes past 127 stand in the newer field only, codes of old files in the older one only.
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if builtin == tflite.BuiltinOperator.CUSTOM:
            name = f"CUSTOM {(code.CustomCode() or b'?').decode('utf-8', 'replace')}"
        else:
            name = tflite.BUILTIN_OPCODE2NAME.get(builtin, f"builtin {builtin}")
        inputs, outputs = _indices(raw.InputsAsNumpy()), _indices(raw.OutputsAsNumpy())
        return TfliteOperator(index, name, inputs, outputs, raw.BuiltinOptions())

    def _dtype(self, raw: Any, source: str) -> np.dtype[Any]:
        dtype = _DTYPES.get(raw.Type())
        if dtype is None:
            kind = _TYPE_NAMES.get(raw.Type(), raw.Type())
            raise ModelError(
                f"A tensor must be int8, uint8, int32 or float32, not {kind} (tensor {source!r} of "
                f"{self.path}). Quantize the model to 8 bits."
            )
        return dtype

    def _shape(self, raw: Any, source: str, constant: bool) -> tuple[int, ...]:
        shape = _indices(raw.ShapeAsNumpy()) if raw.ShapeLength() else ()
        signature = _indices(raw.ShapeSignatureAsNumpy()) if raw.ShapeSignatureLength() else shape
        # The converter writes an open batch as -1 in the signature and 1 in the shape.
        if any(d < 1 for d in (*shape, *signature[1:])) or (not constant and not shape):
            raise ModelError(
                "Every shape must be known but for the batch; tensor "
                f"{source!r} of {self.path} has shape {list(signature)}. "
                "Export the model with a fixed input shape."
            )
        return shape

    def _buffer(self, raw: Any) -> Array | None:
        buffer = self._model.Buffers(raw.Buffer())
        if buffer.Size() > 0:
            raise ModelError(
                "Constants must be stored inside the flatbuffer, not after it "
                f"({self.path}). Export a model below 2 GiB."
            )
        if not buffer.DataLength():
            return None
        data: Array = buffer.DataAsNumpy()
        return data

    def _quant(self, raw: Any, dtype: np.dtype[Any], source: str) -> Quant | None:
        params = raw.Quantization()
        if params is None or not params.ScaleLength():
            if dtype.itemsize > 1:
                return None
            raise ModelError(
                f"An 8-bit tensor must have a scale and a zero point; {source!r} of {self.path} "
                f"({dtype}) has none. Quantize the model fully."
            )
        scale: Array = params.ScaleAsNumpy().astype(np.float32)
        zero_point: Array = (
            params.ZeroPointAsNumpy().astype(np.int64)
            if params.ZeroPointLength()
            else np.zeros(scale.size, np.int64)
        )
        limits = np.iinfo(dtype if dtype.kind in "iu" else np.int32)
        if zero_point.min() < limits.min or zero_point.max() > limits.max:
            raise ModelError(
                f"A zero point must be a value of its tensor's dtype {dtype}, not "
                f"{zero_point.min()}..{zero_point.max()} (tensor {source!r} of {self.path}). "
                "Quantize the model again."
            )
        axis = params.QuantizedDimension() if scale.size > 1 else None
        return Quant(scale, zero_point, axis)


def _indices(vector: Any) -> tuple[int, ...]:
    # flatbuffers gives 0, not an empty vector, for one that is absent.
    return () if isinstance(vector, int) else tuple(int(i) for i in vector)
