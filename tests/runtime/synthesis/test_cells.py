from __future__ import annotations

from typing import Any

import pytest

from vdla.errors import DeviceError
from vdla.runtime.synthesis import UNITS, Resources, tally, unit_of

STAT: dict[str, Any] = {
    "modules": {
        "\\vdla": {
            "num_cells_by_type": {
                "FDRE": 3,
                "RAMB18E1": 3,
                "BUFG": 1,
                "vdla.core.machine.compute": 1,
                "vdla.core.machine.load_queue": 1,
                "vdla.core.machine.store_queue": 1,
            }
        },
        "\\vdla.core.machine.compute": {
            "num_cells_by_type": {
                "LUT6": 10,
                "CARRY4": 5,
                "INV": 1,
                "RAM64M": 2,
                "vdla.core.machine.compute.datapath": 1,
                "copied": 2,
            }
        },
        "\\vdla.core.machine.compute.datapath": {"num_cells_by_type": {"DSP48E2": 4, "MUXF7": 3}},
        "\\copied": {"num_cells_by_type": {"RAMB36E2": 1, "FDSE": 7}},
        "\\vdla.core.machine.load_queue": {"num_cells_by_type": {"LUT2": 4}},
        "\\vdla.core.machine.store_queue": {"num_cells_by_type": {"LUT2": 5, "LDCE": 1}},
    }
}


def test_cells_are_counted_by_unit_and_once_an_instance() -> None:
    assert tally(STAT) == {
        "compute": Resources(lut=10 + 1 + 2 * 4),
        "compute.datapath": Resources(dsp=4),
        "machine": Resources(ff=3 + 2 * 7, bram36=1.5 + 2),  # whose copies no unit's name claims
        "queues": Resources(lut=4 + 5, ff=1),
    }


def test_a_cell_of_unknown_size_is_refused() -> None:
    stat = {"modules": {"\\vdla": {"num_cells_by_type": {"LUT6": 1, "URAM288": 1}}}}
    with pytest.raises(DeviceError, match="whose resources are known, not 'URAM288': add it to"):
        tally(stat)


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("control.port.state", "control"),
        ("core.machine.compute.datapath.lane_3.x", "compute.datapath"),
        ("core.machine.compute.datapath.product.tree", "compute.datapath.product"),
        ("core.machine.load_queue.storage", "queues"),
        ("core.machine.load_retirement.flags", "machine"),
        ("core.machine", "machine"),
        ("", "machine"),
    ],
)
def test_a_path_belongs_to_the_unit_around_it(path: str, unit: str) -> None:
    assert unit_of(path) == unit


def test_every_unit_is_a_module_of_the_gateware() -> None:
    pytest.importorskip(
        "amaranth", reason="needs Amaranth; install it with: pip install 'vdla[hw]'"
    )
    from vdla.config import TINY
    from vdla.gateware.export import to_rtlil
    from vdla.gateware.top import Top

    lines = to_rtlil(Top(TINY), "vdla").splitlines()
    assert [unit for unit in UNITS if f"module \\vdla.{unit}" not in lines] == []
