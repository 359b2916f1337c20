"""A board for pynq whose FPGA is the gateware in process, and whose memory is the simulation's.

pynq is unmodified. What stands in is below it: /dev/mem (`RtlBoard.mmap`), XRT's memory with the
processor's cache in front of it (`allocate_bo`, `flush`, `invalidate`), the FPGA manager
(`download`) and the kernel's UIO node of the interrupt (a pseudo-terminal).
"""

from __future__ import annotations

import ctypes
import os
import pty
import threading
import time
import tty
from pathlib import Path
from typing import Any

import numpy as np
import pynq
import pynq.buffer
import pynq.interrupt
from pynq.buffer import PynqBuffer
from pynq.pl_server.embedded_device import _get_bitstream_handler, parse_bit_header

from vdla.boards import CONTROLLER_BYTES, ZYNQ_7000, Board
from vdla.config import Config, named
from vdla.registers import Register
from vdla.runtime.rtl import MemorySettings, Simulation, build_top

MEMORY_BASE, MEMORY_BYTES = 0x1800_0000, 64 << 20
"""Contiguous memory, as the processor and the accelerator number it."""

_PAGE = 4096
_ZYNQ_CLOCKS, _MPSOC_CLOCKS = 0xF800_0000, 0xFF5E_0000
_CHUNK_CYCLES = 4000


class Fabric:
    """The accelerator and its time, which passes in a thread of its own while a program runs."""

    def __init__(self, config: Config, memory: np.ndarray, version: int) -> None:
        self.config, self.version = config, version
        self.simulation = Simulation(build_top(config), MemorySettings.of(config))
        self.simulation.map(MEMORY_BASE, memory)
        self.wanted = 0  # by whom registers are read or written
        self.lock = threading.Lock()
        self.wake = threading.Event()
        self.closed = False
        self.raised = lambda: None
        self.hold = lambda: False  # whether a program that runs stands still
        self.thread = threading.Thread(target=self._tick, daemon=True)
        self.thread.start()

    def inject(self, errors: tuple[int, int]) -> None:
        with self.lock:
            self.simulation.configure(MemorySettings.of(self.config, errors=errors))

    def read(self, offset: int) -> int:
        self.wanted += 1
        with self.lock:
            self.wanted -= 1
            if offset == Register.VERSION and self.version:
                return self.version
            return self.simulation.read(offset)

    def write(self, offset: int, value: int) -> None:
        self.wanted += 1
        with self.lock:
            self.wanted -= 1
            self.simulation.write(offset, value)
        if offset == Register.CONTROL and value & 3:
            self.wake.set()

    @property
    def interrupt(self) -> bool:
        return bool(self.read(Register.STATUS) & Register.STATUS.bits("interrupt").mask)

    def close(self) -> None:
        self.closed = True
        self.wake.set()
        self.thread.join()
        self.simulation.close()

    def _tick(self) -> None:
        busy = sum(Register.STATUS.bits(name).mask for name in ("running", "resetting"))
        while not self.closed:
            self.wake.wait()
            self.wake.clear()
            while not self.closed:
                if self.hold():
                    time.sleep(0.001)
                    continue
                with self.lock:
                    self.simulation.run(_CHUNK_CYCLES)
                    status = self.simulation.read(Register.STATUS)
                if not status & busy:
                    break
                while self.wanted and not self.closed:
                    time.sleep(0.0001)
            self.raised()


