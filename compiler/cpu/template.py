"""A convolution and what is fused to it as a search space, for whoever tunes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, Tensor
from vdla.compiler.graph.keys import frozen
from vdla.compiler.lower.nest import build_nests
from vdla.compiler.passes.groups import fusion_groups
from vdla.compiler.targets.cpu.target import Target, supports
from vdla.compiler.tune.database import Database
from vdla.compiler.tune.features import Features, features
from vdla.compiler.tune.kept import kept
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task
from vdla.errors import InputError, LoweringError
from vdla.processor import model_name

from .choice import Choice
from .choices import Choices
from .define.site import Array
from .group import group_kernel, head_of, split_group

__all__ = [
    "TEMPLATE_VERSION",
    "CpuTemplate",
    "processor_of",
    "recorded_choice",
    "task_of",
    "templates_of",
]

TEMPLATE_VERSION = 1
"""Of the template: another one where points, what is made of them, or estimates differ, by which
costs are scaled; records of it are then not used."""


@dataclass(frozen=True, eq=False)
class CpuTemplate:
    """A convolution, and what is fused to it, on one processor.

    Parameters
    ----------
    graph : Graph
        Of those operators alone, as `of` cuts it out.
    target : Target
    threads : int
    spread : float
        Standard deviation of the weights, which are drawn anew in every process.
    processor : str
        What it is called: `processor_of` the target on the machine that asks.
    """

    graph: Graph
    target: Target
    threads: int = 1
    spread: float = 1.0
    processor: str = ""

    unit = "seconds"

    def __reduce__(self) -> tuple[Any, ...]:
        weight = self.graph.nodes[0].inputs[1]
        tensors = [replace(t, data=None) if t.name == weight else t for t in self._tensors]
        more = (self.target, self.threads, self.spread, self.processor)
        return kept, (self.task.key, _restored, tensors, self.graph.nodes, *more)

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return tuple(self.graph.tensors.values())

    @classmethod
    def of(
        cls, graph: Graph, nodes: Sequence[Node], target: Target, threads: int = 1
    ) -> CpuTemplate:
        """Return the template of a part of a group that a convolution heads.

        Its time does not depend on the weights: those are drawn anew, the same in every process,
        so that they need not be sent there.
        """
        names = dict.fromkeys(name for node in nodes for name in (*node.inputs, *node.outputs))
        data = graph.tensors[nodes[0].inputs[1]].data
        spread = 1.0 if data is None else float(np.std(data, dtype=np.float64))
        tensors = [graph.tensors[name] for name in names]
        return _restored(tensors, nodes, target, threads, spread, processor_of(target))

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
    often: Counter[str] = Counter()
    first: dict[str, tuple[Node, ...]] = {}
    for group in fusion_groups(graph):
        for part in split_group(graph, group.nodes):
            if head_of(graph, part[0]) is None:
                continue
            key = task_of(graph, part, target, threads).key
            often[key] += 1
            first.setdefault(key, part)
    return [
        (CpuTemplate.of(graph, part, target, threads), often[key]) for key, part in first.items()
    ]


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
    """Return the key of the records of a part of a group, on this machine's processor.

    It says what the time depends on: shapes, dtypes and attributes of the operators and how they
    are connected, and neither weights nor scales.
    """
    return _task(graph, nodes, target, threads, processor_of(target))


def processor_of(target: Target) -> str:
    """Return what this machine's processor is called; "" where it does not run the target's code.

    Records for other machines would need to say which: none are found for those yet.
    """
    return model_name() if supports(target) else ""


def _task(
    graph: Graph, nodes: Sequence[Node], target: Target, threads: int, processor: str
) -> Task:
    numbers: dict[str, int] = {}
    for node in nodes:
        for name in (*node.inputs, *node.outputs):
            numbers.setdefault(name, len(numbers))
    head, *rest = nodes
    x, weight, *_ = graph.input_tensors(head)
    shape: dict[str, Any] = {
        "op": head.op,
        "input": list(x.shape),
        "weight": list(weight.shape),
        "dtypes": [str(x.dtype), str(weight.dtype), str(graph.output_tensor(head).dtype)],
        "inputs": len(head.inputs),
        **{name: repr(frozen(value)) for name, value in sorted(head.attrs.items())},
    }
    if rest:
        shape["fused"] = [_described(graph, node, numbers) for node in rest]
    return Task(
        "cpu.conv2d",
        TEMPLATE_VERSION,
        shape,
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
    target: Target,
    threads: int,
    spread: float,
    processor: str,
) -> CpuTemplate:
    """Return a template of some operators and all their tensors, the weights drawn anew."""
    made = {name for node in nodes for name in node.outputs}
    every = {t.name: t for t in tensors}
    weight = every[nodes[0].inputs[1]]
    every[weight.name] = replace(weight, data=_weights(weight, spread))
    inputs = [t.name for t in every.values() if t.name not in made and not t.is_constant]
    graph = Graph("fragment", every, nodes, inputs, nodes[-1].outputs)
    return CpuTemplate(graph, target, threads, spread, processor)


def _weights(weight: Tensor, spread: float) -> Array:
    """Return weights of a spread, integers around their mean zero point."""
    drawn: Array = np.random.default_rng(0).standard_normal(weight.shape, np.float32)
    drawn *= np.float32(spread)
    if weight.dtype.kind == "f":
        return drawn.astype(weight.dtype)
    zero = 0 if weight.quant is None else round(float(weight.quant.zero_point.mean()))
    limits = np.iinfo(weight.dtype)
    kept: Array = np.clip(np.rint(drawn) + zero, limits.min, limits.max)
    return kept.astype(weight.dtype)


def _described(graph: Graph, node: Node, numbers: dict[str, int]) -> str:
    operands = [
        f"%{numbers[t.name]} {t.dtype}{list(t.shape)}{' constant' * t.is_constant}"
        for t in graph.input_tensors(node)
    ]
    return f"{node.op}({', '.join(operands)}) {frozen(node.attrs)!r}"
