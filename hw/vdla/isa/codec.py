"""Encoding and decoding, instruction by instruction and in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import EncodingError

from .fields import AluOp, MemoryType, Opcode, layout, uop_layout
from .instructions import Alu, Finish, Gemm, Instruction, Load, ModuleName, Store
from .tokens import FLAGS, TOKEN_FLAGS

__all__ = [
    "decode",
    "decode_columns",
    "decode_one",
    "decode_uops",
    "encode",
    "encode_one",
    "encode_uops",
]

_CLASSES: dict[Opcode, type[Instruction]] = {
    Opcode.LOAD: Load,
    Opcode.STORE: Store,
    Opcode.GEMM: Gemm,
    Opcode.ALU: Alu,
    Opcode.FINISH: Finish,
}
_BOOLEANS = frozenset(
    {"pop_prev", "pop_next", "push_prev", "push_next", "reset", "overwrite", "use_imm"}
)
_MASK64 = (1 << 64) - 1


def encode_one(instruction: Instruction, config: Config) -> int:
    """Return an instruction's 128 bits as an integer.

    Raises
    ------
    EncodingError
        A field's value does not fit, or the instruction is illegal in any configuration.
    """
    word = 0
    for bits in layout(instruction.opcode, config):
        value = int(getattr(instruction, bits.name))
        low, high = bits.range
        if not low <= value <= high:
            raise EncodingError(
                f"{instruction.opcode.name} {bits.name} must lie in {low}..{high} on "
                f"{config.name}, not {value}."
            )
        word |= (value & ((1 << bits.width) - 1)) << bits.lsb
    _check_legal(word, config)
    return word


def decode_one(word: int, config: Config) -> Instruction:
    """Return the instruction that 128 bits encode.

    Raises
    ------
    EncodingError
        The bits encode no legal instruction.
    """
    opcode = _check_legal(word, config)
    values: dict[str, object] = {}
    for bits in layout(opcode, config):
        if bits.name == "opcode":
            continue
        value = word >> bits.lsb & ((1 << bits.width) - 1)
        if bits.signed and value >> (bits.width - 1):
            value -= 1 << bits.width
        values[bits.name] = bool(value) if bits.name in _BOOLEANS else value
    if "memory_type" in values:
        values["memory_type"] = MemoryType(int(str(values["memory_type"])))
    if "alu_opcode" in values:
        values["alu_opcode"] = AluOp(int(str(values["alu_opcode"])))
    return _CLASSES[opcode](**values)  # type: ignore[arg-type]


def _check_legal(word: int, config: Config) -> Opcode:
    code = word & 7
    if code not in _CLASSES:
        raise EncodingError(f"An opcode must be one of 0..4, not {code}.")
    opcode = Opcode(code)
    if opcode in (Opcode.LOAD, Opcode.STORE):
        memory_type = word >> 7 & 7
        if memory_type > max(MemoryType):
            raise EncodingError(f"A memory type must be one of 0..5, not {memory_type}.")
        if opcode is Opcode.STORE and memory_type != MemoryType.OUT:
            raise EncodingError(
                f"STORE must read OUT (4), not {MemoryType(memory_type).name} ({memory_type})."
            )
        if opcode is Opcode.LOAD and memory_type == MemoryType.OUT:
            raise EncodingError("LOAD must fill UOP, WGT, INP or ACC, not OUT (4).")
        _check_flags(word, opcode, MemoryType(memory_type), config)
    if opcode is Opcode.ALU:
        place = next(b for b in layout(opcode, config) if b.name == "alu_opcode")
        alu = word >> place.lsb & 7
        if alu > max(AluOp):
            raise EncodingError(f"An ALU opcode must be one of 0..{max(AluOp)}, not {alu}.")
    return opcode


def _check_flags(word: int, opcode: Opcode, memory_type: MemoryType, config: Config) -> None:
    module = ModuleName.COMPUTE
    if opcode is Opcode.STORE:
        module = ModuleName.STORE
    elif memory_type in (MemoryType.INP, MemoryType.WGT):
        module = ModuleName.LOAD
    for bits in layout(opcode, config):
        if bits.name in FLAGS and bits.name not in TOKEN_FLAGS[module] and word >> bits.lsb & 1:
            raise EncodingError(
                f"An instruction of the {module.value} module must not set {bits.name}: the "
                f"module has no neighbour on that side."
            )


def encode(program: Iterable[Instruction], config: Config) -> NDArray[np.uint64]:
    """Return a program as little-endian 64-bit words, shape (instructions, 2), low word first."""
    known: dict[Instruction, int] = {}  # kernels repeat, and an instruction is immutable
    pairs = []
    for instruction in program:
        word = known.get(instruction)
        if word is None:
            word = known[instruction] = encode_one(instruction, config)
        pairs.append((word & _MASK64, word >> 64))
    return np.array(pairs, dtype="<u8").reshape(-1, 2)


def decode(words: NDArray[np.uint64], config: Config) -> list[Instruction]:
    """Return the instructions of an encoded program, shape (instructions, 2).

    Raises
    ------
    EncodingError
        Names the index of the first instruction that is illegal.
    """
    program: list[Instruction] = []
    known: dict[int, Instruction] = {}  # as above
    for index, (low, high) in enumerate(words.tolist()):
        word = low | high << 64
        try:
            if word not in known:
                known[word] = decode_one(word, config)
        except EncodingError as error:
            raise EncodingError(f"Instruction {index}: {error}") from None
        program.append(known[word])
    return program


def decode_columns(words: NDArray[np.uint64], config: Config) -> dict[str, NDArray[np.int64]]:
    """Return every field of a program as one int64 column; absent fields are 0.

    Illegal instructions are decoded as far as their opcode: check with `decode` first.

    Parameters
    ----------
    words : ndarray of uint64, shape (n, 2)

    Returns
    -------
    dict of str to ndarray of int64, shape (n,)
    """
    words = np.ascontiguousarray(words, dtype=np.uint64).reshape(-1, 2)
    opcode = (words[:, 0] & np.uint64(7)).astype(np.int64)
    columns: dict[str, NDArray[np.int64]] = {"opcode": opcode}
    for kind in Opcode:
        mask = opcode == kind
        for bits in layout(kind, config):
            if bits.name == "opcode":
                continue
            half, shift = divmod(bits.lsb, 64)
            raw = words[mask, half] >> np.uint64(shift) & np.uint64((1 << bits.width) - 1)
            value = raw.astype(np.int64)
            if bits.signed:
                value -= (value >> (bits.width - 1)) << bits.width
            columns.setdefault(bits.name, np.zeros(len(words), np.int64))[mask] = value
    return columns


def encode_uops(
    dst: Sequence[int] | NDArray[np.int64],
    src: Sequence[int] | NDArray[np.int64],
    wgt: Sequence[int] | NDArray[np.int64],
    config: Config,
) -> NDArray[np.uint32]:
    """Return micro-ops, shape (n,), from three index sequences of length n.

    Raises
    ------
    EncodingError
        An index does not fit its field.
    """
    packed = np.zeros(len(dst), dtype=np.int64)
    for bits, values in zip(uop_layout(config), (dst, src, wgt), strict=True):
        column = np.asarray(values, dtype=np.int64)
        low, high = bits.range
        wrong = (column < low) | (column > high)
        if wrong.any():
            raise EncodingError(
                f"A micro-op's {bits.name} must lie in {low}..{high} on {config.name}, "
                f"not {int(column[wrong][0])}."
            )
        packed |= column << bits.lsb
    return packed.astype("<u4")


def decode_uops(uops: NDArray[np.uint32], config: Config) -> tuple[NDArray[np.int64], ...]:
    """Return the dst, src and wgt columns of micro-ops, each int64 of shape (n,)."""
    wide = uops.astype(np.int64)
    return tuple(wide >> bits.lsb & ((1 << bits.width) - 1) for bits in uop_layout(config))
