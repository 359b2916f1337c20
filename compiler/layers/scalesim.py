"""SCALE-Sim's topology files: a convolution or a matrix product a line.

Columns are named in the first line. Convolutions: name, input height and width, filter height and
width, channels, filters, stride (or one a dimension). Products: name and M, N, K. A column
``Padding`` is understood as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .row import Pads, Place, Row

__all__ = ["read_topology"]

_CONV = ("ifmap height", "ifmap width", "filter height", "filter width", "channels", "num filter")
_ALIASES = {
    "num filters": "num filter",
    "filters": "num filter",
    "channel": "channels",
    "stride": "strides",
}
_GEMM = ("m", "n", "k")
_MOST = 999_999_999
_SHOWN = 40
_DEPTHWISE = re.compile(r"(?:^|[^a-z])(?:dw|depthwise)|dw(?:$|[^a-z])", re.IGNORECASE)


def read_topology(path: Path, text: str) -> list[Row]:
    """Return the layers of a topology file.

    Raises
    ------
    ModelError
        A line is not as it should be; names file and line.
    """
    columns: dict[str, int] | None = None
    rows: list[Row] = []
    for number, line in enumerate(text.splitlines(), start=1):
        place = Place(path, number)
        content, _, comment = line.partition("#")
        cells = [cell.strip() for cell in content.split(",")]
        if not any(cells):
            continue
        if columns is None:
            columns = _columns(cells)
            if columns is not None:
                continue
            columns = _default(cells, place)
        if cells[0] and not any(cells[1:]):  # a title of the layers that follow
            continue
        rows.append(_row(place, cells, columns, comment))
    return rows


def _columns(cells: Sequence[str]) -> dict[str, int] | None:
    """Return where each column is; None where the first line is a layer already."""
    if any(re.fullmatch(r"\d+", cell) for cell in cells[1:]):
        return None
    names = [" ".join(cell.lower().replace("_", " ").split()) for cell in cells]
    found = {_ALIASES.get(name, name): index for index, name in enumerate(names) if name}
    usual = (*_CONV, "strides")
    if len(names) > len(usual) and not found.keys() >= {*_CONV}:  # misspelt: SCALE-Sim counts
        found |= {name: index for index, name in enumerate(usual, start=1)}
    return found


def _default(cells: Sequence[str], place: Place) -> dict[str, int]:
    given = sum(bool(cell) for cell in cells)
    if given == 1 + len(_GEMM):
        return {name: index for index, name in enumerate(_GEMM, start=1)}
    if given >= 2 + len(_CONV):
        return {name: index for index, name in enumerate((*_CONV, "strides"), start=1)}
    place.refuse(
        f"A topology must have {1 + len(_GEMM)} columns, name, M, N and K, or "
        f"{2 + len(_CONV)}, name, {', '.join(_CONV)}, strides, not {given}: add the missing ones."
    )


def _row(place: Place, cells: Sequence[str], columns: dict[str, int], comment: str) -> Row:
    name = cells[0]
    if not name:
        place.refuse("A layer must have a name in the first column: add one.")
    if all(column in columns for column in _GEMM):
        m, n, k = (_number(place, cells, columns, column) for column in _GEMM)
        return Row(
            place=place, name=name, op="gemm", size=(m, 1), out=(m, 1), channels=k, filters=n
        )
    missing = [column for column in _CONV if column not in columns]
    if missing:
        place.refuse(
            f"A topology's first line must name the columns {', '.join(_CONV)}, or M, N and K, "
            f"and {missing[0]!r} is not among {', '.join(columns)}: rename a column."
        )
    height, width, rows, cols, channels, filters = (
        _number(place, cells, columns, column) for column in _CONV
    )
    if "stride height" in columns:
        strides = tuple(
            _number(place, cells, columns, f"stride {side}") for side in ("height", "width")
        )
    else:
        strides = (_number(place, cells, columns, "strides"),) * 2
    depthwise = bool(_DEPTHWISE.search(name) or _DEPTHWISE.search(comment))
    if depthwise:
        channels = filters = max(channels, filters)
    return Row(
        place=place,
        name=name,
        op="depthwise" if depthwise else "conv",
        size=(height, width),
        out=None,
        window=(rows, cols),
        strides=(strides[0], strides[1]),
        channels=channels,
        filters=filters,
        pads=_padding(place, cells, columns),
    )


def _padding(place: Place, cells: Sequence[str], columns: dict[str, int]) -> Pads | None:
    column = "padding" if "padding" in columns else "pad"
    if column not in columns or not _cell(cells, columns, column):
        return None
    pad = _number(place, cells, columns, column, least=0)
    return ((pad, pad), (pad, pad))


def _cell(cells: Sequence[str], columns: dict[str, int], column: str) -> str:
    index = columns.get(column, len(cells))
    return cells[index] if index < len(cells) else ""


def _number(
    place: Place, cells: Sequence[str], columns: dict[str, int], column: str, least: int = 1
) -> int:
    text = _cell(cells, columns, column)
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        place.refuse(
            f"{column} must be an integer from {least} to {_MOST:,}, not {shown!r}: correct the "
            "line."
        )
    return int(text)
