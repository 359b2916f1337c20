"""Small graphs of any operators, and random ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import OPS, Graph, Node, Quant, Tensor
from vdla.compiler.reference.operators import OPERATORS
from vdla.compiler.reference.values import Value

Array = NDArray[Any]

WINDOW = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}


class Net:
    """A graph being written: each call of `op` returns the name of its output."""

    def __init__(self, seed: int = 0) -> None:
        self.source = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []

    def input(
        self,
        *shape: int,
        dtype: Any = np.float32,
        quant: Quant | None = None,
    ) -> str:
        name = f"x{len(self.inputs)}"
        self.tensors[name] = Tensor(name, shape, np.dtype(dtype), quant)
        self.inputs.append(name)
        return name

    def constant(self, values: Any, quant: Quant | None = None) -> str:
        data = np.asarray(values)
        name = f"c{len(self.tensors)}"
        self.tensors[name] = Tensor(name, data.shape, data.dtype, quant, data)
        return name

    def drawn(self, *shape: int) -> str:
        return self.constant(self.source.normal(0, 1, shape).astype(np.float32))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def op(
        self, op: str, *inputs: str, dtype: Any = None, quant: Quant | None = None, **attrs: Any
    ) -> str:
        for key, value in (("clip", (-inf, inf)), ("rounding", "single")):
            if key in OPS[op].attrs:
                attrs.setdefault(key, value)
        shape = OPS[op].shape([self.shape(t) for t in inputs], attrs)
        kind = self.tensors[inputs[0]].dtype if dtype is None else np.dtype(dtype)
        output = f"t{len(self.tensors)}"
        self.tensors[output] = Tensor(output, shape, kind, quant)
        self.nodes.append(Node(f"{op}_{len(self.nodes)}", op, inputs, (output,), attrs))
        return output

    def conv(self, x: str, channels: int, bias: bool = True) -> str:
        w = self.drawn(channels, 3, 3, self.shape(x)[3])
        b = [self.drawn(channels)] if bias else []
        return self.op("conv2d", x, w, *b, **{**WINDOW, "padding": ((1, 1), (1, 1))})

    def transpose(self, x: str, *perm: int) -> str:
        return self.op("transpose", x, perm=perm)

    def graph(self, *outputs: str) -> Graph:
        return Graph("net", self.tensors, self.nodes, self.inputs, outputs)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def counts(graph: Graph) -> Counter[str]:
    return Counter(ops(graph))


def run(graph: Graph, seed: int = 1) -> dict[str, Array]:
    """Return what the definitions of the operators make of drawn inputs."""
    source = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype.kind == "f":
            values[name] = source.normal(0, 1, tensor.shape).astype(tensor.dtype)
        else:
            limits = np.iinfo(tensor.dtype)
            drawn = source.integers(limits.min, limits.max, tensor.shape, endpoint=True)
            values[name] = drawn.astype(tensor.dtype)
    for tensor in graph.tensors.values():
        if tensor.data is not None:
            values[tensor.name] = tensor.data
    for node in graph.nodes:
        operands = [Value(t, values[t.name]) for t in graph.input_tensors(node)]
        output = graph.output_tensor(node)
        values[output.name] = OPERATORS[node.op](node, operands, output)
    return {name: values[name] for name in graph.outputs}


def assert_same(before: Graph, after: Graph, steps: int | None = None) -> None:
    """Hold inputs, outputs and results equal; integers within some steps, where given."""
    assert before.inputs == after.inputs
    assert before.outputs == after.outputs
    expected, found = run(before), run(after)
    for name, values in expected.items():
        one, other = before.tensors[name], after.tensors[name]
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if values.dtype.kind == "f":
            np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5)
        else:
            apart = np.abs(found[name].astype(np.int64) - values.astype(np.int64)).max()
            assert apart <= (steps or 0)


def random_net(seed: int, length: int = 14) -> Graph:
    """Return a network of operators that know dimensions, transposes and reshapes among them."""
    net = Net(seed)
    draw = net.source
    pool = [net.input(1, 2, 4, 6), net.input(1, 4, 6, 2), net.input(1, 4, 6, 2)]
    for _ in range(length):
        x = pool[draw.integers(len(pool))]
        pool.append(_random_op(net, x, pool))
    read = {t for node in net.nodes for t in node.inputs}
    ends = [node.outputs[0] for node in net.nodes if node.outputs[0] not in read]
    return net.graph(*dict.fromkeys([*ends, pool[3]]))


def _random_op(net: Net, x: str, pool: Sequence[str]) -> str:
    draw, shape = net.source, net.shape(x)
    rank = len(shape)
    axis = int(draw.integers(rank))
    kind = draw.integers(13)
    alike = [t for t in pool if net.shape(t) == shape]
    if kind <= 2:
        if rank == 4 and draw.random() < 0.8:
            return net.transpose(x, *((0, 3, 1, 2), (0, 2, 3, 1))[draw.integers(2)])
        return net.transpose(x, *(int(d) for d in draw.permutation(rank)))
    if kind == 3:
        return net.op("add", x, alike[draw.integers(len(alike))])
    if kind == 4:
        along = [d if draw.random() < 0.5 else 1 for d in shape][draw.integers(rank) :]
        return net.op("mul", x, net.drawn(*along))
    if kind == 5:
        return net.op("concat", x, alike[draw.integers(len(alike))], axis=axis)
    if kind == 6:
        begin = [int(draw.integers((d + 1) // 2)) for d in shape]
        return net.op("slice", x, begin=tuple(begin), end=shape, step=(1,) * rank)
    if kind == 7:
        pairs = tuple((int(draw.integers(2)), int(draw.integers(2))) for _ in shape)
        return net.op("pad", x, paddings=pairs, value=0.5, mode="constant")
    if kind == 8:
        keep = bool(draw.integers(2)) or rank == 1
        return net.op(("mean", "reduce_max")[draw.integers(2)], x, axes=(axis,), keep_dims=keep)
    if kind == 9:
        return net.op("softmax", x, axis=axis, beta=1.0)
    if kind == 10:
        return net.op(("relu", "tanh")[draw.integers(2)], x)
    if kind == 11 and rank == 4:
        factors = np.divide(shape, 1)
        size = tuple(int(d) * int(draw.integers(1, 3)) for d in shape)
        scales = tuple(float(s) for s in size / factors)
        return net.op(
            "resize", x, size=size, scales=scales, mode="nearest", coordinates="asymmetric",
            nearest="floor", cubic_a=-0.75, exclude_outside=False, antialias=False,
            extrapolation=0.0, roi=None,
        )  # fmt: skip
    return net.op("reshape", x, shape=_random_shape(net, shape))


def _random_shape(net: Net, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape of as many elements: a dimension split, two merged, or ones moved."""
    draw = net.source
    made = list(shape)
    place = int(draw.integers(len(made)))
    if draw.random() < 0.4 and len(made) > 1:
        place = min(place, len(made) - 2)
        made[place : place + 2] = [prod(made[place : place + 2])]
    elif draw.random() < 0.5:
        divisors = [d for d in range(1, made[place] + 1) if made[place] % d == 0]
        split = int(divisors[draw.integers(len(divisors))])
        made[place : place + 1] = [split, made[place] // split]
    else:
        made = [d for d in made if d > 1] or [1]
        made.insert(int(draw.integers(len(made) + 1)), 1)
    return tuple(made) if len(made) <= 6 else shape
