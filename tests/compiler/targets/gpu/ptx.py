"""Instructions of PTX in CUDA C, as calls of functions that do the same on a processor."""

from __future__ import annotations

import re

__all__ = ["called"]

STATEMENT = re.compile(r"asm(?: volatile)?\((?P<text>(?:\s*\"[^\"]*\")+)(?P<operands>[^;]*)\);")
OPERAND = re.compile(r"\"[^\"]+\"\((?P<value>(?:[^()]|\([^()]*\))*)\)")


def called(source: str) -> str:
    """Return CUDA C with each asm statement as a call, its operands in the instruction's order.

    ``asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));`` becomes
    ``ptx::cvt_f32_f16(value, bits);``: what an instruction reads and writes is what stands in its
    text, not in the order of the lists.
    """
    return STATEMENT.sub(_call, source)


def _call(statement: re.Match[str]) -> str:
    text = "".join(re.findall(r'"([^"]*)"', statement["text"]))
    values = OPERAND.findall(statement["operands"])
    instruction, operands = text.strip().rstrip(";").split(maxsplit=1)
    assert ";" not in operands, "one instruction a statement"
    name = re.sub(r"[.:]+", "_", instruction)
    order = [int(number) for number in re.findall(r"%(\d+)", operands)]
    assert set(order) == set(range(len(values))), statement[0]
    return f"ptx::{name}({', '.join(values[number] for number in order)});"
