"""What of a network can be tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.config import Config
from vdla.errors import InputError
from vdla.runtime import api

from .tuning import Job

if TYPE_CHECKING:
    from vdla.compiler.cpu.template import CpuTemplate
    from vdla.compiler.gpu.tuning import GpuMachine, GpuTemplate
    from vdla.compiler.graph import Graph
    from vdla.compiler.ops import LoweredNode
    from vdla.compiler.targets.cpu import Target
    from vdla.runtime.network import Progress

__all__ = ["accelerator_jobs", "gpu_jobs", "processor_jobs"]


def accelerator_jobs(
    model: str | Path | Graph,
    config: Config,
    *,
    bind: Mapping[str, int] | None = None,
    place: Mapping[str, str] | None = None,
    vthreads: int = 2,
    progress: Progress | None = None,
) -> tuple[list[Job], Graph]:
    """Return a network's tasks on the accelerator, and the network's graph.

    Parameters
    ----------
    model, config, bind, place, vthreads, progress
        As `vdla.compile` takes them.

    Raises
    ------
    InputError
        Nothing of it can be tuned.
    """
    lowered: dict[str, LoweredNode] = {}
    keep: Callable[[Mapping[str, LoweredNode]], None] = lowered.update
    graph = api.read_graph(model, bind)
    api.compile(
        graph,
        config=config,
        place=place,
        vthreads=vthreads,
        lowered_as=keep,
        progress=progress,
    )
    jobs: dict[str, Job] = {}
    for name, code in lowered.items():
        if code.template is None or code.point is None:
            continue
        key = code.template.task.key
        if key not in jobs:
            jobs[key] = Job(code.template, [], code.point, code.estimate_cycles)
        jobs[key].nodes.append(name)
    if not jobs:
        raise InputError(
            f"A network must have convolutions on the accelerator to be tuned for it, and "
            f"{graph.name} has none: see vdla import for why."
        )
    return list(jobs.values()), graph


def processor_jobs(
    model: str | Path | Graph,
    target: Target,
    threads: int,
    *,
    bind: Mapping[str, int] | None = None,
) -> tuple[list[Job], Graph]:
    """Return a network's tasks on a processor, and the network's graph.

    Parameters
    ----------
    model, bind
        As `vdla.compile` takes them.
    target : Target
    threads : int

    Raises
    ------
    InputError
        Nothing of it can be tuned.
    """
    from vdla.compiler.cpu.template import templates_of

    graph = api.read_graph(model, bind)
    jobs = [_job(*found) for found in templates_of(graph, target, threads)]
    if not jobs:
        raise InputError(
            f"A network must have convolutions or dense layers to be tuned for a processor, and "
            f"{graph.name} has none."
        )
    return jobs, graph


def gpu_jobs(
    model: str | Path | Graph, machine: GpuMachine, *, bind: Mapping[str, int] | None = None
) -> tuple[list[Job], Graph]:
    """Return a network's tasks on a GPU, and the network's graph.

    Parameters
    ----------
    model, bind
        As `vdla.compile` takes them.
    machine : GpuMachine

    Raises
    ------
    InputError
        Nothing of it can be tuned.
    LoweringError
        There are no kernels for an operator.
    """
    from vdla.compiler.gpu.tuning import templates_of

    graph = api.read_graph(model, bind)
    jobs = [_job(*found) for found in templates_of(graph, machine)]
    if not jobs:
        raise InputError(
            "A network must have products of matrices, or convolutions without groups, to be tuned "
            "for a GPU, and "
            f"{graph.name} has none."
        )
    return jobs, graph


def _job(template: CpuTemplate | GpuTemplate, often: int) -> Job:
    """Return the task of an operator, whose rules are the space's first point."""
    rules = template.space[0]
    return Job(template, [template.graph.nodes[0].name] * often, rules, template.prior(rules))
