"""Figures of sweeps: what is drawn is what the table says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'vdla[host]'")
import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from vdla.errors import InputError
from vdla.runtime import plots


@pytest.fixture(autouse=True)
def no_figure_stays() -> Iterator[None]:
    yield
    plt.close("all")


def dominates(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a <= b).all() and (a < b).any())


@pytest.mark.parametrize("objectives", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_front_is_what_no_pair_says_otherwise(seed: int, objectives: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 8, (60, objectives)).astype(float)  # many ties
    values[rng.integers(0, 60, 4), 0] = np.nan
    front = plots.pareto_front(values)
    for point, on_front in zip(values, front.tolist(), strict=True):
        beaten = any(dominates(other, point) for other in values if not np.isnan(other).any())
        assert on_front == (not np.isnan(point).any() and not beaten)


def test_ties_share_the_front_and_worse_of_equals_do_not() -> None:
    points = [(1, 5), (1, 5), (1, 6), (2, 5), (2, 4), (3, 4), (9, 1), (np.nan, 0)]
    front = plots.pareto_front(np.array(points, float))
    assert front.tolist() == [True, True, False, False, True, False, True, False]


FRAME = pd.DataFrame(
    {
        "cycles": [10.0, 10.0, 20.0, 30.0, 30.0, np.nan, 40.0],
        "dsps": [9.0, 9.0, 5.0, 6.0, 5.0, 1.0, 2.0],
        "name": list("abcdefg"),
    }
)


def test_a_pareto_front_as_drawn() -> None:
    ax = plots.pareto(FRAME, "cycles", "dsps", label="name")
    dominated, front = (np.asarray(c.get_offsets()).tolist() for c in ax.collections)
    assert sorted(dominated) == [[30, 5], [30, 6]]
    assert sorted(front) == [[10, 9], [20, 5], [40, 2]]
    (line,) = ax.lines
    assert line.get_drawstyle() == "steps-post"
    assert line.get_xydata().tolist() == [[10, 9], [20, 5], [40, 2]]
    assert {text.get_text() for text in ax.texts} == {"a ×2", "c", "g"}
    assert ax.get_title(loc="left") == "4 of 6 points on the front"
    assert ax.get_xlabel() == "cycles  (less is better)"


def test_a_pareto_front_where_more_is_better() -> None:
    frame = FRAME.assign(fps=100 / FRAME["cycles"])
    ax = plots.pareto(frame, "fps", "dsps", maximize=["fps"])
    (line,) = ax.lines
    assert line.get_drawstyle() == "steps-pre"
    assert line.get_xydata().tolist() == [[2.5, 2], [5, 5], [10, 9]]
    assert ax.get_xlabel() == "fps  (more is better)"


def test_objectives_that_are_not_there() -> None:
    with pytest.raises(InputError, match="A Pareto front needs a column 'luts'"):
        plots.pareto(FRAME, "cycles", "luts")
    with pytest.raises(InputError, match="maximize must name 'cycles' or 'dsps', not fps"):
        plots.pareto(FRAME, "cycles", "dsps", maximize=["fps"])


def test_a_heat_map_holds_each_row_in_its_cell() -> None:
    rows = [(16, 64, 5e6), (8, 64, 9e6), (8, 32, 11e6), (16, 32, np.nan), (32, 64, 1e6)]
    frame = pd.DataFrame(rows, columns=["block", "wgt_KiB", "cycles"])
    ax = plots.heat_map(frame, "block", "wgt_KiB", "cycles", fmt=".1e")
    (mesh,) = ax.collections
    data = np.ma.filled(mesh.get_array().reshape(2, 3), np.nan)
    want = [[11e6, np.nan, np.nan], [9e6, 5e6, 1e6]]
    assert np.array_equal(data, want, equal_nan=True)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["8", "16", "32"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["32", "64"]
    cells = {t.get_position(): t.get_text() for t in ax.texts}
    assert cells[0.5, 1.5] == "9.0e+06"
    assert cells[1.5, 0.5] == cells[2.5, 0.5] == "–"


def test_a_heat_map_of_two_rows_a_cell_is_refused() -> None:
    frame = pd.DataFrame({"a": [1, 1], "b": [2, 2], "v": [3, 4]})
    with pytest.raises(InputError, match="one row for each a and b, and a=1, b=2 has 2: choose"):
        plots.heat_map(frame, "a", "b", "v")
    with pytest.raises(InputError, match="A heat map needs a column 'c'"):
        plots.heat_map(frame, "a", "c", "v")


def test_tables_that_cannot_be_drawn_are_refused() -> None:
    frame = pd.DataFrame({"a": [1], "b": [2], "name": ["x"], "v": [3.0]})
    for text, draw in {
        "A heat map needs numbers in 'name', not 'x'": lambda: plots.heat_map(
            frame, "a", "b", "name"
        ),
        "A heat map must be over two columns, not 'a' twice": lambda: plots.heat_map(
            frame, "a", "a", "v"
        ),
        "A heat map needs a row": lambda: plots.heat_map(frame.head(0), "a", "b", "v"),
        "A Pareto front needs numbers in 'name'": lambda: plots.pareto(frame, "name", "v"),
        "A comparison needs a row": lambda: plots.network_comparison(
            frame.head(0), "v", network="name"
        ),
    }.items():
        with pytest.raises(InputError, match=text):
            draw()


def test_large_sizes_are_told_apart_on_a_heat_map() -> None:
    frame = pd.DataFrame({"a": [1048576, 1048577], "b": [0.5, 0.25], "v": [1.0, 2.0]})
    ax = plots.heat_map(frame, "a", "b", "v")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1048576", "1048577"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.25", "0.5"]


def test_bars_of_networks_in_groups() -> None:
    rows = [("r18", "z1", 8e6), ("r18", "zcu", 7e6), ("mb", "z1", 4e6)]
    frame = pd.DataFrame(rows, columns=["network", "config", "cycles"])
    ax = plots.network_comparison(frame, by="config")
    first, second = ax.containers
    assert [p.get_width() for p in first.patches] == [8e6, 4e6]
    assert [p.get_width() for p in second.patches] == [7e6, 0]
    assert [t.get_text() for t in ax.texts] == ["8.00 M", "4.00 M", "7.00 M", "none"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["r18", "mb"]
    spans = sorted((p.get_y(), p.get_y() + p.get_height()) for p in [*first, *second])
    assert all(a[1] <= b[0] + 1e-9 for a, b in zip(spans, spans[1:], strict=False))
    with pytest.raises(InputError, match="one row for each network: choose those of one value"):
        plots.network_comparison(frame)


def test_lines_of_utilization_are_in_order_of_bandwidth() -> None:
    frame = pd.DataFrame(
        {
            "network": ["a", "a", "b", "a"],
            "bytes_per_cycle": [8, 2, 4, 4],
            "mac_utilization": [0.9, 0.3, 0.5, 0.6],
        }
    )
    ax = plots.utilization_against_bandwidth(frame, at=8)
    first, second, mark = ax.lines
    assert first.get_xydata().tolist() == [[2, 30], [4, 60], [8, 90]]
    assert second.get_xydata().tolist() == [[4, 50]]
    assert mark.get_xdata() == [8, 8]
    with pytest.raises(InputError, match="This plot needs a column 'clock'"):
        plots.utilization_against_bandwidth(frame, by="clock")
