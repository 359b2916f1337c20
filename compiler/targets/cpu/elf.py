"""What an object file asks for and offers: the symbols of an ELF file."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from vdla.errors import LoweringError

__all__ = ["Symbols", "read_symbols"]

_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_STB_LOCAL, _STB_WEAK = 0, 2
_STV_DEFAULT = 0
_HEADER_BYTES = {1: 52, 2: 64}  # by EI_CLASS: 32 and 64 bits


@dataclass(frozen=True)
class Symbols:
    """Symbols of a file that other files may see.

    Attributes
    ----------
    defined : tuple of str
        Those that it has, in their order.
    undefined : tuple of str
        Those that it needs.
    """

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def read_symbols(data: bytes, *, dynamic: bool = False) -> Symbols:
    """Return the symbols of a little-endian ELF file.

    Parameters
    ----------
    data : bytes
        An object file or a shared object.
    dynamic : bool
        Read what the dynamic linker sees of a shared object.

    Raises
    ------
    LoweringError
        It is no such file.
    """
    bits = data[4] if len(data) > 5 else 0
    if data[:4] != b"\x7fELF" or bits not in _HEADER_BYTES or data[5] != 1:
        raise LoweringError(
            f"Machine code must be a little-endian ELF file, not {data[:6]!r}…: "
            "compile it for a target of vdla."
        )
    wide = bits == 2
    if wide:
        table, size, count = _unpack("<40xQ10xHHxx", data, 0)
    else:
        table, size, count = _unpack("<32xI10xHHxx", data, 0)
    form = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    sections = [_unpack(form, data, table + index * size) for index in range(count)]
    wanted = _SHT_DYNSYM if dynamic else _SHT_SYMTAB
    defined, undefined = [], []
    for _, kind, _, _, offset, length, link, _, _, each in sections:
        if kind != wanted:
            continue
        names = sections[link][4]
        for at in range(offset + each, offset + length, each):  # the first is no symbol
            if wide:
                name, info, other, section = _unpack("<IBBH", data, at)
            else:
                name, info, other, section = _unpack("<I8xBBH", data, at)
            text = _text(data, names + name)
            if info >> 4 == _STB_LOCAL or not text:
                continue
            if section == 0:
                undefined.append(text)
            elif other & 3 == _STV_DEFAULT:
                defined.append(text)
    return Symbols(tuple(defined), tuple(undefined))


def _unpack(form: str, data: bytes, at: int) -> tuple[int, ...]:
    return struct.unpack_from(form, data, at)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("ascii")
