"""A graph as the bytes of a TFLite file for LiteRT to run; needs ai-edge-litert."""

from __future__ import annotations

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.shapes import same_padding

_TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "int32": schema.TensorType.INT32,
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
}
_CODES = {
    "add": "ADD",
    "avg_pool2d": "AVERAGE_POOL_2D",
    "conv2d": "CONV_2D",
    "dense": "FULLY_CONNECTED",
    "depthwise_conv2d": "DEPTHWISE_CONV_2D",
    "dequantize": "DEQUANTIZE",
    "max_pool2d": "MAX_POOL_2D",
    "mean": "MEAN",
    "pad": "PAD",
    "quantize": "QUANTIZE",
    "relu": "RELU",
    "relu6": "RELU6",
    "reshape": "RESHAPE",
    "softmax": "SOFTMAX",
}
_OPTIONS = {
    "add": "AddOptions",
    "avg_pool2d": "Pool2DOptions",
    "conv2d": "Conv2DOptions",
    "dense": "FullyConnectedOptions",
    "depthwise_conv2d": "DepthwiseConv2DOptions",
    "dequantize": "DequantizeOptions",
    "max_pool2d": "Pool2DOptions",
    "mean": "ReducerOptions",
    "pad": "PadOptions",
    "quantize": "QuantizeOptions",
    "softmax": "SoftmaxOptions",
}
_PARAMETERS = {"mean": "axes", "pad": "paddings", "reshape": "shape"}
ACTIVATIONS = {"none": 0, "relu": 1, "relu6": 3}


class TfliteWriter:
    """Write one graph.

    Parameters
    ----------
    graph : Graph
    activations : mapping of str to str
        Fused activation by node name, a key of `ACTIVATIONS`: a clip range does not tell.
    """

    def __init__(self, graph: Graph, activations: dict[str, str]) -> None:
        self._graph = graph
        self._activations = activations
        self._model = schema.ModelT()
        self._model.version = 3
        self._model.buffers = [schema.BufferT()]
        self._model.operatorCodes = []
        self._subgraph = schema.SubGraphT()
        self._subgraph.tensors, self._subgraph.operators = [], []
        self._model.subgraphs = [self._subgraph]
        self._places: dict[str, int] = {}
        self._codes: dict[str, int] = {}

    def write(self) -> bytes:
        graph = self._graph
        for tensor in graph.tensors.values():
            self._tensor(tensor.name, tensor.shape, tensor.dtype, tensor.quant, tensor.data)
        for node in graph.nodes:
            self._node(node)
        self._subgraph.inputs = [self._places[name] for name in graph.inputs]
        self._subgraph.outputs = [self._places[name] for name in graph.outputs]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, name, shape, dtype, quant=None, data=None) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.hasRank = name, list(shape), True
        tensor.type = _TYPES[str(np.dtype(dtype))]
        tensor.buffer = 0
        if quant is not None:
            params = schema.QuantizationParametersT()
            params.scale = [float(np.float32(s)) for s in quant.scale]
            params.zeroPoint = [int(z) for z in quant.zero_point]
            params.quantizedDimension = quant.axis or 0
            tensor.quantization = params
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self._model.buffers.append(buffer)
            tensor.buffer = len(self._model.buffers) - 1
        self._subgraph.tensors.append(tensor)
        self._places[name] = len(self._subgraph.tensors) - 1
        return self._places[name]

    def _operator(self, code: str, inputs, outputs, options=None, kind: int = 0) -> None:
        if code not in self._codes:
            entry = schema.OperatorCodeT()
            entry.builtinCode = getattr(schema.BuiltinOperator, code)
            entry.deprecatedBuiltinCode = min(entry.builtinCode, 127)
            entry.version = 1
            self._codes[code] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(entry)
        operator = schema.OperatorT()
        operator.opcodeIndex = self._codes[code]
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        operator.builtinOptions, operator.builtinOptionsType = options, kind
        self._subgraph.operators.append(operator)

    def _node(self, node: Node) -> None:
        inputs = [self._places[name] for name in node.inputs]
        options, kind = None, 0
        if node.op in _OPTIONS:
            options = getattr(schema, _OPTIONS[node.op] + "T")()
            kind = getattr(schema.BuiltinOptions, _OPTIONS[node.op])
            self._fill(options, node, inputs)
        if node.op in _PARAMETERS:
            values = np.array(node.attrs[_PARAMETERS[node.op]], np.int32)
            inputs.append(
                self._tensor(f"{node.name}.parameter", values.shape, np.int32, data=values)
            )
        outputs = [self._places[name] for name in node.outputs]
        self._operator(_CODES[node.op], inputs, outputs, options, kind)

    def _fill(self, options, node: Node, inputs: list[int]) -> None:
        attrs = node.attrs
        if hasattr(options, "fusedActivationFunction"):
            options.fusedActivationFunction = ACTIVATIONS[self._activations.get(node.name, "none")]
        if node.op in ("mean", "dense"):
            setattr(options, "keepDims" if node.op == "mean" else "keepNumDims", attrs["keep_dims"])
        if node.op == "softmax":
            options.beta = attrs["beta"]
        if "strides" in attrs:
            options.strideH, options.strideW = attrs["strides"]
            options.padding = self._padding(node, inputs)
        if "window" in attrs:
            options.filterHeight, options.filterWidth = attrs["window"]
        if "dilation" in attrs:
            options.dilationHFactor, options.dilationWFactor = attrs["dilation"]
        if node.op == "depthwise_conv2d":
            data, weight = self._graph.input_tensors(node)[:2]
            options.depthMultiplier = weight.shape[3] // data.shape[3]

    def _padding(self, node: Node, inputs: list[int]) -> int:
        """Say SAME or VALID, after an explicit pad where neither is meant."""
        attrs, data = node.attrs, self._graph.input_tensors(node)[0]
        window = attrs.get("window") or self._graph.tensors[node.inputs[1]].shape[1:3]
        dilation = attrs.get("dilation", (1, 1))
        same = tuple(
            same_padding(data.shape[1 + i], window[i], attrs["strides"][i], dilation[i])
            for i in range(2)
        )
        if attrs["padding"] == ((0, 0), (0, 0)):
            return schema.Padding.VALID
        if attrs["padding"] == same:
            return schema.Padding.SAME
        pairs = np.array([(0, 0), *attrs["padding"], (0, 0)], np.int32)
        shape = np.array(data.shape) + pairs.sum(axis=1)
        source = [inputs[0], self._tensor(f"{node.name}.pads", (4, 2), np.int32, data=pairs)]
        code, options, kind = "PAD", schema.PadOptionsT(), schema.BuiltinOptions.PadOptions
        if node.op == "max_pool2d":
            code, options, kind = (
                "PADV2",
                schema.PadV2OptionsT(),
                schema.BuiltinOptions.PadV2Options,
            )
            lowest = np.array([np.iinfo(data.dtype).min], data.dtype)
            source.append(self._tensor(f"{node.name}.lowest", (1,), data.dtype, data.quant, lowest))
        inputs[0] = self._tensor(f"{node.name}.padded", shape.tolist(), data.dtype, data.quant)
        self._operator(code, source, [inputs[0]], options, kind)
        return schema.Padding.VALID
