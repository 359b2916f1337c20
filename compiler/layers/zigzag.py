"""ZigZag's workloads: a list of layers, each an equation over named loops.

``operand_source`` says which layers are read, by ``id``; a layer that names itself, or one that
is not there, is an input. Pooling is an average where its window leaves one pixel, or where its
type says so, and else a maximum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .row import Place, Row, Size
from .timeloop import pads_of
from .yaml_file import place_of

__all__ = ["is_workload", "read_workload"]

_TERM = re.compile(r"([A-Za-z]+)((?:\[\w+\])*)")
_RELATION = re.compile(r"(\w+)=(?:(\d+)\*)?(\w+)\+(?:(\d+)\*)?(\w+)")


def is_workload(found: Sequence[Any]) -> bool:
    """Return whether documents are a list of layers with equations."""
    listed = found[0] if len(found) == 1 and isinstance(found[0], list) else []
    return bool(listed) and all(isinstance(one, dict) and "equation" in one for one in listed)


def read_workload(path: Path, found: Sequence[Any]) -> list[Row]:
    """Return the layers of a workload.

    Raises
    ------
    ModelError
        A layer is not as it should be; names file and line.
    """
    layers = [_Layer(place_of(path, one), one) for one in found[0]]
    every = [layer.id for layer in layers]
    for number, layer in enumerate(layers):
        if layer.id in every[:number]:
            layer.place.refuse(f"Layers must have different ids, not {layer.id} twice: change one.")
    names: dict[str, str] = {}
    rows = []
    for number, layer in enumerate(layers):
        later = [source for source in layer.read if source in every[number + 1 :]]
        if later:
            layer.place.refuse(
                f"A layer must read layers that stand before it, and {layer.id} reads {later[0]}: "
                "put them in order."
            )
        names[layer.id] = layer.name
        rows.append(layer.row(names))
    return rows


class _Layer:
    """One layer: its loops, and which operand each belongs to."""

    def __init__(self, place: Place, given: dict[str, Any]) -> None:
        self.place, self._given = place, given
        self.kind = str(given.get("operator_type", ""))
        self.id = str(given.get("id", given.get("name", "")))
        self.name = str(given.get("name") or f"layer{self.id}")
        dims, sizes = given.get("loop_dims"), given.get("loop_sizes")
        if not isinstance(dims, list) or not isinstance(sizes, list) or len(dims) != len(sizes):
            place.refuse("loop_dims and loop_sizes must be lists of one length: correct them.")
        self._sizes: dict[str, int] = {}
        for dim, size in zip(dims, sizes, strict=True):
            if type(size) is not int or size < 1:
                place.refuse(f"The loop {dim} must be an integer of at least 1, not {size!r}.")
            self._sizes[str(dim).lower()] = size
        equation = "".join(str(given["equation"]).split())
        left, _, right = equation.partition("+=" if "+=" in equation else "=")
        found = _TERM.findall(f"{left} {right}")
        if len(found) != 3 or found[0][0] != "O" or not right:
            place.refuse(f"An equation must be O[..]+=W[..]*I[..], not {equation!r}: rewrite it.")
        self._of = {
            operand: [loop.lower() for loop in re.findall(r"\w+", loops)]
            for operand, loops in found
        }
        self._operands = [operand for operand, _ in found[1:]]
        self._adds = "+=" not in equation

    def row(self, names: dict[str, str]) -> Row:
        """Return the layer, its sources by name."""
        if self._adds or self.kind.lower().startswith("add"):
            return self._add(names)
        relations = [_RELATION.fullmatch("".join(str(one).split())) for one in self._relations()]
        if not relations:
            return self._gemm(names)
        if len(relations) != 2 or None in relations:
            self.place.refuse(
                "dimension_relations must be two, such as ix=2*ox+1*fx and iy=2*oy+1*fy, not "
                f"{self._relations()}: correct them."
            )
        return self._window([match for match in relations if match is not None], names)

    def _relations(self) -> list[Any]:
        given = self._given.get("dimension_relations") or []
        return given if isinstance(given, list) else [given]

    def _size(self, loops: set[str]) -> int:
        total = 1
        for loop in loops:
            total *= self._sizes.get(loop, 1)
        return total

    @property
    def read(self) -> list[str]:
        """Ids of what the operands come from."""
        return [str(source) for source in self._sources_given().values()]

    def _sources_given(self) -> dict[str, Any]:
        given = self._given.get("operand_source")
        return given if isinstance(given, dict) else {}

    def _sources(self, names: dict[str, str], operands: Sequence[str]) -> tuple[str, ...]:
        given = self._sources_given()
        return tuple(
            names[source]
            if (source := str(given.get(operand, self.id))) in names and source != self.id
            else ""
            for operand in operands
        )

    def _add(self, names: dict[str, str]) -> Row:
        sizes = [self._sizes.get(loop, 1) for loop in self._of["O"]]
        if len(sizes) != 4 or sizes[0] != 1:
            self.place.refuse(
                "An addition must be over a batch of 1, channels, rows and columns, not "
                f"{dict(zip(self._of['O'], sizes, strict=True))}: correct it."
            )
        _, channels, height, width = sizes
        return Row(
            place=self.place,
            name=self.name,
            op="add",
            size=(height, width),
            out=(height, width),
            channels=channels,
            filters=channels,
            sources=self._sources(names, self._operands),
        )

    def _gemm(self, names: dict[str, str]) -> Row:
        weight, data = self._weight_and_data()
        ins, weights, outs = (set(self._of[one]) for one in (data, weight, "O"))
        batched = self._size(ins & weights & outs)
        if batched != 1:
            self.place.refuse(
                "A product must have weights that all rows share, not "
                f"{', '.join(sorted(ins & weights & outs))} in every operand: write a layer each."
            )
        rows = self._size((ins & outs) - weights)
        return Row(
            place=self.place,
            name=self.name,
            op="gemm",
            size=(rows, 1),
            out=(rows, 1),
            channels=self._size((ins & weights) - outs),
            filters=self._size((weights & outs) - ins),
            sources=self._sources(names, [data]),
        )

    def _weight_and_data(self) -> tuple[str, str]:
        if "I" not in self._operands:
            self.place.refuse(f"An operand must be I, the input, not {self._operands}: rename one.")
        weight = next(operand for operand in self._operands if operand != "I")
        return weight, "I"

    def _window(self, relations: Sequence[re.Match[str]], names: dict[str, str]) -> Row:
        weight, data = self._weight_and_data()
        by_input = {match[1].lower(): match for match in relations}
        if [loop for loop in self._of[data] if loop in by_input] != list(self._of[data][-2:]):
            self.place.refuse("The input's last two loops must be rows and columns: reorder them.")
        rows, columns = (by_input[loop] for loop in self._of[data][-2:])
        outer = [rows[3].lower(), columns[3].lower()]
        inner = [rows[5].lower(), columns[5].lower()]
        ins, weights, outs = (set(self._of[one]) for one in (data, weight, "O"))
        ins -= set(by_input)
        outs -= set(outer)
        weights -= set(inner)
        if self._size((ins & outs) - weights) != 1 and weights:
            self.place.refuse("A batch must be 1: images are batched by the configuration (batch).")
        shared = self._size(ins & weights & outs)
        channels, filters = self._size((ins & weights) - outs), self._size((weights & outs) - ins)
        common: dict[str, Any] = {
            "place": self.place,
            "name": self.name,
            "size": None,
            "out": self._pair(outer),
            "window": self._pair(inner),
            "strides": (int(rows[2] or 1), int(columns[2] or 1)),
            "dilation": (int(rows[4] or 1), int(columns[4] or 1)),
            "pads": pads_of(self.place, self._given.get("padding")),
            "sources": self._sources(names, [data]),
        }
        if not weights:
            kept = self._size(ins & outs)
            averages = common["out"] == (1, 1) or "av" in self.kind.lower()
            op = "average_pool" if averages else "max_pool"
            return Row(op=op, channels=kept, filters=kept, **common)
        if channels == filters == 1 and shared > 1:
            return Row(op="depthwise", channels=shared, filters=shared, **common)
        return Row(
            op="conv",
            channels=shared * channels,
            filters=shared * filters,
            groups=shared,
            **common,
        )

    def _pair(self, loops: Sequence[str]) -> Size:
        return self._sizes.get(loops[0], 1), self._sizes.get(loops[1], 1)
