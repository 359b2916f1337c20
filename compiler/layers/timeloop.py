"""Timeloop's problems: a table of loop bounds a layer, ``problem: {instance: {C: 64, ...}}``.

C and M are channels and filters, R and S the filter's width and height, P and Q the output's, G
groups. A problem of M, N and K alone is a matrix product. ``padding`` is understood as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .row import Pads, Place, Row
from .yaml_file import place_of

__all__ = ["pads_of", "read_problems"]

_OPTIONAL = ("Wstride", "Hstride", "Wdilation", "Hdilation", "N", "G", "R", "S")
_BOUNDS = (*_OPTIONAL, "C", "K", "M", "P", "Q")
_BESIDE = ("densities", "instance", "name", "padding", "shape", "type", "version")
"""What a problem holds beside its loop bounds, and its instance may."""


def read_problems(path: Path, found: Sequence[Any]) -> list[Row]:
    """Return the layers of documents, each a problem, a layer, or a list of those.

    Raises
    ------
    ModelError
        A problem is not as it should be; names file and line.
    """
    rows = []
    for number, problem in enumerate(_problems(found), start=1):
        rows.append(_row(path, problem, f"layer{number}"))
    return rows


def _problems(found: Any) -> Iterator[Any]:
    for one in found if isinstance(found, list) else [found]:
        if isinstance(one, list):
            yield from _problems(one)
        elif isinstance(one, dict) and isinstance(one.get("layers"), list):
            yield from _problems(one["layers"])
        else:
            yield one["problem"] if isinstance(one, dict) and "problem" in one else one


def _row(path: Path, problem: Any, name: str) -> Row:
    place = place_of(path, problem)
    if not isinstance(problem, dict):
        place.refuse(f"A problem must be a table with loop bounds, not {problem!r}: write one.")
    bounds = problem.get("instance", problem)
    if not isinstance(bounds, dict):
        place.refuse(f"instance must be a table of loop bounds, not {bounds!r}: write one.")
    place = place_of(path, bounds)
    unknown = [key for key in bounds if key not in (*_BOUNDS, *_BESIDE)]
    if unknown:
        place.refuse(
            f"A loop bound must be one of {', '.join(sorted(_BOUNDS))}, not "
            f"{unknown[0]}: correct it."
        )
    shape = problem.get("shape")
    shape = shape if isinstance(shape, dict) else {}
    bounds = {**_defaults(shape), **bounds}
    named = shape.get("name")
    name = str(problem.get("name") or bounds.get("name") or _own(named) or name)
    if "K" in bounds and "C" not in bounds:
        m, n, k = (_bound(place, bounds, key) for key in "MNK")
        return Row(
            place=place, name=name, op="gemm", size=(m, 1), out=(m, 1), channels=k, filters=n
        )
    values = {key: _bound(place, bounds, key, default=1) for key in _OPTIONAL}
    c, m, p, q = (_bound(place, bounds, key) for key in "CMPQ")
    if values["N"] != 1:
        place.refuse(
            f"N must be 1, not {values['N']}: images are batched by the configuration (batch)."
        )
    groups = values["G"]
    depthwise = groups > 1 and c == m == 1
    return Row(
        place=place,
        name=name,
        op="depthwise" if depthwise else "conv",
        size=None,
        out=(q, p),
        window=(values["S"], values["R"]),
        strides=(values["Hstride"], values["Wstride"]),
        dilation=(values["Hdilation"], values["Wdilation"]),
        channels=groups * c,
        filters=groups * m,
        groups=1 if depthwise else groups,
        pads=pads_of(place, problem.get("padding", bounds.get("padding"))),
    )


def _defaults(shape: dict[str, Any]) -> dict[str, Any]:
    """Return the strides and dilations that a shape has where an instance says nothing."""
    given = shape.get("coefficients")
    listed = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {
        one["name"]: one["default"]
        for one in listed
        if one.get("name") in _OPTIONAL and "default" in one
    }


def _own(name: object) -> object:
    """Return a shape's name unless it is the kind that all layers have."""
    common = isinstance(name, str) and "layer" in name.lower() and "cnn" in name.lower()
    return None if common else name


def _bound(place: Place, bounds: dict[str, Any], key: str, default: int | None = None) -> int:
    value = bounds.get(key, default)
    if type(value) is not int or value < 1:
        place.refuse(f"{key} must be an integer of at least 1, not {value!r}: correct the problem.")
    return value


def pads_of(place: Place, given: Any) -> Pads | None:
    """Return given padding: one number for all sides, or [[above, below], [left, right]]."""
    if given is None:
        return None
    if type(given) is int and given >= 0:
        return ((given, given), (given, given))
    pairs = given if isinstance(given, list) and len(given) == 2 else []
    read = tuple(
        (pair[0], pair[1])
        for pair in pairs
        if isinstance(pair, list)
        and len(pair) == 2
        and all(type(pad) is int and pad >= 0 for pad in pair)
    )
    if len(read) != 2:
        place.refuse(
            "padding must be a number, or [[above, below], [left, right]], not "
            f"{given!r}: correct it."
        )
    return (read[0], read[1])
