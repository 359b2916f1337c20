"""A second reading of the manual: a scalar at a time, in program order, no simulator code.

Slow and plain on purpose. It holds for programs without races whose tokens allow program order.
"""

from __future__ import annotations

import numpy as np

from vdla.config import Config
from vdla.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, Store, decode
from vdla.program import Program

__all__ = ["Naive", "run_naive"]


def wrap(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def saturate(value: int) -> int:
    return max(-128, min(127, value))


class Naive:
    """Scratchpads as dictionaries from entry to a list of Python integers."""

    def __init__(self, config: Config, dram: np.ndarray, base: int = 0) -> None:
        self.config, self.dram, self.base = config, bytearray(dram.tobytes()), base
        self.inp: dict[int, list[int]] = {}
        self.wgt: dict[int, list[int]] = {}
        self.acc: dict[int, list[int]] = {}
        self.out: dict[int, list[int]] = {}
        self.uop: dict[int, list[int]] = {}

    def scalars(self, kind: MemoryType) -> tuple[int, int]:
        """Return the scalars of an element and the bytes of each."""
        c = self.config
        return {
            MemoryType.UOP: (1, 4),
            MemoryType.INP: (c.batch * c.block_in, 1),
            MemoryType.WGT: (c.block_out * c.block_in, 1),
            MemoryType.ACC: (c.batch * c.block_out, 4),
            MemoryType.ACC_8BIT: (c.batch * c.block_out, 1),
            MemoryType.OUT: (c.batch * c.block_out, 1),
        }[kind]

    def load(self, i: Load) -> None:
        if i.x_size == 0:
            return
        count, size = self.scalars(i.memory_type)
        buffer = {
            MemoryType.UOP: self.uop,
            MemoryType.INP: self.inp,
            MemoryType.WGT: self.wgt,
            MemoryType.ACC: self.acc,
            MemoryType.ACC_8BIT: self.acc,
        }[i.memory_type]
        entry = i.sram_base
        for y in range(-i.y_pad_0, i.y_size + i.y_pad_1):
            for x in range(-i.x_pad_0, i.x_size + i.x_pad_1):
                if 0 <= y < i.y_size and 0 <= x < i.x_size:
                    start = self.base + (i.dram_base + y * i.x_stride + x) * count * size
                    buffer[entry] = [
                        int.from_bytes(
                            self.dram[start + k * size : start + (k + 1) * size],
                            "little",
                            signed=True,
                        )
                        for k in range(count)
                    ]
                else:
                    buffer[entry] = [i.pad_value] * count
                entry += 1

    def store(self, i: Store) -> None:
        count, _ = self.scalars(MemoryType.OUT)
        entry = i.sram_base
        for y in range(i.y_size):
            for x in range(i.x_size):
                start = self.base + (i.dram_base + y * i.x_stride + x) * count
                self.dram[start : start + count] = bytes(v & 255 for v in self.out[entry])
                entry += 1

    def indices(self, i: Gemm | Alu):
        c = self.config
        widths = (c.dst_index_bits, c.src_index_bits, c.wgt_index_bits)
        for outer in range(i.iter_out):
            for inner in range(i.iter_in):
                for u in range(i.uop_begin, i.uop_end):
                    word, found = self.uop[u][0] & 0xFFFFFFFF, []
                    for width in widths:
                        found.append(word & ((1 << width) - 1))
                        word >>= width
                    dst = found[0] + outer * i.dst_factor_out + inner * i.dst_factor_in
                    src = found[1] + outer * i.src_factor_out + inner * i.src_factor_in
                    wgt = found[2]
                    if isinstance(i, Gemm):
                        wgt += outer * i.wgt_factor_out + inner * i.wgt_factor_in
                    yield dst, src, wgt

    def write(self, dst: int, values: list[int]) -> None:
        self.acc[dst] = [wrap(v) for v in values]
        self.out[dst] = [saturate(v) for v in self.acc[dst]]

    def gemm(self, i: Gemm) -> None:
        c = self.config
        for dst, src, wgt in self.indices(i):
            if i.reset:
                self.write(dst, [0] * (c.batch * c.block_out))
                continue
            inputs = np.array(self.inp[src], dtype=object).reshape(c.batch, c.block_in)
            weights = np.array(self.wgt[wgt], dtype=object).reshape(c.block_out, c.block_in)
            product = [int(v) for v in (inputs @ weights.T).ravel()]
            old = [0] * len(product) if i.overwrite else self.acc[dst]
            self.write(dst, [a + b for a, b in zip(old, product, strict=True)])

    def alu(self, i: Alu) -> None:
        previous, parameters = -1, []
        for dst, src, _ in self.indices(i):
            lanes = range(len(self.acc[dst]))
            if i.alu_opcode is AluOp.RQ:
                clip = (i.imm & 255, i.imm >> 8 & 255)
                low, high = (v - 256 if v > 127 else v for v in clip)
                if src != previous:
                    previous, parameters = src, [list(self.acc[src + k]) for k in range(3)]
                self.write(
                    dst,
                    [rq(self.acc[dst][k], *(p[k] for p in parameters), low, high) for k in lanes],
                )
                continue
            operand = [i.imm] * len(lanes) if i.use_imm else self.acc[src]
            self.write(dst, [alu(i.alu_opcode, self.acc[dst][k], operand[k]) for k in lanes])


def alu(opcode: AluOp, a: int, b: int) -> int:
    if opcode is AluOp.MIN:
        return min(a, b)
    if opcode is AluOp.MAX:
        return max(a, b)
    if opcode is AluOp.ADD:
        return a + b
    if opcode is AluOp.MUL:
        return a * b
    if b >= 0:
        return a >> min(b, 64)
    return 0 if b <= -32 else a << -b


def rq(acc: int, bias: int, m: int, packed: int, low: int, high: int) -> int:
    """The reference kernels' arithmetic, division by division."""
    x = wrap(acc + bias)
    shift = packed & 31
    zero_point = packed >> 8 & 255
    zero_point -= 256 if zero_point > 127 else 0
    if packed >> 16 & 1:
        scaled = (x * m + (1 << (30 + shift))) // (1 << (31 + shift))
    else:
        nudge = (1 << 30) if x * m >= 0 else 1 - (1 << 30)
        total = x * m + nudge
        doubled = abs(total) // (1 << 31) * (1 if total >= 0 else -1)  # truncates, as C does
        doubled = min(doubled, (1 << 31) - 1)
        remainder = doubled & ((1 << shift) - 1)
        threshold = (((1 << shift) - 1) >> 1) + (1 if doubled < 0 else 0)
        scaled = (doubled >> shift) + (1 if remainder > threshold else 0)
    result = scaled + zero_point
    return max(low, min(high, result)) if low <= high else result


def run_naive(program: Program, dram: np.ndarray, base: int = 0) -> np.ndarray:
    """Return the memory after a program, shape (bytes,)."""
    machine = Naive(program.config, dram, base)
    steps = {Load: machine.load, Store: machine.store, Gemm: machine.gemm, Alu: machine.alu}
    for instruction in decode(program.instructions, program.config):
        if isinstance(instruction, Finish):
            break
        steps[type(instruction)](instruction)
    return np.frombuffer(bytes(machine.dram), dtype=np.uint8).copy()
