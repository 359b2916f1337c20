"""What the ALU does to the operands of an element-wise node, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph import Graph, Node
from vdla.compiler.graph.quantization import (
    AddParams,
    LeakyParams,
    add_params,
    leaky_params,
    rescale_params,
)
from vdla.compiler.targets.vdla.intrinsics import alu, alu_imm, rq
from vdla.compiler.te import Expr, Tensor, TensorIntrin, compute, maximum, requantize
from vdla.config import Config
from vdla.isa import AluOp

from .domain import signed
from .packing import requantize_params

__all__ = ["Chain", "Work", "work_of"]

ParameterSet = tuple[int, int, int, int, str]
"""Bias, multiplier, right shift, zero point and rounding of a requantization."""


@dataclass(frozen=True)
class Work:
    """What is done to each operand, then to their sum: shift left, requantize.

    A leaky ReLU has its input as both operands: requantized with either slope, the greater counts.

    Attributes
    ----------
    left_shifts : tuple of int
        Of each operand.
    scales : tuple of ParameterSet or None
        Of each operand; None where it is not requantized.
    final : ParameterSet
    clip : (int, int)
    below : ParameterSet or None
        Where the operands are not added: of the first one; `final` is then the second one's.
    """

    left_shifts: tuple[int, ...]
    scales: tuple[ParameterSet | None, ...]
    final: ParameterSet
    clip: tuple[int, int]
    below: ParameterSet | None = None

    @property
    def sets(self) -> list[ParameterSet]:
        """The parameters of every requantization, in order."""
        scales = (*self.scales, self.below)
        return [*(scale for scale in scales if scale is not None), self.final]

    @property
    def passes(self) -> int:
        """Cycles of the ALU a vector: a sum or maximum of two vectors takes two."""
        return sum(map(bool, self.left_shifts)) + len(self.sets) + 2 * (len(self.scales) - 1)

    def reversed(self) -> Work:
        """Return the same work with its two operands exchanged."""
        return Work(self.left_shifts[::-1], self.scales[::-1], self.final, self.clip)

    def packed(self, config: Config) -> NDArray[np.int32]:
        """Return all parameters, (sets, 3, batch, block_out); the same for every channel."""
        lanes = np.ones(config.block_out, np.int32)
        parts = [
            requantize_params(lanes * bias, lanes * m, lanes * shift, zero, rounding, config)
            for bias, m, shift, zero, rounding in self.sets
        ]
        return np.concatenate(parts)


def work_of(graph: Graph, node: Node) -> Work:
    """Return the work of an add, leaky_relu, relu, relu6, clip or quantize node."""
    if node.op == "add":
        return _addition(signed(add_params(graph, node), graph, node))
    if node.op == "leaky_relu":
        return _leaky(signed(leaky_params(graph, node), graph, node))
    scale = signed(rescale_params(graph, node), graph, node)
    final = (
        -scale.input_zero_point,
        scale.multiplier,
        scale.right_shift,
        scale.output_zero_point,
        scale.rounding,
    )
    return Work((0,), (None,), final, scale.clip)


def _leaky(leaky: LeakyParams) -> Work:
    """Return a leaky ReLU's work; a multiplier of 1 and more is one below 1 of a shifted operand.

    Rounding is monotonic, so with a slope of at most 1 the greater result is the right one.
    """
    left = max(0, -leaky.right_shift, -leaky.below_right_shift)
    above, below = (
        (-(leaky.input_zero_point << left), m, shift + left, leaky.output_zero_point, "single")
        for m, shift in (
            (leaky.multiplier, leaky.right_shift),
            (leaky.below_multiplier, leaky.below_right_shift),
        )
    )
    return Work((left, left), (None, None), above, leaky.clip, below)


def _addition(add: AddParams) -> Work:
    """Return an addition's work; an operand whose multiplier is one half is shifted instead.

    Half of ``(q - zero) << 20`` is ``(q - zero) << 19`` with nothing to round. The operand of the
    larger scale has that multiplier. Its zero point moves into the bias of the sum.
    """
    shifts: list[int] = []
    scales: list[ParameterSet | None] = []
    bias = 0
    for zero, multiplier, shift in zip(
        add.input_zero_point, add.input_multiplier, add.input_right_shift, strict=True
    ):
        if (multiplier, shift) == (1 << 30, 0):
            shifts.append(add.left_shift - 1)
            scales.append(None)
            bias -= zero << (add.left_shift - 1)
        else:
            shifts.append(add.left_shift)
            scales.append((-(zero << add.left_shift), multiplier, shift, 0, add.rounding))
    final = (
        bias,
        add.output_multiplier,
        add.output_right_shift,
        add.output_zero_point,
        add.rounding,
    )
    return Work(tuple(shifts), tuple(scales), final, add.clip)


class Chain:
    """The passes as stages of tensor expressions.

    Parameters
    ----------
    shape : tuple of int
        Of the operands; the last two dimensions are an entry's.
    work : Work
    params : Tensor
        A place for `Work.packed`.
    config : Config

    Attributes
    ----------
    stages : list of (Tensor, TensorIntrin)
        In order, each with the instruction that computes it.
    """

    def __init__(self, shape: Sequence[int], work: Work, params: Tensor, config: Config) -> None:
        self.stages: list[tuple[Tensor, TensorIntrin]] = []
        self._shape = tuple(shape)
        self._work = work
        self._params = params
        self._config = config
        self._set = iter(range(len(work.sets)))

    def operand(self, number: int, wide: Tensor, name: str) -> Tensor:
        """Return an operand in ACC, shifted and requantized; operands come in order."""
        left, last = self._work.left_shifts[number], wide
        if left:
            last = compute(self._shape, lambda *i: wide[i] >> -left, f"{name}.shifted")
            self.stages.append((last, alu_imm(self._config, AluOp.SHR)))
        scaled = self._work.scales[number] is not None
        return self._rescaled(last, 0, -1, f"{name}.scaled") if scaled else last

    def finish(self, terms: Sequence[Tensor]) -> Tensor:
        """Return the sum of the operands, requantized, or the greater of them."""
        if self._work.below is not None:
            low, high = (self._rescaled(t, *self._work.clip, f"{t.name}.scaled") for t in terms)
            greater = compute(self._shape, lambda *i: maximum(high[i], low[i]), "leaky")
            self.stages.append((greater, alu(self._config, AluOp.MAX)))
            return greater
        total = terms[0]
        if len(terms) == 2:
            total = compute(self._shape, lambda *i: terms[0][i] + terms[1][i], "sum")
            self.stages.append((total, alu(self._config, AluOp.ADD)))
        return self._rescaled(total, *self._work.clip, "added")

    def _rescaled(self, x: Tensor, low: int, high: int, name: str) -> Tensor:
        k = next(self._set)

        def body(*i: Expr) -> Expr:
            bias, multiplier, packed = (self._params[k, part, i[-2], i[-1]] for part in range(3))
            return requantize(x[i], bias, multiplier, packed, low, high)

        self.stages.append((compute(self._shape, body, name), rq(self._config)))
        return self.stages[-1][0]
