"""How far tuning has come, as a table that is redrawn while it runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from vdla.compiler.tune.task import OK

if TYPE_CHECKING:
    from vdla.runtime.tune.tuning import Job, Tuning

__all__ = ["cost_text", "live", "rows_of", "summary_of"]

_COLUMNS = ("operators", "trials", "before", "best", "saved", "predicted", "failed")
_SHOWN = 24
"""Tasks in the table; the others are below it as a number."""


@contextmanager
def live(trials: int, deadline: float) -> Iterator[Callable[[Tuning], None]]:
    """Show a table on stderr while the block runs, or now and then a line where no one looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console)
        return
    with Live(console=console, transient=True, refresh_per_second=4) as screen:

        def draw(state: Tuning) -> None:
            screen.update(_picture(state, trials, deadline))

        yield draw


def rows_of(state: Tuning) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table, what gained most first."""
    jobs = sorted(state.jobs, key=lambda job: job.gain, reverse=True)
    return list(_COLUMNS), [_row(job) for job in jobs]


def summary_of(state: Tuning) -> dict[str, Any]:
    """Return the result, for JSON."""
    failures: Counter[str] = sum((job.failures for job in state.jobs), Counter())
    return {
        "trials": state.trials,
        "seconds": state.seconds,
        "interrupted": state.interrupted,
        "failures": dict(failures),
        "tasks": [
            {
                "operators": job.nodes,
                "key": job.template.task.key,
                "task": job.template.task.name,
                "points": len(job.template.space),
                "trials": job.trials,
                "before": _finite(job.start),
                "best": _finite(job.best),
                "proven": job.search.proven,
                "point": dict(job.search.found.best.point)
                if job.search is not None and job.search.found.best is not None
                else None,
            }
            for job in state.jobs
            if job.search is not None
        ],
    }


def _finite(value: float) -> float | None:
    return value if value < inf else None


def _row(job: Job) -> list[str]:
    name = job.nodes[0] + (f" and {len(job.nodes) - 1} more" if len(job.nodes) > 1 else "")
    saved = f"{100 * (1 - job.best / job.start):.2f} %" if job.start < inf else "-"
    if job.search is not None and job.search.proven:
        name += ", proven"
    predicted = job.predicted
    failed = sum(job.failures.values())
    return [
        name,
        str(job.trials),
        cost_text(job.start),
        cost_text(job.best),
        saved,
        "-" if predicted is None else cost_text(predicted),
        str(failed) if failed else "-",
    ]


def cost_text(value: float) -> str:
    """Return cycles, or seconds below one as milliseconds."""
    if value == inf:
        return "-"
    if value >= 1:
        return f"{value:,.0f}"
    return f"{1e3 * value:.3f} ms" if value >= 1e-4 else f"{1e6 * value:.2f} us"


def _picture(state: Tuning, trials: int, deadline: float) -> Group:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(_COLUMNS):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    shown = sorted(state.jobs, key=lambda job: (job is not state.doing, -job.gain))[:_SHOWN]
    for job in shown:
        table.add_row(*_row(job), style="bold" if job is state.doing else None)
    return Group(table, Text(_status(state, trials, deadline)))


def _status(state: Tuning, trials: int, deadline: float) -> str:
    total = sum(min(trials, len(job.template.space)) for job in state.jobs if job.search) + sum(
        trials for job in state.jobs if not job.search
    )
    rate = state.trials / max(state.seconds, 1e-9)
    left = (total - state.trials) / rate if rate else inf
    left = min(left, deadline - time.monotonic())
    failures: Counter[str] = sum((job.failures for job in state.jobs), Counter())
    failed = "".join(f"; {count} {status}" for status, count in failures.items() if status != OK)
    more = f"; {len(state.jobs) - _SHOWN} more tasks" if len(state.jobs) > _SHOWN else ""
    return (
        f"{state.trials} of {total} candidates, {rate:.1f} a second, about {max(left, 0):.0f} s "
        f"left{failed}{more}"
    )


def _lines(console: Console) -> Callable[[Tuning], None]:
    seen = {"last": time.monotonic()}

    def tell(state: Tuning) -> None:
        if time.monotonic() - seen["last"] < 10 or state.doing is None:
            return
        seen["last"] = time.monotonic()
        job = state.doing
        console.print(
            f"{state.trials} candidates in {state.seconds:.0f} s; {job.nodes[0]}: best "
            f"{cost_text(job.best)}",
            style="dim",
            markup=False,
            highlight=False,
        )

    return tell
