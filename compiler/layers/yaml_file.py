"""YAML with the line of every table, for errors that name it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from vdla.errors import ModelError

from .row import Place

__all__ = ["Table", "documents", "place_of"]


class Table(dict[str, Any]):
    """A table of a YAML file, with the line that it begins in."""

    line = 0


_Loader: Any = type("_Loader", (yaml.SafeLoader,), {})
"""Makes a `Table` of every mapping; keys are texts, as people write ``N`` and ``y``."""


def _table(loader: Any, node: Any) -> Table:
    table = Table()
    table.line = node.start_mark.line + 1
    for key, value in node.value:
        table[str(key.value)] = loader.construct_object(value, deep=True)
    return table


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _table)


def documents(path: Path, text: str) -> list[Any]:
    """Return what each document of a YAML file holds.

    Raises
    ------
    ModelError
        It is no YAML; names file and line.
    """
    try:
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        raise ModelError(
            f"{path}, line {line}: A layer list must be YAML: {getattr(error, 'problem', error)}."
        ) from None


def place_of(path: Path, table: Any) -> Place:
    """Return where a table is."""
    return Place(path, table.line if isinstance(table, Table) else 1)
