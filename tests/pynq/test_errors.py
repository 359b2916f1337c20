"""What goes wrong on a board: each its own error, and the next run works."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pynq
import pytest

from tests.pynq.board import MEMORY_BASE, RtlBoard
from tests.pynq.overlays import write_overlay
from tests.pynq.programs import ENDLESS, PLUS_FIVE, SLOW, prepare, run
from vdla.config import PYNQ_Z1, TINY, Config
from vdla.errors import DeviceError, OverlayError, ProgramError, VdlaError
from vdla.isa import Finish
from vdla.program import Program
from vdla.runtime.board import lock, memory
from vdla.runtime.devices.board import PynqDevice

Write = Callable[..., Path]


@pytest.fixture
def write(board: RtlBoard, name: str, tmp_path: Path) -> Write:
    """Write an overlay of TINY into a folder of its own."""

    def write(folder: str = "right", **options: object) -> Path:
        return write_overlay(tmp_path / folder, TINY, board=name, **options)  # type: ignore[arg-type]

    return write


@pytest.fixture
def opened(write: Write) -> Iterator[PynqDevice]:
    device = PynqDevice(TINY, overlay=write())
    yield device
    device.close()


def works(device: PynqDevice) -> None:
    run(device, prepare(device))
    device.close()


def refused(
    write: Write, wrong: Path, error: type[VdlaError] = DeviceError, config: Config = TINY
) -> str:
    """Return what is said of a wrong overlay, after which the right one works."""
    with pytest.raises(error) as caught:
        PynqDevice(config, overlay=wrong)
    works(PynqDevice(TINY, overlay=write()))
    return str(caught.value)


def test_another_configuration_by_its_manifest(write: Write, name: str, tmp_path: Path) -> None:
    wrong = write_overlay(tmp_path / "wrong", PYNQ_Z1, board=name)
    assert refused(write, wrong, OverlayError) == (
        f"An overlay must be of the configuration asked for, tiny (hash {TINY.hash:016x}), not "
        f"pynq-z1 (hash {PYNQ_Z1.hash:016x}): {wrong}: build it with: vdla bitstream --board {name}"
    )


def test_another_configuration_by_its_registers(write: Write) -> None:
    """A bare bitstream, whose accelerator alone knows better."""
    wrong = write("wrong", manifest=False) / "vdla.bit"
    assert refused(write, wrong, config=PYNQ_Z1) == (
        f"A program must be for the accelerator's configuration, tiny (hash {TINY.hash:016x}), "
        f"not for pynq-z1 (hash {PYNQ_Z1.hash:016x}): compile it again, or load the bitstream of "
        "pynq-z1."
    )


def test_another_interface(write: Write) -> None:
    assert refused(write, write("wrong", design="tiny-v2")) == (
        "An accelerator's interface must be version 1, which this driver speaks, not 2.0: load a "
        "bitstream of this version of vdla."
    )


def test_another_version_of_the_core(write: Write) -> None:
    wrong = write("wrong", edit=("vdla:user:vdla:1.0", "vdla:user:vdla:2.0"))
    with pytest.warns(UserWarning, match="Use ignore_version"):
        assert refused(write, wrong) == (
            f"An overlay must contain the core vdla:user:vdla:1.0, and {wrong / 'vdla.bit'} has "
            "vdla_0 (vdla:user:vdla:2.0): load one that vdla bitstream built, with this version "
            "of vdla."
        )


def test_an_overlay_of_someone_else(write: Write) -> None:
    wrong = write("wrong", edit=("vdla:user:vdla:1.0", "acme:user:filter:1.0"))
    said = refused(write, wrong)
    assert "vdla.bit has vdla_0 (acme:user:filter:1.0), interrupts (xilinx.com:ip:axi_intc" in said


def test_nothing_behind_the_address(write: Write) -> None:
    assert refused(write, write("wrong", design="stranger")) == (
        "An accelerator's ID register must read 0x414c4456, not 0xffffffff: is its bitstream "
        "loaded, and is this its address?"
    )


def test_a_bitstream_without_its_hand_off_file(write: Write) -> None:
    wrong = write("wrong", manifest=False) / "vdla.bit"
    wrong.with_suffix(".hwh").unlink()
    assert f"there is no {wrong.with_suffix('.hwh')}: copy both" in refused(write, wrong)


def test_a_damaged_bitstream(write: Write) -> None:
    wrong = write("wrong", manifest=False) / "vdla.bit"
    wrong.write_bytes(b"nonsense")
    assert f"pynq must be able to load {wrong}, and " in refused(write, wrong)


def test_an_overlay_for_another_fpga(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = write_overlay(tmp_path / "wrong", TINY, board="kv260")
    assert "FPGA, xc" in refused(write, wrong)
    assert "not for xck26-sfvc784-2LV-c of kv260" in refused(write, wrong)


def test_no_board(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOARD")
    with pytest.raises(DeviceError, match=r"must run on a board, one of pynq-z1, .*VDLA_OVERLAY"):
        PynqDevice(TINY)
    monkeypatch.setenv("VDLA_OVERLAY", str(write()))
    works(PynqDevice(TINY))


def test_no_overlay_for_the_board(board: RtlBoard, name: str) -> None:
    with pytest.raises(OverlayError, match=f"build one with: vdla bitstream --board {name}"):
        PynqDevice(TINY)


def test_a_program_for_another_configuration(opened: PynqDevice) -> None:
    with pytest.raises(DeviceError, match="compile it again"):
        opened.launch(Program.from_instructions([Finish()], PYNQ_Z1))
    works(opened)


def test_a_program_that_waits_for_ever(opened: PynqDevice) -> None:
    base = prepare(opened)
    opened.launch(ENDLESS, base)
    with pytest.raises(ProgramError) as caught:
        opened.wait()
    assert re.fullmatch(
        r"A program must end within its limit of \d+ cycles: compute waits for a token of "
        r"load->compute before instruction 2 \(max uop=0:1 imm=0 ; pop_prev\); store .*",
        str(caught.value),
    )
    works(opened)


def test_a_time_out(opened: PynqDevice) -> None:
    """Without a limit of cycles, the clock on the wall ends it, and the registers are shown."""
    base = prepare(opened)
    core = opened.opened.ip
    core.start(ENDLESS, base)
    with pytest.raises(DeviceError) as caught:
        core.wait(timeout_s=0.2)
    first, *registers = str(caught.value).splitlines()
    assert "compute waits for a token of load->compute before instruction 2 (max uop" in first
    assert "  status 0x00000001 (running)" in registers
    assert f"  inp_base {base:#010x}" in registers
    assert any(line.startswith("  compute_pop_prev ") for line in registers)
    assert not core.driver.running
    works(opened)


def test_an_error_of_the_bus(board: RtlBoard, opened: PynqDevice) -> None:
    base = prepare(opened)
    assert board.fabric is not None
    board.fabric.inject((base, base + 4))
    opened.launch(PLUS_FIVE, base)
    with pytest.raises(DeviceError) as caught:
        opened.wait()
    assert str(caught.value) == (
        "The machine stopped at an error response to a read: compute, instruction 1 "
        "(load.acc8 sram=0 dram=0x0 x=1)."
    )
    board.fabric.inject((0, 0))
    run(opened, base)
    works(opened)


def test_no_contiguous_memory(
    board: RtlBoard, opened: PynqDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.memory_bytes = 2 << 20
    with pytest.raises(DeviceError) as caught:
        opened.allocate(3 << 20)
    assert str(caught.value) == (
        "Contiguous memory must have room for what a network needs: 3.0 MiB are asked for (BO "
        "allocation failed: Cannot allocate memory): end other processes and notebooks that hold "
        "pynq's buffers, or reserve more at boot with the kernel argument cma=256M."
    )
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 512 kB\nCmaTotal:       131072 kB\nCmaFree:    1024 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    with pytest.raises(DeviceError, match="2.0 MiB are asked for, and 1.0 MiB of 128.0 MiB are"):
        opened.allocate(2 << 20)
    works(opened)


@pytest.mark.parametrize("how", ["ones", "raises"])
def test_a_board_that_is_unplugged(
    board: RtlBoard, write: Write, opened: PynqDevice, how: str
) -> None:
    base = prepare(opened)
    assert board.fabric is not None
    board.fabric.hold = lambda: True
    opened.launch(SLOW, base)
    board.unplugged = how
    with pytest.raises(DeviceError, match="does not answer any more|STATUS failed"):
        opened.wait()
    with pytest.raises(DeviceError, match="not 0xffffffff: is its|ID failed"):
        opened.launch(SLOW, base)
    opened.close()
    board.unplugged = ""
    works(PynqDevice(TINY, overlay=write("again")))


def test_an_overlay_loaded_over_ours(write: Write, opened: PynqDevice) -> None:
    base = prepare(opened)
    other = write("other", edit=("vdla:user:vdla:1.0", "acme:user:filter:1.0"))
    pynq.Overlay(str(other / "vdla.bit"))
    with pytest.raises(DeviceError, match=r"another one has taken the place of .*right/vdla\.bit"):
        opened.launch(PLUS_FIVE, base)
    opened.close()
    works(PynqDevice(TINY, overlay=write()))


@pytest.mark.filterwarnings("ignore:The `(json|parse_obj)` method is deprecated")  # pynq's calls
def test_an_overlay_loaded_by_another_process(
    opened: PynqDevice, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """pynq notes the overlay that was loaded last in a file that all processes share."""
    from pynq.pl_server import global_state

    opened.close()
    monkeypatch.setattr(global_state, "STATE_DIR", str(tmp_path))
    state = {"bitfile_name": "other", "active_name": "rtl"}
    global_state.save_global_state(global_state.GlobalState(**state, timestamp="1"))
    device = PynqDevice(TINY, overlay=write())
    base = prepare(device)
    run(device, base)
    global_state.save_global_state(global_state.GlobalState(**state, timestamp="1 s later"))
    with pytest.raises(DeviceError, match="another one has taken the place"):
        device.launch(PLUS_FIVE, base)
    device.close()


def test_freed_memory(opened: PynqDevice) -> None:
    base = prepare(opened)
    opened.opened.ip.memory.free(base)
    with pytest.raises(DeviceError, match="within a buffer that is allocated and not freed"):
        opened.read(base, 4)
    with pytest.raises(DeviceError, match=f"and {MEMORY_BASE - 4096:#x}"):
        opened.write(MEMORY_BASE - 4096, np.zeros(4, np.uint8))
    works(opened)


def test_a_closed_device(opened: PynqDevice, write: Write) -> None:
    opened.close()
    opened.close()
    with pytest.raises(DeviceError, match="must be open to be used"):
        opened.allocate(4)
    works(PynqDevice(TINY, overlay=write()))


def test_a_run_that_is_abandoned(board: RtlBoard, write: Write, opened: PynqDevice) -> None:
    opened.launch(ENDLESS, prepare(opened))
    opened.close()
    assert not board.default_memory.taken
    works(PynqDevice(TINY, overlay=write()))


def test_two_users_in_a_process(opened: PynqDevice, write: Write) -> None:
    with pytest.raises(DeviceError, match="this process has opened it already: close that device"):
        PynqDevice(TINY, overlay=write("other"))
    works(opened)


def test_two_processes(board: RtlBoard, write: Write) -> None:
    code = textwrap.dedent("""
        import sys, time
        from vdla.runtime.board.lock import BoardLock
        lock = BoardLock("rtl")
        print("held", flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DeviceError) as caught:
            PynqDevice(TINY, overlay=write())
        assert str(caught.value).startswith(
            f"A board must have one user at a time, and process {other.pid} ({sys.executable} -c"
        )
        assert str(caught.value).endswith(f"or end it with: kill {other.pid}")
        other.communicate()
    assert lock.BoardLock("rtl").path.is_file()  # let go of with its process
    works(PynqDevice(TINY, overlay=write()))
