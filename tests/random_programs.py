"""Random legal programs without races, for comparing models with each other.

ACC program works inside a window of each scratchpad, placed low, high or anywhere, and fills all of
the windows first, so that nothing it reads is undefined. Instructions are drawn in program order;
each one then gets the tokens that order it behind every conflicting one before it, as few or as
many as chance has it. Program order is therefore always possible, and any order that the tokens
allow gives the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.builder import Case
from tests.naive import run_naive
from tests.random_tokens import Access, TokenInserter
from vdla.config import Config
from vdla.isa import (
    Alu,
    AluOp,
    Gemm,
    Load,
    MemoryType,
    Store,
    decode_uops,
    element_bytes,
    encode_uops,
    sram_depth,
)
from vdla.program import Program

__all__ = ["random_case"]

UOP, WGT, INP, ACC, OUT, ACC8 = (
    MemoryType.UOP,
    MemoryType.WGT,
    MemoryType.INP,
    MemoryType.ACC,
    MemoryType.OUT,
    MemoryType.ACC_8BIT,
)
_SPECIAL = np.array(
    [
        0,
        1,
        -1,
        2,
        -2,
        31,
        32,
        33,
        -31,
        -32,
        1 << 30,
        -(1 << 30),
        -(1 << 31),
        (1 << 31) - 1,
        127,
        -128,
    ]
)


class _Generator:
    def __init__(self, config: Config, seed: int, length: int) -> None:
        self.config = config
        self.rng = np.random.default_rng([seed, config.hash])
        self.length = length
        self.tokens = TokenInserter(self.rng, config.token_queue_depth)
        self.window = {kind: self._window(kind) for kind in (UOP, WGT, INP, ACC)}
        self._memory()
        self.uops: np.ndarray = np.zeros(config.uop_depth, np.uint32)

    def pick(self, low: int, high: int) -> int:
        """A random integer in low..high, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def _window(self, kind: MemoryType) -> tuple[int, int]:
        depth = sram_depth(kind, self.config)
        size = min(
            depth, self.pick(*{UOP: (12, 32), WGT: (3, 12), INP: (8, 40), ACC: (12, 48)}[kind])
        )
        first = int(self.rng.choice([0, depth - size, self.pick(0, depth - size)]))
        return first, first + size

    def _memory(self) -> None:
        """Regions in bytes: read-only data, micro-ops, and what is written and read again."""
        line = element_bytes(WGT, self.config)
        data = 24 * max(line, element_bytes(ACC, self.config))
        self.data = (self.pick(0, 3) * 4, data)
        uop_first = -(-data // 4) * 4 + 4 * self.pick(0, 9)
        self.kernels = (uop_first, uop_first + 4 * 96)
        shared = -(-(self.kernels[1] + 4) // line) * line
        out = element_bytes(OUT, self.config)
        self.shared = (shared, shared + max(96 * out, 2 * line))
        size = -(-self.shared[1] // out) * out + 400 * out
        self.results = self.shared[1]
        image = self.rng.integers(0, 256, size).astype(np.uint8)
        words = image[: data // 4 * 4].view("<i4")
        special = self.rng.random(len(words)) < 0.3
        words[special] = self.rng.choice(_SPECIAL, int(special.sum())).astype("<i4")
        small = self.rng.random(len(words)) < 0.2
        words[small] = self.rng.integers(-300, 300, int(small.sum()))
        kernels = image[self.kernels[0] : self.kernels[1]].view("<u4")
        kernels[:] = self._words(len(kernels))
        first = (self.window[ACC][0], self.window[ACC][0], self.window[WGT][0])
        word = encode_uops(*([index] for index in first), self.config)
        image[self.kernels[1] : self.kernels[1] + 4] = word.view(np.uint8)
        self.image = image

    def _words(self, count: int) -> np.ndarray:
        """Micro-ops inside the windows; runs of one value make repeats likely."""
        (d, d1), (w, w1), (i, i1) = self.window[ACC], self.window[WGT], self.window[INP]
        half = self.rng.random(count) < 0.5
        dst = self.rng.integers(d, d1, count)
        wgt = self.rng.integers(w, w1, count)
        src = np.where(
            half, self.rng.integers(i, i1, count), self.rng.integers(d, max(d + 1, d1 - 2), count)
        )
        for column in (dst, src, wgt):
            for _ in range(count // 8):
                at = self.pick(0, count - 2)
                column[at : at + self.pick(1, 6)] = column[at]
        return encode_uops(dst, src, wgt, self.config)

    # What an instruction touches.

    def _dram(self, i: Load | Store) -> list[Access]:
        if i.x_size == 0 or i.y_size == 0:
            return []
        size = element_bytes(i.memory_type, self.config)
        rows = [(i.dram_base + y * i.x_stride) * size for y in range(i.y_size)]
        return [Access("dram", row, row + i.x_size * size, isinstance(i, Store)) for row in rows]

    def load(self, i: Load) -> None:
        space = "ACC" if i.memory_type is ACC8 else i.memory_type.name
        touched = [Access(space, i.sram_base, i.sram_base + i.sram_size, True)]
        self.tokens.emit(i, self._dram(i) + touched)
        if i.memory_type is UOP and i.sram_size:
            self._track_uops(i)

    def _track_uops(self, i: Load) -> None:
        entry = i.sram_base
        words = self.image[: len(self.image) // 4 * 4].view("<u4")
        for y in range(-i.y_pad_0, i.y_size + i.y_pad_1):
            for x in range(-i.x_pad_0, i.x_size + i.x_pad_1):
                inside = 0 <= y < i.y_size and 0 <= x < i.x_size
                at = i.dram_base + y * i.x_stride + x
                self.uops[entry] = words[at] if inside else i.pad_value & 0xFFFFFFFF
                entry += 1

    def store(self, i: Store) -> None:
        end = i.sram_base + i.y_size * i.x_size
        self.tokens.emit(i, [*self._dram(i), Access("OUT", i.sram_base, end, False)])

    def compute(self, i: Gemm | Alu, columns: dict[str, np.ndarray]) -> None:
        accesses = []
        for space, write in (("OUT", True), ("INP", False), ("WGT", False)):
            key = {"OUT": "dst", "INP": "src", "WGT": "wgt"}[space]
            if i.count and (write or isinstance(i, Gemm) and not i.reset):
                accesses += [
                    Access(space, int(e), int(e) + 1, write) for e in np.unique(columns[key])
                ]
        self.tokens.emit(i, accesses)

    # Drawing instructions.

    def random_load(self, kind: MemoryType) -> None:
        first, end = self.window[ACC if kind is ACC8 else kind]
        size = element_bytes(kind, self.config)
        region = self.kernels if kind is UOP else self.data if self.chance(0.6) else self.shared
        low, high = -(-region[0] // size), region[1] // size
        pads = [self.pick(0, 3) if self.chance(0.3) else 0 for _ in range(4)]
        fill = self.pick(-128, 127) if self.chance(0.5) else 0
        if kind is UOP and self.chance(0.7):
            pads = [0, 0, 0, 0]
        y = self.pick(1, 4)
        if pads[0] + pads[1] and self.chance(0.1):
            y = 0  # padding alone
        room = (end - first) // (y + pads[0] + pads[1]) - pads[2] - pads[3]
        if room < 1:
            return
        x = self.pick(1, min(room, high - low))
        highest_stride = (high - low - x) // max(1, y - 1)
        stride = self.pick(0, min(highest_stride, 3 * x))
        used = (y + pads[0] + pads[1]) * (x + pads[2] + pads[3])
        base = self.pick(low, high - ((y - 1) * stride + x))
        self.load(
            Load(
                memory_type=kind,
                sram_base=self.pick(first, end - used),
                dram_base=base,
                y_size=y,
                x_size=x,
                x_stride=stride,
                y_pad_0=pads[0],
                y_pad_1=pads[1],
                x_pad_0=pads[2],
                x_pad_1=pads[3],
                pad_value=fill,
            )
        )

    def fill_window(self, kind: MemoryType) -> None:
        """One or two loads that leave nothing in a window unwritten."""
        first, end = self.window[kind]
        size = element_bytes(kind, self.config)
        region = self.kernels if kind is UOP else self.data
        low = -(-region[0] // size)
        available = region[1] // size - low
        at = first
        while at < end:
            x = min(end - at, available)
            if x > 2 and self.chance(0.5):
                x = self.pick(1, x)
            self.load(Load(memory_type=kind, sram_base=at, dram_base=low, x_size=x))
            at += x

    def random_store(self) -> None:
        first, end = self.window[ACC]
        size = element_bytes(OUT, self.config)
        low, high = -(-self.shared[0] // size), self.shared[1] // size
        y = self.pick(1, 3)
        x = self.pick(1, min((end - first) // y, (high - low) // y))
        stride = self.pick(0, (high - low - x) // max(1, y - 1))
        if stride < x and self.chance(0.7):
            stride = min(x, (high - low - x) // max(1, y - 1))
        self.store(
            Store(
                sram_base=self.pick(first, end - x * y),
                dram_base=self.pick(low, high - ((y - 1) * stride + x)),
                y_size=y,
                x_size=x,
                x_stride=stride,
            )
        )

    def random_compute(self, gemm: bool) -> None:
        """A kernel from what the micro-op buffer holds, with factors that stay inside."""
        rq = not gemm and self.chance(0.3)
        source = self.window[INP] if gemm else self.window[ACC]
        limits = [self.window[ACC], (source[0], source[1] - (2 if rq else 0)), self.window[WGT]]
        reset = gemm and self.chance(0.12)
        use_imm = not gemm and not rq and self.chance(0.5)
        for _ in range(20):
            begin = self.pick(self.window[UOP][0], self.window[UOP][1] - 1)
            end = self.pick(begin + 1, min(self.window[UOP][1], begin + 8))
            kernel = decode_uops(self.uops[begin:end], self.config)
            checked = 1 if reset or use_imm else 3 if gemm else 2
            fits = all(
                low <= column.min() and column.max() < high
                for column, (low, high) in zip(kernel[:checked], limits, strict=False)
            )
            if fits:
                break
        else:
            return
        loops = [self.pick(1, 4) if self.chance(0.6) else 1 for _ in range(2)]
        factors, columns = [], {}
        for name, column, (_, high) in zip(("dst", "src", "wgt"), kernel, limits, strict=True):
            slack = max(0, high - 1 - int(column.max()))
            outer = self.pick(0, slack // max(1, loops[0] - 1)) if self.chance(0.7) else 0
            slack -= outer * (loops[0] - 1)
            inner = self.pick(0, max(0, slack) // max(1, loops[1] - 1)) if self.chance(0.7) else 0
            bits = getattr(self.config, f"{name}_index_bits")
            outer, inner = min(outer, (1 << bits) - 1), min(inner, (1 << bits) - 1)
            factors += [outer, inner]
            grid = np.add.outer(np.arange(loops[0]) * outer, np.arange(loops[1]) * inner)
            columns[name] = np.add.outer(grid, column).ravel()
        fields: dict[str, Any] = {
            "uop_begin": begin,
            "uop_end": end,
            "iter_out": loops[0],
            "iter_in": loops[1],
            "dst_factor_out": factors[0],
            "dst_factor_in": factors[1],
            "src_factor_out": factors[2],
            "src_factor_in": factors[3],
        }
        if gemm:
            overwrite = self.chance(0.25)
            fields |= {"wgt_factor_out": factors[4], "wgt_factor_in": factors[5]}
            self.compute(Gemm(**fields, reset=reset, overwrite=overwrite), columns)
            return
        operation = AluOp.RQ if rq else AluOp(self.pick(0, 4))
        imm = self.pick(-(1 << 15), (1 << 15) - 1)
        if operation is AluOp.SHR and self.chance(0.7):
            imm = self.pick(-34, 34)
        if rq and self.chance(0.7):  # a range in order, so that something is clipped
            least, most = sorted((self.pick(-128, 127), self.pick(-128, 127)))
            imm = (least & 255) | most << 8
        self.compute(Alu(**fields, alu_opcode=operation, use_imm=use_imm, imm=imm), columns)

    def random_empty(self) -> None:
        """Something that does nothing, whatever its other fields say."""
        none = {"x_size": 0} if self.chance(0.5) else {"x_size": self.pick(1, 50), "y_size": 0}
        choice = self.pick(0, 3)
        if choice == 0:
            kind = MemoryType(int(self.rng.choice([UOP, WGT, INP, ACC, ACC8])))
            self.tokens.emit(
                Load(
                    memory_type=kind,
                    sram_base=self.pick(0, 65535),
                    dram_base=self.pick(0, (1 << 30) - 1),
                    x_pad_0=self.pick(0, 15),
                    y_pad_1=0 if none["x_size"] else self.pick(0, 15),
                    **none,
                ),
                [],
            )
        elif choice == 1:
            store = Store(sram_base=self.pick(0, 65535), dram_base=self.pick(0, 1 << 29), **none)
            self.tokens.emit(store, [])
        else:
            last = self.config.uop_depth - 1
            loops: dict[str, Any] = {"uop_begin": self.pick(0, last), "uop_end": 0}
            if self.chance(0.5):
                loops |= {"uop_end": self.pick(0, 2 * last), "iter_in": 0, "iter_out": 3}
            gemm = Gemm(**loops, reset=self.chance(0.5))
            alu = Alu(**loops, alu_opcode=AluOp(self.pick(0, 5)), imm=self.pick(0, 9))
            self.tokens.emit(gemm if choice == 2 else alu, [])

    def finish(self) -> None:
        """Show ACC's content through OUT: low bits or high bits, as chance has it."""
        first, end = self.window[ACC]
        size = element_bytes(OUT, self.config)
        target = -(-self.results // size)
        loops = self.load_first()
        columns = {"dst": np.arange(first, end)}
        steps = (0, 12, 12) if self.chance(0.5) else (0, -24, 24)
        for amount in steps:
            shift = Alu(**loops, alu_opcode=AluOp.SHR, use_imm=True, imm=amount)
            self.compute(shift, columns)
            self.store(Store(sram_base=first, dram_base=target, x_size=end - first))
            target += end - first
        self.tokens.finish()

    def case(self, seed: int) -> Case:
        for kind in self.rng.permutation([UOP, WGT, INP, ACC]):
            self.fill_window(MemoryType(int(kind)))
        self.initial_out()
        draws = [
            lambda kind=kind: self.random_load(kind) for kind in (UOP, WGT, INP, INP, ACC, ACC8)
        ]
        draws += [self.random_store] * 3 + [self.random_empty]
        draws += [lambda: self.random_compute(gemm=True)] * 5
        draws += [lambda: self.random_compute(gemm=False)] * 5
        while len(self.tokens.entries) < self.length:
            draws[self.pick(0, len(draws) - 1)]()
        self.finish()
        program = Program.from_instructions(
            [entry.instruction for entry in self.tokens.entries], self.config
        )
        after = run_naive(program, self.image)
        return Case(f"random{seed}-{self.config.name}", program, self.image, ((0, after),))

    def load_first(self) -> dict[str, Any]:
        """Load a micro-op that names the ACC window's start; return loops over the window."""
        first, end = self.window[ACC]
        at, dram = self.window[UOP][0], self.kernels[1] // 4
        self.load(Load(memory_type=UOP, sram_base=at, dram_base=dram, x_size=1))
        return {
            "uop_begin": at,
            "uop_end": at + 1,
            "iter_in": end - first,
            "dst_factor_in": 1,
        }

    def initial_out(self) -> None:
        """OUT is written by GEMM and ALU alone: write the window before it is stored."""
        columns = {"dst": np.arange(*self.window[ACC])}
        loops = self.load_first()
        if self.chance(0.5):
            self.compute(Gemm(**loops, reset=True), columns)
        else:
            self.compute(Alu(**loops, alu_opcode=AluOp.ADD, use_imm=True), columns)


def random_case(config: Config, seed: int, length: int = 60) -> Case:
    """Return a random program of about that many instructions and the memory it must leave.

    Parameters
    ----------
    config : Config
    seed : int
        The same seed, configuration and length give the same case.
    length : int
        Instructions, the ones that fill the windows and show the results included.
    """
    return _Generator(config, seed, length).case(seed)
