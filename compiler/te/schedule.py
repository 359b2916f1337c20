"""Schedules: how a tensor expression is computed, apart from what it computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vdla.errors import ScheduleError

from .expr import Expr, Read, Reduce, Var, as_expr
from .stage import Stage
from .tensor import IterVar, Tensor
from .traverse import map_expr, walk

__all__ = ["Schedule", "create_schedule"]


@dataclass
class Schedule:
    """A list of stages, producers first, and the primitives that change them.

    ``s[tensor]`` is the stage that computes a tensor. Primitives of one stage are methods of
    `Stage`; those that add stages are methods here.
    """

    outputs: tuple[Tensor, ...]
    stages: list[Stage] = field(default_factory=list)

    def __getitem__(self, tensor: Tensor) -> Stage:
        for stage in self.stages:
            if stage.tensor is tensor:
                return stage
        known = ", ".join(stage.name for stage in self.stages)
        raise ScheduleError(f"A schedule has stages for {known}, not for {tensor.name}.")

    def consumers(self, tensor: Tensor) -> list[Stage]:
        """Return the stages that read a tensor."""
        return [stage for stage in self.stages if tensor in stage.reads()]

    def cache_read(self, tensor: Tensor, scope: str, readers: Sequence[Tensor]) -> Tensor:
        """Copy a tensor into a memory scope before it is read.

        Before::

            for i: c[i] = a[i] * 2

        After ``ab = s.cache_read(a, "inp", [c])``::

            for i: ab[i] = a[i]          # in scope inp
            for i: c[i] = ab[i] * 2

        Parameters
        ----------
        tensor : Tensor
            What to copy.
        scope : str
            Memory scope of the copy.
        readers : sequence of Tensor
            The tensors whose stages read the copy from now on.

        Returns
        -------
        Tensor
            The copy.
        """
        name = f"{tensor.name}.{scope}"
        axes = tuple(
            IterVar(Var(f"i{k}"), as_expr(extent)) for k, extent in enumerate(tensor.shape)
        )
        body = Read(tensor, tuple(axis.var for axis in axes))
        copy = Tensor(name, tensor.shape, tensor.dtype, axes, body)
        stages = [self[reader] for reader in readers]
        if not stages:
            raise ScheduleError(f"cache_read of {tensor.name} must name at least one reader.")
        for stage in stages:
            if tensor not in stage.reads():
                raise ScheduleError(f"{stage.name} does not read {tensor.name}.")
            stage.body = _redirect(stage.body, tensor, copy)
        first = min(self.stages.index(stage) for stage in stages)
        self.stages.insert(first, Stage.of(copy, scope=scope))
        return copy

    def cache_write(self, tensor: Tensor, scope: str) -> Tensor:
        """Compute a tensor in a memory scope and copy it out afterwards.

        Before::

            for i: c[i] = a[i] * 2

        After ``cb = s.cache_write(c, "acc")``::

            for i: cb[i] = a[i] * 2      # in scope acc
            for i: c[i] = cb[i]

        Returns
        -------
        Tensor
            The tensor computed in the scope; schedule it instead of the original.
        """
        stage = self[tensor]
        guests = [s.name for s in self.stages if s.attach and s.attach.stage is stage]
        if stage.scheduled or guests:
            raise ScheduleError(
                f"cache_write must come before {stage.name} is scheduled or stages are computed "
                "in it: its loops move to the cached tensor."
            )
        inner = Tensor(
            f"{tensor.name}.{scope}", tensor.shape, tensor.dtype, tensor.axes, stage.body
        )
        axes = tuple(
            IterVar(Var(f"i{k}"), as_expr(extent)) for k, extent in enumerate(tensor.shape)
        )
        at = self.stages.index(stage)
        cached = Stage.of(inner, scope=scope)
        replaced = Stage.of(
            Tensor(
                tensor.name, tensor.shape, tensor.dtype, axes, inner[tuple(a.var for a in axes)]
            ),
            scope=stage.scope,
        )
        replaced.tensor = tensor
        self.stages[at : at + 1] = [cached, replaced]
        return inner


def _redirect(body: Expr, old: Tensor, new: Tensor) -> Expr:
    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and expr.tensor is old:
            return Read(new, expr.indices)
        return None

    return map_expr(body, visit)


def create_schedule(outputs: Tensor | Iterable[Tensor]) -> Schedule:
    """Return the default schedule of tensors: every stage at the root, loops in axis order.

    Parameters
    ----------
    outputs : Tensor or iterable of Tensor
        What is computed; everything they read is included.
    """
    roots = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    ordered: list[Tensor] = []

    def visit(tensor: Tensor) -> None:
        if tensor.body is None or tensor in ordered:
            return
        for part in walk(tensor.body):
            if isinstance(part, Read):
                visit(part.tensor)
        ordered.append(tensor)

    for root in roots:
        visit(root)
    owners: dict[IterVar, Tensor] = {}
    for tensor in ordered:
        for axis in tensor.body.axes if isinstance(tensor.body, Reduce) else ():
            if axis in owners:
                raise ScheduleError(
                    f"A reduce axis must belong to one tensor; {axis.name} belongs to "
                    f"{owners[axis].name} and {tensor.name}: declare one for each."
                )
            owners[axis] = tensor
    return Schedule(roots, [Stage.of(tensor) for tensor in ordered])
