"""Bit layouts made from the instruction table, and the signals between units."""

from __future__ import annotations

from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.config import Config
from vdla.isa import Opcode, layout, uop_layout

__all__ = [
    "INDEX_BITS",
    "INSTRUCTION_BITS",
    "ReadChannel",
    "WriteChannel",
    "address_bits",
    "beats_bits",
    "instruction_layout",
    "micro_op_layout",
    "request_layout",
]

INSTRUCTION_BITS = 128
INDEX_BITS = 16
"""Of an instruction's index in its program, which errors name; it wraps in longer programs."""


def _shape(width: int, is_signed: bool) -> Shape:
    return signed(width) if is_signed else unsigned(width)


def instruction_layout(opcode: Opcode, config: Config) -> data.FlexibleLayout:
    """Return the fields of one instruction as a view of its 128 bits."""
    fields = {
        bits.name: data.Field(_shape(bits.width, bits.signed), bits.lsb)
        for bits in layout(opcode, config)
    }
    return data.FlexibleLayout(INSTRUCTION_BITS, fields)


def micro_op_layout(config: Config) -> data.FlexibleLayout:
    """Return the fields of a micro-op as a view of its 32 bits."""
    fields = {b.name: data.Field(unsigned(b.width), b.lsb) for b in uop_layout(config)}
    return data.FlexibleLayout(32, fields)


def address_bits(config: Config) -> int:
    """Return the width of an address in memory."""
    return config.address_bits


def beats_bits(config: Config) -> int:
    """Return the width of a burst's length in beats less one."""
    return max(1, (config.axi_burst_beats - 1).bit_length())


def request_layout(config: Config) -> data.StructLayout:
    """Return one burst: the address of its first beat, and its beats less one."""
    return data.StructLayout({"address": address_bits(config), "last": beats_bits(config)})


class ReadChannel(wiring.Signature):
    """Address and data of AXI reads as a master sees them, one identifier, full-width beats.

    Members
    -------
    request, request_valid, request_ready
        AR.
    data, last, error, valid
        R; it is always taken.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "request": Out(request_layout(config)),
                "request_valid": Out(1),
                "request_ready": In(1),
                "data": In(config.axi_data_bits),
                "last": In(1),
                "error": In(1),
                "valid": In(1),
            }
        )


class WriteChannel(wiring.Signature):
    """Address, data and response of AXI writes as a master sees them.

    Members
    -------
    request, request_valid, request_ready
        AW.
    data, strobe, last, valid, ready
        W.
    response, response_error
        B; it is always taken.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "request": Out(request_layout(config)),
                "request_valid": Out(1),
                "request_ready": In(1),
                "data": Out(config.axi_data_bits),
                "strobe": Out(config.axi_bytes),
                "last": Out(1),
                "valid": Out(1),
                "ready": In(1),
                "response": In(1),
                "response_error": In(1),
            }
        )
