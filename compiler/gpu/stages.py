"""Tensors cut into stages: what a kernel each computes, from what the ones before it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler.cpu.inlining import inline_cheap, work_of
from vdla.compiler.cpu.schedule import host_of
from vdla.compiler.lower.regions import inline_stages
from vdla.compiler.te import IterVar, Tensor, Var, create_schedule, placeholder
from vdla.compiler.te.expr import Const, Expr, Read, Real, Reduce, Select
from vdla.compiler.te.traverse import map_expr

__all__ = ["CutStage", "cut"]


@dataclass(frozen=True, eq=False)
class CutStage:
    """A stage on its own.

    Attributes
    ----------
    of : Tensor
        Which of the tensors that were cut it computes.
    output : Tensor
        The same in terms of placeholders: reductions that it reads element for element are all
        that is computed beside it. One of no dimensions has one here, of one element.
    inputs : mapping of Tensor to Tensor
        Placeholders, and the tensors that they stand for: others' output, or inputs of the whole.
    """

    of: Tensor
    output: Tensor
    inputs: Mapping[Tensor, Tensor]


def cut(output: Tensor) -> tuple[CutStage, ...]:
    """Return the stages of a tensor and of all that it is computed from, in order.

    Before: ``most = max(x)``, ``e = exp(x - most)``, ``total = sum(e)``, ``out = e / total``.
    After: the same four with placeholders for x, most, e and total. What only moves elements, or
    costs next to nothing, is computed where it is read.
    """
    schedule = create_schedule(output)
    inline_cheap(schedule)
    for stage in schedule.stages:
        if stage.tensor is not output and _moves(stage.body):
            stage.compute_inline()
    bodies = {stage.tensor: stage.body for stage in inline_stages(schedule)}
    hosts = {
        tensor: host
        for tensor, body in bodies.items()
        if isinstance(body, Reduce) and (host := host_of(tensor, schedule, bodies)) is not None
    }
    return tuple(_alone(tensor, bodies, hosts) for tensor in bodies if tensor not in hosts)


def _moves(body: Expr) -> bool:
    """Tell whether a body takes an element from somewhere, or a number, and does no more."""
    if isinstance(body, Select):
        return _moves(body.then) and _moves(body.other)
    if isinstance(body, Read):
        return work_of(body) == 0
    return isinstance(body, (Const, Real))


def _alone(
    tensor: Tensor, bodies: Mapping[Tensor, Expr], hosts: Mapping[Tensor, Tensor]
) -> CutStage:
    inputs: dict[Tensor, Tensor] = {}
    made: dict[Tensor, Tensor] = {}

    def of(read: Tensor) -> Tensor:
        if hosts.get(read) is tensor:
            if read not in made:
                made[read] = rebuilt(read)
            return made[read]
        for given, stands_for in inputs.items():
            if stands_for is read:
                return given
        given = placeholder(read.shape, read.dtype, read.name)
        inputs[given] = read
        return given

    def visit(expr: Expr) -> Expr | None:
        if not isinstance(expr, Read):
            return None
        given = of(expr.tensor)
        indices = tuple(map_expr(index, visit) for index in expr.indices)
        return Read(given, indices if given.shape == expr.tensor.shape else (Const(0),))

    def rebuilt(one: Tensor) -> Tensor:
        body = map_expr(bodies[one], visit)
        if one.shape:
            return Tensor(one.name, one.shape, one.dtype, one.axes, body)
        return Tensor(one.name, (1,), one.dtype, (IterVar(Var("i"), Const(1)),), body)

    return CutStage(tensor, rebuilt(tensor), inputs)
