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
from .listing import clip_range, line_of
from .memory import element_bytes, sram_depth
from .tokens import TOKEN_FLAGS, TokenQueue, pops, pushes

__all__ = [
    "FORMATS",
    "RQ_PACK",
    "TOKEN_FLAGS",
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
    "TokenQueue",
    "clip_range",
    "decode",
    "decode_columns",
    "decode_one",
    "decode_uops",
    "element_bytes",
    "encode",
    "encode_one",
    "encode_uops",
    "layout",
    "line_of",
    "module_of",
    "pops",
    "pushes",
    "sram_depth",
    "uop_layout",
]
