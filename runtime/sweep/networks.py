"""The networks of a sweep: what identifies each, and what a worker compiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vdla.config import PYNQ_Z1
from vdla.runtime import api
from vdla.runtime.modules import fingerprint

from .spec import Spec

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph

__all__ = ["Networks"]

_FORMAT = 1
"""Of what is kept of a point; another one makes every point new."""


class Networks:
    """Networks by name, each read once for every set of passes that are left out as it is read."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._keys: dict[str, str] = {}
        self._graphs: dict[tuple[str, tuple[str, ...]], str | Graph] = {}

    def key(self, name: str) -> str:
        """Return what a network's results depend on: its content, and the tool by its sources."""
        if name not in self._keys:
            options = {"bind": sorted(self._spec.bind.items()), "sweep": _FORMAT}
            self._keys[name] = fingerprint(self._spec.networks[name], PYNQ_Z1, options)
        return self._keys[name]

    def label(self, name: str, without: Iterable[str]) -> str:
        """Return a text that tells apart all that `get` returns."""
        return "-".join(["vdla-network", self.key(name), *_of_graphs(without)])

    def get(self, name: str, without: Iterable[str]) -> str | Graph:
        """Return a network as a worker takes it, wherever it runs: a built-in name, or the graph.

        Raises
        ------
        ModelError
            The network cannot be read.
        """
        source, passes = self._spec.networks[name], _of_graphs(without)
        if isinstance(source, str):
            return source
        if (name, passes) not in self._graphs:
            bind = self._spec.bind if str(source).lower().endswith(".onnx") else None
            graph = api.read_graph(source, bind, passes)
            self._graphs[name, passes] = graph
        return self._graphs[name, passes]


def _of_graphs(without: Iterable[str]) -> tuple[str, ...]:
    from vdla.compiler.passes import PASSES

    return tuple(sorted(PASSES.keys() & set(without)))