class Controller:
    """The AXI interrupt controller (AMD PG099) and the UIO nodes of the lines that it may drive."""

    STATUS, PENDING, ENABLE, ACKNOWLEDGE = 0x00, 0x04, 0x08, 0x0C
    SET, CLEAR, MASTER = 0x10, 0x14, 0x1C

    def __init__(self) -> None:
        self.pending = self.enabled = self.master = 0
        self.level = lambda: False
        self.armed = False
        self.taken = 0
        self.lock = threading.RLock()
        self.deaf = False
        self.nodes: dict[int, tuple[int, int]] = {}
        self.line = 0

    def node(self, line: int) -> str:
        """Return the path of a line's node."""
        if line not in self.nodes:
            self.nodes[line] = pty.openpty()
            tty.setraw(self.nodes[line][1])
            threading.Thread(target=self._arm, args=(line,), daemon=True).start()
        return os.ttyname(self.nodes[line][1])

    def reset(self) -> None:
        with self.lock:
            self.pending = self.enabled = self.master = 0
            self.armed = self.deaf = False

    def read(self, offset: int) -> int:
        with self.lock:
            self.settle()
            return {self.PENDING: self.pending & self.enabled, self.STATUS: self.pending}.get(
                offset, 0
            )

    def write(self, offset: int, value: int) -> None:
        with self.lock:
            if offset == self.ENABLE:
                self.enabled = value
            elif offset == self.SET:
                self.enabled |= value
            elif offset == self.CLEAR:
                self.enabled &= ~value
            elif offset == self.ACKNOWLEDGE:
                self.pending &= ~value
            elif offset == self.MASTER:
                self.master = value
            self.settle()

    def settle(self) -> None:
        with self.lock:
            if self.level() and not self.deaf:
                self.pending |= 1
            if self.armed and self.master == 3 and self.pending & self.enabled:
                self.armed = False
                self.taken += 1
                os.write(self.nodes[self.line][0], self.taken.to_bytes(4, "little"))

    def _arm(self, line: int) -> None:
        while os.read(self.nodes[line][0], 4):
            with self.lock:
                self.armed = line == self.line
                self.settle()


class Window:
    """Registers of a device in the fabric, as `mmap` of /dev/mem shows them."""

    def __init__(self, board: RtlBoard, part: str, first: int = 0) -> None:
        self._board, self._part, self._first = board, part, first

    def _target(self) -> Any:
        if self._board.unplugged == "raises":
            raise OSError("Bus error")
        return getattr(self._board, self._part)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Window(self._board, self._part, self._first + index.start)
        target = self._target()
        if self._board.unplugged or target is None:
            return np.uint32(0xFFFFFFFF)
        return np.uint32(target.read(4 * (self._first + int(index))))

    def view(self, dtype: str) -> Window:
        return self

    def __setitem__(self, index: int, value: np.uint32) -> None:
        target = self._target()
        if not self._board.unplugged and target is not None:
            target.write(4 * (self._first + int(index)), int(value))


