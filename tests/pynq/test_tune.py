"""Candidates of a search on a board: built where a compiler is, counted by the hardware."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from tests.compiler.ops import nodes
from tests.pynq.board import RtlBoard
from tests.pynq.overlays import write_overlay
from vdla.compiler.ops import ConvTemplate
from vdla.config import TINY
from vdla.runtime.tune import devices
from vdla.runtime.tune.devices import OnDevice


def test_a_board_counts_as_the_gateware_does(board: RtlBoard, name: str, tmp_path: Path) -> None:
    write_overlay(tmp_path / "overlays" / name, TINY, board=name)
    graph = nodes.conv2d((1, 5, 5, 8), 12, (3, 3))
    template = ConvTemplate.of(graph, graph.nodes[0], TINY)
    on_board, on_rtl = OnDevice("pynq", TINY), OnDevice("rtl", TINY)
    rng = np.random.default_rng(0)
    points = [template.space[int(k)] for k in rng.choice(len(template.space), 3, replace=False)]
    built = [pickle.loads(pickle.dumps(on_board.build(template, point))) for point in points]
    try:
        on_board.prepare()
        found = [on_board.run(one, float("inf")) for one in built]
    finally:
        devices.close_devices()  # which lets the next test have the board
    assert found == [on_rtl.run(one, float("inf")) for one in built]
