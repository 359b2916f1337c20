"""Every notebook, as it is committed: run from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
CELL_SECONDS = 600


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(tmp_path)}}  # what it writes stays out of the tree
    NotebookClient(notebook, timeout=CELL_SECONDS, resources=folder).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_committed(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs"), f"{path.name}: nbstripout it"
        assert cell.get("execution_count") is None, f"{path.name}: nbstripout it"
        assert cell.source.strip(), f"{path.name} has an empty cell"


def test_they_are_numbered() -> None:
    assert [int(path.stem[:2]) for path in NOTEBOOKS] == list(range(1, 9))
