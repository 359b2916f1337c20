"""A convolution and what is fused to it as a search space, for whoever tunes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.passes.groups import fusion_groups
from vdla.compiler.targets.cpu.target import Target, supports
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.features import Features, features
from vdla.compiler.tune.fragment import Fragment, counted, shape_of
from vdla.compiler.tune.kept import kept
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task
from vdla.errors import InputError, LoweringError
from vdla.processor import model_name

from .choice import Choice
from .choices import Choices
from .group import group_kernel, head_of, split_group

__all__ = [
    "TEMPLATE_VERSION",
    "CpuTemplate",
    "processor_of",
    "recorded_choice",
    "task_of",
    "templates_of",
]

TEMPLATE_VERSION = 2
"""Of the template: another one where points, what is made of them, or estimates differ, by which
costs are scaled; records of it are then not used."""


@dataclass(frozen=True, eq=False)
class CpuTemplate:
    """A convolution, and what is fused to it, on one processor.

    Parameters
    ----------
    fragment : Fragment
        Those operators alone.
    target : Target
    threads : int
    processor : str
        What it is called: `processor_of` the target on the machine that asks.
    """

    fragment: Fragment
    target: Target
    threads: int = 1
    processor: str = ""

    unit = "seconds"

    def __reduce__(self) -> tuple[Any, ...]:
        more = (self.target, self.threads, self.processor)
        return kept, (self.task.key, _restored, *self.fragment.sent, *more)

    @classmethod
    def of(
        cls, graph: Graph, nodes: Sequence[Node], target: Target, threads: int = 1
    ) -> CpuTemplate:
        """Return the template of a part of a group that a convolution heads."""
        return cls(Fragment.of(graph, nodes), target, threads, processor_of(target))

    @property
    def graph(self) -> Graph:
        """The operators."""
        return self.fragment.graph

    @cached_property
    def task(self) -> Task:
        """The key of its records."""
        return _task(self.graph, self.graph.nodes, self.target, self.threads, self.processor)

    @cached_property
    def choices(self) -> Choices:
        """What may be chosen."""
        head = head_of(self.graph, self.graph.nodes[0])
        assert head is not None
        return Choices(head, self.target, self.threads)

    @property
    def default(self) -> Point:
        """The point by rules."""
        return asdict(self.choices.default)

    @cached_property
    def space(self) -> Space:
        """Every choice; the one by rules is the first."""
        return Space(asdict(choice) for choice in self.choices.every())

    def prior(self, point: Point) -> float:
        """Return an analytic estimate of a point's seconds."""
        return self.choices.seconds(choice_of(point))

    def floor(self, point: Point) -> float:
        """Return 0: nothing is known that a point's seconds cannot go below."""
        return 0.0

    def features(self, point: Point) -> Features | None:
        """Return what a cost model sees of a point, None where it cannot be lowered."""
        try:
            made = group_kernel(self.graph, self.graph.nodes, self.target, choice=choice_of(point))
            return features(build_nests(made.schedule).body)
        except LoweringError:
            return None


def choice_of(point: Point) -> Choice:
    """Return a point of a space as a choice."""
    return Choice(**point)  # type: ignore[arg-type]


def templates_of(graph: Graph, target: Target, threads: int = 1) -> list[tuple[CpuTemplate, int]]:
    """Return the templates of a graph's convolutions, and how often each occurs.

    Parameters
    ----------
    graph : Graph
    target : Target
    threads : int
    """
    parts = (
        part
        for group in fusion_groups(graph)
        for part in split_group(graph, group.nodes)
        if head_of(graph, part[0]) is not None
    )
    return counted(
        parts,
        lambda part: task_of(graph, part, target, threads),
        lambda part: CpuTemplate.of(graph, part, target, threads),
    )


def recorded_choice(
    records: Database | None, graph: Graph, nodes: Sequence[Node], target: Target, threads: int
) -> Choice | None:
    """Return what the record of exactly this task chooses, None where there is none.

    Raises
    ------
    InputError
        The record's point is none of the template's.
    """
    head = None if records is None else head_of(graph, nodes[0])
    if records is None or head is None:
        return None
    record = records.find(task_of(graph, nodes, target, threads))
    if record is None:
        return None
    every = Choices(head, target, threads).every()
    found = next((choice for choice in every if vars(choice) == dict(record.point)), None)
    if found is None:
        raise InputError(
            f"A record's point must be one of the template's {len(every)}, and "
            f"{dict(record.point)} is none: delete the record, or tune again."
        )
    return found


def task_of(graph: Graph, nodes: Sequence[Node], target: Target, threads: int) -> Task:
    """Return the key of the records of a part of a group, on this machine's processor."""
    return _task(graph, nodes, target, threads, processor_of(target))


def processor_of(target: Target) -> str:
    """Return what this machine's processor is called; "" where it does not run the target's code.

    Records for other machines would need to say which: none are found for those yet.
    """
    return model_name() if supports(target) else ""


def _task(
    graph: Graph, nodes: Sequence[Node], target: Target, threads: int, processor: str
) -> Task:
    return Task(
        "cpu.conv2d",
        TEMPLATE_VERSION,
        shape_of(graph, nodes),
        {
            "kind": "cpu",
            "level": target.level,
            "features": list(target.requires),
            "vector_bits": target.vector_bits,
            "vector_registers": target.vector_registers,
            "threads": threads,
            "processor": processor,
        },
    )


def _restored(
    tensors: Sequence[Tensor],
    nodes: Sequence[Node],
    spreads: Mapping[str, float],
    target: Target,
    threads: int,
    processor: str,
) -> CpuTemplate:
    return CpuTemplate(Fragment.drawn(tensors, nodes, spreads), target, threads, processor)
