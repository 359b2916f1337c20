"""The device pynq: a small program through pynq's Overlay, MMIO, buffers and interrupts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pynq
import pytest

from tests.pynq.board import MEMORY_BASE, RtlBoard
from tests.pynq.overlays import write_overlay
from tests.pynq.programs import PLUS_FIVE, SLOW, UOP, VALUES, prepare, run
from vdla.boards import BOARDS, VLNV, ZYNQ_7000
from vdla.config import TINY
from vdla.runtime.board.ip import VdlaIP
from vdla.runtime.devices.board import PynqDevice


@pytest.fixture
def overlay(board: RtlBoard, name: str, tmp_path: Path) -> Path:
    return write_overlay(tmp_path / "overlays" / name, TINY, board=name)


def test_an_overlay_binds_our_driver_by_its_name(board: RtlBoard, overlay: Path) -> None:
    """Without importing vdla: pynq finds the driver through its entry point."""
    loaded = pynq.Overlay(str(overlay / "vdla.bit"))
    assert loaded.ip_dict["vdla_0"]["type"] == VLNV
    core = loaded.vdla_0
    assert isinstance(core, VdlaIP)
    assert core.driver.identity.names == ("tiny",)
    assert core.interrupts
    assert core.register_map.VERSION.major == 1
    data = pynq.allocate((1024,), dtype=np.uint8)
    data[:4] = VALUES
    data[256 : 256 + len(UOP)] = UOP
    data.sync_to_device()
    core.start(PLUS_FIVE, data.device_address)
    core.wait()
    data.sync_from_device()
    np.testing.assert_array_equal(data[4:8], VALUES + 5)
    assert core.counters()["store"]["instructions"] == 1


def test_a_program_runs_and_is_counted(board: RtlBoard, overlay: Path) -> None:
    device = PynqDevice(TINY)
    assert device.opened.manifest is not None
    base = prepare(device)
    assert base >= MEMORY_BASE
    run(device, base)
    counters = device.counters()
    assert counters.cycles is not None
    assert 50 < counters.cycles < 500
    assert counters.layers["plus five"].dram_bytes == 4 + 4 + 4
    run(device, base)
    device.close()


def test_only_what_is_written_is_brought_to_memory(board: RtlBoard, overlay: Path) -> None:
    device = PynqDevice(TINY)
    base = device.allocate(1 << 20)
    assert not device.read(base, 1 << 20).any()
    board.flushed.clear()
    device.write(base + 100, np.arange(5, dtype=np.uint8))
    assert board.flushed == [(base + 100, 5)]
    np.testing.assert_array_equal(device.read(base + 99, 7)[0], [0, 0, 1, 2, 3, 4, 0])
    device.close()


def test_memory_can_be_used_while_a_program_runs(board: RtlBoard, overlay: Path) -> None:
    device = PynqDevice(TINY)
    base = prepare(device)
    other = device.allocate(64)
    held = [True]
    assert board.fabric is not None
    board.fabric.hold = lambda: bool(held)
    device.launch(SLOW, base)
    assert device.opened.ip.driver.running
    device.write(other, VALUES)
    np.testing.assert_array_equal(device.read(other, 4), VALUES[None])
    assert device.opened.ip.driver.running
    held.clear()
    device.wait()
    np.testing.assert_array_equal(device.read(base + 4, 4), VALUES[None] + 5)
    device.close()


def test_ends_of_programs_come_by_interrupt(board: RtlBoard, overlay: Path) -> None:
    device = PynqDevice(TINY)
    base = prepare(device)
    before = board.controller.taken
    assert board.fabric is not None
    board.fabric.hold = lambda: not board.controller.armed
    for _ in range(3):
        run(device, base, SLOW)
    assert board.controller.taken >= before + 3
    device.close()


def test_interrupts_that_are_lost_are_made_up_for(board: RtlBoard, overlay: Path) -> None:
    device = PynqDevice(TINY)
    base = prepare(device)
    board.controller.deaf = True
    for _ in range(20):  # a program that ends before it is waited for misses nothing
        run(device, base, SLOW)
        if not device.opened.ip.interrupts:
            break
    assert not device.opened.ip.interrupts
    run(device, base, SLOW)  # and polled for from then on
    device.close()


def test_ends_of_programs_can_be_awaited(board: RtlBoard, overlay: Path) -> None:
    core = PynqDevice(TINY).opened.ip
    base = core.memory.allocate(1024)
    core.memory.write(base + 256, UOP)
    steps = []

    async def others() -> None:
        for _ in range(3):
            steps.append(core.driver.running)
            await asyncio.sleep(0)

    async def both() -> None:
        core.start(SLOW, base)
        await asyncio.gather(core.wait_async(), others())

    before = board.controller.taken
    assert board.fabric is not None
    board.fabric.hold = lambda: len(steps) < 3 or not board.controller.armed
    core._loop.run_until_complete(both())
    assert board.controller.taken > before
    assert steps == [True] * 3
    board.fabric.hold = lambda: False
    asyncio.run(both())  # another loop than the one that interrupts come to
    core.memory.close()


def test_without_an_interrupt_it_polls(board: RtlBoard, name: str, tmp_path: Path) -> None:
    folder = write_overlay(tmp_path / "o", TINY, board=name, controller=False)
    device = PynqDevice(TINY, overlay=folder / "vdla.bit")
    run(device, prepare(device))
    device.close()


def test_another_clock_than_was_built_for_is_set(
    board: RtlBoard, name: str, tmp_path: Path
) -> None:
    """pynq itself sets the clock that the hand-off file says, before the download."""
    folder = write_overlay(tmp_path / "o", TINY, board=name, handoff_mhz=250.0, clock_mhz=125.0)
    device = PynqDevice(TINY, overlay=folder)
    assert device.opened.clock_mhz == pytest.approx(125.0, rel=1e-3)
    assert pynq.Clocks.fclk0_mhz == pytest.approx(125.0, rel=1e-3)
    device.close()


def test_every_board_of_this_pynq(
    machine: RtlBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for board in BOARDS.values():
        if board.family == ZYNQ_7000 and not pynq.__version__.startswith("3."):
            continue
        machine.plug(board)
        monkeypatch.setenv("BOARD", board.name)
        folder = write_overlay(tmp_path / board.name, TINY, board=board.name)
        device = PynqDevice(TINY, overlay=folder)
        assert device.opened.clock_mhz == pytest.approx(100.0, rel=1e-3)
        run(device, prepare(device))
        device.close()
    machine.switch_off()


def test_memory_is_given_back(board: RtlBoard, overlay: Path) -> None:
    device = PynqDevice(TINY)
    prepare(device)
    assert board.default_memory.taken
    device.close()
    assert not board.default_memory.taken
