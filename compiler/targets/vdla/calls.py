"""Intrinsic calls to GEMM and ALU instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vdla.compiler.ir.stmt import Intrinsic
from vdla.config import Config
from vdla.errors import LoweringError
from vdla.isa import Alu, AluOp, Gemm, ModuleName

from .loops import Iteration, Loop, iterations, sequence
from .ops import Op, Range

__all__ = ["emit_intrinsic", "emit_move"]

Nest = Sequence[tuple[int, list[int], bool]]
"""Extent, steps of output and operands in entries, whether it reduces; outermost first."""

_IMM_MIN, _IMM_MAX = -(1 << 15), (1 << 15) - 1


def emit_intrinsic(
    call: Intrinsic, base: list[int], nest: Nest, starts: bool, config: Config, layer: int
) -> Iterator[Op]:
    """Yield the instructions of one intrinsic over its loops.

    Parameters
    ----------
    call : Intrinsic
        What is executed.
    base : list of int
        First entry of the output and of each operand.
    nest : sequence
        The instruction's loops.
    starts : bool
        Whether the loops outside stand at the first step of the reduction.
    """
    name = call.intrin.name
    if name == "gemm":
        yield from _gemm(base, nest, starts and call.start is not None, config, layer)
    elif name == "rq":
        low, high = call.scalars[-2:]
        if base[3] != base[2] + 1 or base[4] != base[2] + 2:
            raise LoweringError(
                "The parameters of rq must lie in successive ACC entries: bias, multiplier, "
                f"packed; they lie at {base[2:5]}."
            )
        if any(s[3] != s[2] or s[4] != s[2] for _, s, _ in nest):
            raise LoweringError(
                "The parameters of rq must stay in successive ACC entries in every loop: put the "
                "dimension of bias, multiplier and packed right outside the entry's."
            )
        loops = [Loop(extent, (s[0], s[2], 0)) for extent, s, _ in nest]
        fields = {"alu_opcode": AluOp.RQ, "imm": (low & 0xFF) | high << 8}
        for part in sequence((base[0], base[2], 0), loops, config.uop_depth):
            yield _alu(part, fields, layer)
    else:
        yield from _vector(call, base, nest, starts, config, layer)


def _gemm(base: list[int], nest: Nest, starts: bool, config: Config, layer: int) -> Iterator[Op]:
    loops = [Loop(extent, (s[0], s[1], s[2]), reduce) for extent, s, reduce in nest]
    first = (base[0], base[1], base[2])
    limit = config.uop_depth
    if not starts:
        for part in iterations(first, loops, limit):
            yield _matmul(part, layer)
        return
    data = [loop for loop in loops if not loop.reduce]
    for part in iterations(first, data, limit):
        yield _matmul(part, layer, overwrite=1)
    if any(loop.reduce and loop.extent > 1 for loop in loops):
        for part in iterations(first, loops, limit, skip_first=True):
            yield _matmul(part, layer)


def _vector(
    call: Intrinsic, base: list[int], nest: Nest, starts: bool, config: Config, layer: int
) -> Iterator[Op]:
    _, operation, *immediate = call.intrin.name.split(".")
    opcode = AluOp[operation.upper()]
    source = 2 if not immediate else 0
    if starts and call.start is not None:
        data = [Loop(extent, (s[0], s[0], 0)) for extent, s, reduce in nest if not reduce]
        yield from _fill(int(call.start), base[0], data, config, layer)
    loops = [Loop(extent, (s[0], s[source], 0), reduce) for extent, s, reduce in nest]
    fields: dict[str, int] = {"alu_opcode": opcode}
    if immediate:
        value = call.scalars[0]
        if not _IMM_MIN <= value <= _IMM_MAX:
            raise LoweringError(
                f"An immediate must lie in {_IMM_MIN}..{_IMM_MAX}, not {value}: put the constant "
                "into a tensor."
            )
        fields |= {"use_imm": 1, "imm": value}
    for part in iterations((base[0], base[source], 0), loops, config.uop_depth):
        yield _alu(part, fields, layer)


def _fill(value: int, base: int, loops: list[Loop], config: Config, layer: int) -> Iterator[Op]:
    """Set entries to a constant: zero by a reset, then what immediates of 16 bits make of it."""
    low = (value + (1 << 15)) % (1 << 16) - (1 << 15)
    high = ((value - low >> 16) + (1 << 15)) % (1 << 16) - (1 << 15)
    steps = [(AluOp.ADD, high), (AluOp.SHR, -16)] if high else []
    steps += [(AluOp.ADD, low)] if low else []
    for part in iterations((base, base, 0), loops, config.uop_depth):
        yield _matmul(part, layer, reset=1)
        for opcode, imm in steps:
            yield _alu(part, {"alu_opcode": opcode, "use_imm": 1, "imm": imm}, layer)


def emit_move(base: list[int], nest: Nest, config: Config, layer: int) -> Iterator[Op]:
    """Yield what copies ACC entries: clear the target, then add the source."""
    clear = [Loop(extent, (s[0], s[0], 0)) for extent, s, _ in nest]
    yield from _fill(0, base[0], clear, config, layer)
    loops = [Loop(extent, (s[0], s[1], 0)) for extent, s, _ in nest]
    for part in iterations((base[0], base[1], 0), loops, config.uop_depth):
        yield _alu(part, {"alu_opcode": AluOp.ADD}, layer)


def _loop_fields(part: Iteration, names: Iterable[str]) -> dict[str, int]:
    fields = {"iter_out": part.outer.extent, "iter_in": part.inner.extent}
    for k, name in enumerate(names):
        fields[f"{name}_factor_out"] = part.outer.steps[k]
        fields[f"{name}_factor_in"] = part.inner.steps[k]
    return fields


def _span(space: str, bounds: tuple[int, int]) -> Range:
    return Range(space, bounds[0], bounds[1] - bounds[0] + 1)


def _matmul(part: Iteration, layer: int, *, overwrite: int = 0, reset: int = 0) -> Op:
    fields = _loop_fields(part, ("dst", "src", "wgt"))
    dst, src, wgt = part.spans()
    reads = () if reset else (_span("inp", src), _span("wgt", wgt))
    fields |= {"overwrite": overwrite} if overwrite else {}
    fields |= {"reset": reset} if reset else {}
    return Op(ModuleName.COMPUTE, Gemm, fields, layer, reads, (_span("out", dst),), part.kernel)


def _alu(part: Iteration, extra: dict[str, int], layer: int) -> Op:
    fields = _loop_fields(part, ("dst", "src")) | extra
    dst = part.spans()[0]
    return Op(ModuleName.COMPUTE, Alu, fields, layer, (), (_span("out", dst),), part.kernel)
