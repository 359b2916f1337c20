"""The instruction set: one field table, and what is read off it."""

from .codec import (
    decode,
    decode_columns,
    decode_one,
    decode_uops,
    encode,
    encode_one,
    encode_uops,
)
from .fields import FORMATS, RQ_PACK, AluOp, BitField, MemoryType, Opcode, layout, uop_layout
from .instructions import Alu, Finish, Gemm, Instruction, Load, ModuleName, Store, module_of

__all__ = [
    "FORMATS",
    "RQ_PACK",
    "Alu",
    "AluOp",
    "BitField",
    "Finish",
    "Gemm",
    "Instruction",
    "Load",
    "MemoryType",
    "ModuleName",
    "Opcode",
    "Store",
    "decode",
    "decode_columns",
    "decode_one",
    "decode_uops",
    "encode",
    "encode_one",
    "encode_uops",
    "layout",
    "module_of",
    "uop_layout",
]
