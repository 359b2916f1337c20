"""``vdla import``: what a network's file holds, and what of it will run where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from vdla.runtime.cli.options import (
    DEFAULT_CONFIG,
    BindOption,
    ConfigOption,
    JsonOption,
    ModelArgument,
    PlaceOption,
    read_bind,
    read_config,
    read_place,
)
from vdla.runtime.cli.output import emit_json, note, show_table

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph

__all__ = ["import_model"]

NOWHERE = "nowhere"
CANNOT_RUN = 1
_COLUMNS = ("node", "in the file", "operator", "shape", "type", "device", "why not on vdla")


def import_model(
    model: ModelArgument,
    bind: BindOption = None,
    place: PlaceOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show a network's operators as compile takes them: where each runs, why not on vdla.

    Leaves with exit code 1 where an operator can run nowhere.
    """
    settings = read_config(config)

    from vdla.compiler.network.prepare import prepare
    from vdla.runtime.api import read_graph

    prepared = prepare(read_graph(model, read_bind(bind)), settings, place=read_place(place))
    graph, found = prepared.graph, prepared.placements
    nodes = [
        {
            "name": node.name,
            "op": node.op,
            "source": node.source,
            "shape": list(graph.output_tensor(node).shape),
            "dtype": str(graph.output_tensor(node).dtype),
            "macs": prepared.macs(node),
            "device": found[node.name].device or NOWHERE,
            "why_not_vdla": found[node.name].not_on_vdla,
            "why_not_cpu": found[node.name].not_on_cpu,
        }
        for node in graph.nodes
    ]
    shares = _shares(nodes)
    if as_json:
        ends = {
            end: [_tensor(graph, name) for name in names]
            for end, names in (("inputs", graph.inputs), ("outputs", graph.outputs))
        }
        report = {"name": graph.name, "config": settings.name, **ends}
        emit_json({**report, "nodes": nodes, "devices": shares})
    else:
        _show(graph, nodes, shares)
    lost = [node for node in nodes if node["device"] == NOWHERE]
    if lost:
        for node in lost:
            note(f"{node['name']} can run nowhere; on the cpu because {node['why_not_cpu']}")
        raise typer.Exit(CANNOT_RUN)


def _tensor(graph: Graph, name: str) -> dict[str, Any]:
    tensor = graph.tensors[name]
    return {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype)}


def _shares(nodes: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the operators and multiply-accumulates of each device that has some."""
    shares: dict[str, dict[str, int]] = {}
    for node in nodes:
        share = shares.setdefault(node["device"], {"nodes": 0, "macs": 0})
        share["nodes"] += 1
        share["macs"] += node["macs"]
    return dict(sorted(shares.items()))


def _show(
    graph: Graph, nodes: list[dict[str, Any]], shares: Mapping[str, Mapping[str, int]]
) -> None:
    for end, names in (("input", graph.inputs), ("output", graph.outputs)):
        for name in names:
            tensor = graph.tensors[name]
            typer.echo(f"{end} {name}: {tensor.dtype} {_dimensions(tensor.shape)}")
    typer.echo("")
    rows: list[tuple[str, ...]] = [
        (
            node["name"],
            node["source"],
            node["op"],
            _dimensions(node["shape"]),
            node["dtype"],
            node["device"],
            node["why_not_vdla"] or "",
        )
        for node in nodes
    ]
    columns: tuple[str, ...] = _COLUMNS
    if not any(node["source"] for node in nodes):
        columns, rows = (columns[0], *columns[2:]), [(row[0], *row[2:]) for row in rows]
    show_table(columns, rows, text_columns=len(columns))
    typer.echo("")
    macs = sum(share["macs"] for share in shares.values())
    for device, share in shares.items():
        part = f"{share['macs'] / macs:.1%} of" if macs else "none of"
        typer.echo(
            f"{device}: {share['nodes']} of {len(nodes)} operators, {part} "
            f"{macs / 1e6:,.1f} M multiply-accumulates"
        )


def _dimensions(shape: tuple[int, ...] | list[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"
