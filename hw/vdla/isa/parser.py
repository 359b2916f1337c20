"""Reading one instruction's line, by the same tables that write it."""

from __future__ import annotations

from dataclasses import MISSING, fields
from difflib import get_close_matches
from itertools import chain, combinations
from typing import Any

from vdla.errors import AssemblyError

from .fields import AluOp, MemoryType
from .instructions import Alu, Finish, Gemm, Instruction, Load, Store
from .listing import OPERANDS, Operand
from .tokens import FLAGS

__all__ = ["integer", "parse_instruction"]

_LOADED = (MemoryType.UOP, MemoryType.WGT, MemoryType.INP, MemoryType.ACC)


def _mnemonics() -> dict[str, tuple[type[Instruction], dict[str, Any]]]:
    found: dict[str, tuple[type[Instruction], dict[str, Any]]] = {
        "store": (Store, {}),
        "finish": (Finish, {}),
        "load.acc8": (Load, {"memory_type": MemoryType.ACC_8BIT}),
    }
    for kind in _LOADED:
        found[f"load.{kind.name.lower()}"] = (Load, {"memory_type": kind})
    modes = ("reset", "overwrite")
    for chosen in chain.from_iterable(combinations(modes, n) for n in range(3)):
        found[".".join(["gemm", *chosen])] = (Gemm, dict.fromkeys(chosen, True))
    for operation in AluOp:
        name = operation.name.lower()
        found[name] = (Alu, {"alu_opcode": operation})
        found[f"{name}.reset"] = (Alu, {"alu_opcode": operation, "reset": True})
    return found


_MNEMONICS = _mnemonics()


def parse_instruction(text: str) -> Instruction:
    """Return the instruction of a line without its comment.

    Raises
    ------
    AssemblyError
        Says what must stand there and what does.
    """
    code, _, tokens = text.partition(";")
    mnemonic, *operands = code.split()
    try:
        kind, fixed = _MNEMONICS[mnemonic]
    except KeyError:
        near = get_close_matches(mnemonic, _MNEMONICS, n=1)
        hint = f": did you mean {near[0]}?" if near else f": {', '.join(sorted(_MNEMONICS))}."
        raise AssemblyError(f"{mnemonic} is no instruction{hint}") from None
    values = dict(fixed)
    for operand in operands:
        _add(values, operand, kind)
    for flag in tokens.split():
        if flag not in FLAGS:
            raise AssemblyError(f"a flag must be one of {', '.join(FLAGS)}, not {flag}.")
        values[flag] = True
    _require_all(values, kind, mnemonic)
    return kind(**values)


def integer(text: str, what: str) -> int:
    """Return a decimal or hexadecimal integer."""
    try:
        return int(text, 0)
    except ValueError:
        raise AssemblyError(f"{what} must be an integer, not {text!r}.") from None


def _add(values: dict[str, Any], text: str, kind: type[Instruction]) -> None:
    requantizes = values.get("alu_opcode") is AluOp.RQ
    if requantizes and text == "use_imm":
        values["use_imm"] = True
        return
    key, equals, right = text.partition("=")
    known = {operand.key: operand for operand in OPERANDS[kind]}
    if requantizes:
        known = {name: known[name] for name in known if name not in ("imm", "unused")}
        known["clip"] = Operand("clip", ("low", "high"))
    if key not in known or not equals:
        names = ", ".join(f"{name}=" for name in known) or "none"
        raise AssemblyError(f"an operand must be one of {names}, not {text}.")
    operand = known[key]
    parts = right.split(operand.separator)
    if len(parts) != len(operand.attributes):
        raise AssemblyError(
            f"{key} must have {len(operand.attributes)} values separated by "
            f"{operand.separator!r}, not {right}."
        )
    numbers = [integer(part, key) for part in parts]
    new = dict(zip(operand.attributes, numbers, strict=True))
    if key == "clip":
        new = {"imm": _clip(*numbers)}
    if not new.keys().isdisjoint(values):
        raise AssemblyError(f"{key} must stand once.")
    values.update(new)
    if key == "imm":
        values["use_imm"] = True


def _clip(low: int, high: int) -> int:
    """Pack a clip range into the immediate, as `vdla.isa.clip_range` reads it."""
    for value in (low, high):
        if not -128 <= value <= 127:
            raise AssemblyError(f"clip must lie in -128..127, not {value}.")
    return high << 8 | low & 0xFF


def _require_all(values: dict[str, Any], kind: type[Instruction], mnemonic: str) -> None:
    required = {f.name for f in fields(kind) if f.default is MISSING}
    if kind is Store:
        required -= {"memory_type"}
    if values.get("alu_opcode") is AluOp.RQ:
        required |= {"imm"}
    for missing in sorted(required - values.keys()):
        key = next((o.key for o in OPERANDS[kind] if missing in o.attributes), missing)
        key = "clip" if missing == "imm" else key
        raise AssemblyError(f"{mnemonic} must have {key}=.")
