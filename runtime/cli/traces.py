"""``--trace`` and ``--window``: events of the cycle model in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vdla.runtime.cli.output import note

if TYPE_CHECKING:
    from vdla.runtime.network import Network
    from vdla.runtime.trace import Trace

__all__ = ["TraceOption", "trace_network", "trace_of"]

TraceOption = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="With --device cycle: write what each module does when, as .json or .json.gz for "
        "Perfetto, or .vcd of the model's units and queues.",
    ),
]


def trace_of(path: Path | None, window: str | None, device: str) -> Trace | None:
    """Return what the options ask for, checked before anything slow happens.

    Raises
    ------
    InputError
        The file cannot be written, has another ending, or the window holds no cycle.
    """
    if path is None:
        return None
    if device != "cycle":
        raise typer.BadParameter(f"--trace needs --device cycle: {device} has no events to write")

    from vdla.runtime.trace import Trace
    from vdla.runtime.waves import read_window

    return Trace(path, None if window is None else read_window(window))


def trace_network(network: Network, trace: Trace) -> None:
    """Write the trace of a network."""
    from vdla.runtime.trace import Timeline, write_trace

    timeline = Timeline.of(network)
    count = write_trace(timeline, trace)
    if count == 0:
        note(f"{trace.path} holds no cycle: the run took {timeline.cycles:,}")
    else:
        note(f"{trace.path}: {count:,} events, {trace.path.stat().st_size:,} bytes")
