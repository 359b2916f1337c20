"""From a file with a layer list to a network."""

from __future__ import annotations

from pathlib import Path

from vdla.compiler.graph import Graph
from vdla.errors import ModelError

from .linking import link
from .network import network_of
from .row import Place
from .scalesim import read_topology

__all__ = ["LAYER_LISTS", "import_layers"]

LAYER_LISTS = (".csv", ".yaml", ".yml")
"""Endings of files that hold layer lists."""


def import_layers(path: str | Path) -> Graph:
    """Read a layer list as a network with drawn weights.

    Parameters
    ----------
    path : str or Path
        A ``.csv`` as SCALE-Sim has it, or a ``.yaml`` as Timeloop or ZigZag have it.

    Returns
    -------
    Graph
        int8, NHWC, a node a layer. Layers that do not connect have inputs of their own.

    Raises
    ------
    ModelError
        The file cannot be read, or a layer is not as it should be; names file and line.
    ModuleNotFoundError
        PyYAML is not installed, and the file needs it.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"A layer list must be a readable text file: {path}: {error}.") from None
    if path.suffix.lower() == ".csv":
        rows = read_topology(path, text)
    else:
        from .timeloop import read_problems
        from .yaml_file import documents
        from .zigzag import is_workload, read_workload

        found = documents(path, text)
        rows = read_workload(path, found) if is_workload(found) else read_problems(path, found)
    if not rows:
        Place(path, 1).refuse("A layer list must hold a layer: add one.")
    return network_of(path.stem, link(rows))