class RtlMemory:
    """Contiguous memory, first fit; a buffer is the cache's copy of it."""

    def __init__(self, board: RtlBoard) -> None:
        self.board = board
        self.taken: dict[int, int] = {}
        self.mapped: dict[int, int] = {}  # addresses by those of the processor

    def allocate(self, shape: Any, dtype: Any, cacheable: int = 0) -> PynqBuffer:
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        room = -(-nbytes // _PAGE) * _PAGE
        address = MEMORY_BASE
        for begin in sorted(self.taken):
            if address + room <= begin:
                break
            address = begin + self.taken[begin]
        if address + room > MEMORY_BASE + self.board.memory_bytes:
            raise RuntimeError("BO allocation failed: Cannot allocate memory")  # as XRT's does
        self.taken[address] = room
        buffer = PynqBuffer(
            shape, dtype, bo=address, device=self.board, device_address=address, coherent=False
        )
        buffer[...] = 0xA5  # what was there before
        buffer.memory = self
        self.mapped[buffer.virtual_address] = address
        return buffer

    def munmap(self, pointer: ctypes.c_void_p, nbytes: int) -> int:
        address = self.mapped.pop(pointer.value or 0, None)
        if address is not None:
            del self.taken[address]
        return 0

    def clear(self) -> None:
        self.taken.clear()
        self.mapped.clear()


class RtlBoard(pynq.Device):
    _probe_priority_ = 10

    @classmethod
    def _probe_(cls) -> list[RtlBoard]:
        return [cls()]

    def __init__(self) -> None:
        super().__init__("rtl")
        self.name = "rtl"
        self.arch = "armv7l"
        self.capabilities = {"MEMORY_MAPPED": True, "REGISTER_RW": False, "CALLABLE": False}
        self.memory_bytes = MEMORY_BYTES
        self.memory = np.zeros(MEMORY_BYTES, np.uint8)
        self.default_memory = RtlMemory(self)
        self.fabric: Fabric | None = None
        self.controller = Controller()
        self.unplugged = ""
        self.flushed: list[tuple[int, int]] = []
        self.address = self.controller_address = 0
        self.processor = np.zeros(0x400, np.uint32)
        pynq.buffer.libc, pynq.buffer.ctypes = self.default_memory, ctypes  # as on a board
        pynq.interrupt.get_uio_irq = self.controller.node

    def plug(self, board: Board) -> None:
        """Become a board that has just been switched on."""
        self.switch_off()
        self.arch = "armv7l" if board.family == ZYNQ_7000 else "aarch64"
        self.address, self.controller_address = board.address, board.controller_address
        self.controller.line = board.raw_interrupt
        self.unplugged, self.memory_bytes = "", MEMORY_BYTES
        self.processor[:] = 0
        if board.family == ZYNQ_7000:
            for pll, feedback in ((0x100, 26), (0x104, 21), (0x108, 20)):  # ARM, DDR, IO; 50 MHz
                self.processor[pll // 4] = feedback << 12
            self.processor[0x170 // 4] = 1 << 20 | 5 << 8  # the IO PLL's 1000 MHz by 5
        else:
            feedback = round(2 * board.pll_mhz / 33.333)
            source = {"IOPLL": 0, "RPLL": 2}[board.pll]
            for pll in (0x20, 0x30):
                self.processor[pll // 4] = 1 << 16 | feedback << 8
            self.processor[0xC0 // 4] = 1 << 24 | 1 << 16 | 10 << 8 | source
        # What pynq keeps for as long as its process lives, which a board that is off has ended.
        if hasattr(pynq.Clocks, "_real_instance"):
            del pynq.Clocks._real_instance
        interrupts = pynq.interrupt._InterruptController
        interrupts._controllers.clear()
        for node in interrupts._uio_devices.values():
            node.wait_events.clear()

    def switch_off(self) -> None:
        fabric, self.fabric = self.fabric, None
        if fabric is not None:
            fabric.close()
        self.controller.reset()
        self.controller.level = lambda: False
        self.default_memory.clear()
        self.flushed.clear()

    def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Any:
        return _get_bitstream_handler(bitfile_name).get_parser(partial=partial)

    def download(self, bitstream: Any, parser: Any = None) -> None:
        """Put into the fabric what the bitstream's name for its design says."""
        header = parse_bit_header(Path(bitstream.bitfile_name).read_bytes())
        name, _, version = header["design"].partition("-v")
        old, self.fabric = self.fabric, None
        if old is not None:
            old.close()
        self.controller.reset()
        self.controller.level = lambda: False
        if name != "stranger":
            self.fabric = Fabric(named(name), self.memory, int(version or 0) << 16)
            self.controller.level = lambda: self.fabric is not None and self.fabric.interrupt
            self.fabric.raised = self.controller.settle
        super().post_download(bitstream, parser, self.name)

    def gen_cache(self, bitstream: Any, parser: Any = None) -> None: ...

    def close(self) -> None: ...

    def mmap(self, base: int, length: int) -> Any:
        if base in (_ZYNQ_CLOCKS, _MPSOC_CLOCKS):
            return self.processor
        if self.address <= base < self.address + 0x10000:
            return Window(self, "fabric")
        if base - self.controller_address in range(CONTROLLER_BYTES):
            return Window(self, "controller")
        return np.zeros(length // 4, np.uint32)

    def flush(self, bo: int, offset: int, pointer: int, nbytes: int) -> None:
        self.flushed.append((bo + offset, nbytes))
        ctypes.memmove(self._place(bo + offset), pointer, nbytes)

    def invalidate(self, bo: int, offset: int, pointer: int, nbytes: int) -> None:
        ctypes.memmove(pointer, self._place(bo + offset), nbytes)

    def _place(self, address: int) -> int:
        return int(self.memory.ctypes.data) + address - MEMORY_BASE


def bitstream(design: str) -> bytes:
    """Return a .bit file of a design that holds 64 bytes of nothing."""
    fields = b"".join(
        key + len(text).to_bytes(2, "big") + text
        for key, text in (
            (b"a", f"{design};UserID=0XFFFFFFFF;Version=2024.1\0".encode()),
            (b"b", b"7z020clg400\0"),
            (b"c", b"2026/11/30\0"),
            (b"d", b"00:00:00\0"),
        )
    )
    body = bytes(64)
    return b"\0\x09" + bytes(9) + b"\0\x01" + fields + b"e" + len(body).to_bytes(4, "big") + body
