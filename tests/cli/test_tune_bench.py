"""``vdla bench tune`` says after how many trials each method was close to the best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.tune.fakes import Bowl, Here
from vdla.runtime.cli.tune_bench import Device as BenchDevice
from vdla.runtime.cli.tune_bench import _compared, _figures, _kind, _others, _races, _show
from vdla.runtime.tune.log import Log
from vdla.runtime.tune.race import Race, Table


def test_figures_are_of_the_worst_search_and_the_median_trial() -> None:
    races = [Race((9.0, 5.0), ()), Race((5.04, 5.0), ()), Race((9.0, 8.0), ())]
    found = _figures(races, 5.0, 0.01)
    assert found == {"reached": 1.0, "worst": 1.6, "trials": 2, "most": None, "never": 1}
    never = _figures(races[2:], 5.0, 0.01)
    assert (never["trials"], never["never"]) == (None, 1)


def test_methods_are_compared_and_taught_by_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = {str(n): Table(Bowl(n, 20), Here(), Log(tmp_path / f"{n}.jsonl")) for n in (5, 11)}
    rows: list[dict[str, Any]] = []
    found = {}
    for name, table in tables.items():
        table.complete(0.01)
        found[name], row = _compared(table, 2, 24, 0.01)
        rows.append({"shape": name, **row})
    for row in rows:
        known = _others(row["shape"], tables[row["shape"]], found)
        assert known is not None
        races = _races(tables[row["shape"]], "ranking", 2, 24, known)
        row["transfer"] = _figures(races, 100.0, 0.01)
        assert row["best"] == 100
        assert set(row["methods"]) == {"ranking", "regression", "genetic", "random"}
    _show(rows, 24, _kind(BenchDevice.cycle))
    shown = capsys.readouterr().out
    assert "close: points within 1 %" in shown
    assert shown.count("\n") >= 4


def test_a_shape_that_is_not_there_is_refused(vdla_command: Any) -> None:
    refused = vdla_command("bench", "tune", "C99")
    assert refused.code == 2
    assert "A shape must be one of C2, C3" in refused.err
