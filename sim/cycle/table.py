"""What the timing engine reads: each instruction as one row of integers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import ProgramError
from vdla.isa import (
    TOKEN_FLAGS,
    AluOp,
    MemoryType,
    ModuleName,
    Opcode,
    TokenQueue,
    decode_columns,
    decode_one,
    element_bytes,
    sram_depth,
    uop_layout,
)
from vdla.program import Program
from vdla.timing import (
    SLOW_OPERATIONS,
    TIMING,
    Timing,
    compute_latency,
    fetch_bursts,
    read_slots,
)

from .bursts import split_fetch, split_transfers

__all__ = [
    "COLUMNS",
    "MODULES",
    "QUEUES",
    "Kind",
    "Table",
    "make_table",
    "parameters",
]

MODULES = (ModuleName.LOAD, ModuleName.COMPUTE, ModuleName.STORE)
QUEUES = tuple(TokenQueue)


class Kind(IntEnum):
    """How an instruction moves through its module."""

    LOAD = 0
    ISSUE = 1
    STORE = 2
    FINISH = 3


COLUMNS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "module",  # index into `MODULES`
            "kind",
            "pop_prev",  # index into `QUEUES`, or -1
            "pop_next",
            "push_prev",
            "push_next",
            "address",  # byte of the first row
            "rows",
            "row_bytes",
            "stride_bytes",
            "element_bytes",
            "pad_head",  # elements of padding before the first row of data
            "pad_row",  # between two rows
            "pad_tail",  # after the last
            "sram",
            "is_uop",
            "uop_at",  # of its words among those that LOADs of UOP write
            "uop_size",
            "first_burst",
            "end_burst",
            "pad_value",
            "count",  # micro-ops or vectors
            "uop_begin",
            "uop_end",
            "iter_out",
            "iter_in",
            "dst_out",
            "dst_in",
            "src_out",
            "src_in",
            "wgt_out",
            "wgt_in",
            "reads_dst",
            "reads_src",
            "is_rq",
            "is_slow",
            # what results need beyond that
            "opcode",
            "memory_type",
            "x_size",
            "reset",
            "overwrite",
            "alu_opcode",
            "use_imm",
            "imm",
        )
    ]
)
"""A row of the table that the engine reads."""

_COPIED = ("opcode", "memory_type", "x_size", "reset", "overwrite", "alu_opcode", "use_imm", "imm")


@dataclass(frozen=True)
class Table:
    """A program up to its FINISH, decoded.

    Attributes
    ----------
    columns : ndarray of `COLUMNS`, shape (n,)
        What the timing engine reads.
    fields : dict of str to ndarray of int64, shape (n,)
        What `vdla.isa.decode_columns` returned.
    bursts : ndarray of `BURST`
        Of the instructions in their order, then, from `fetch_base` on, of fetch.
    """

    columns: NDArray[np.void]
    fields: dict[str, NDArray[np.int64]]
    bursts: NDArray[np.void]
    fetch_base: int


def parameters(config: Config, timing: Timing = TIMING) -> np.void:
    """Collect what the engine needs of a configuration and a timing table in one record."""
    dst, src, _ = uop_layout(config)
    earned, cost = config.dram_pace
    values = {
        "fetch_start": timing.fetch_start_cycles,
        "queue": timing.queue_cycles,
        "setup": timing.setup_cycles,
        "request": timing.request_cycles,
        "grant": timing.grant_cycles,
        "drain": timing.drain_cycles,
        "store_data": timing.store_data_cycles,
        "response": timing.response_cycles,
        "inflight": timing.inflight,
        "sequencer": timing.sequencer_cycles,
        "slow": timing.slow_cycles,
        "rq_reads": timing.rq_parameter_reads,
        "tensor_slots": timing.tensor_slots,
        "latency": compute_latency(config, timing),
        "fetch_slots": fetch_bursts(config, timing),
        "read_slots": read_slots(config),
        "outstanding": config.axi_outstanding,
        "dram_latency": config.dram_latency_cycles,
        "earned": earned,
        "cost": cost,
        "axi_bytes": config.axi_bytes,
        "burst_beats": config.axi_burst_beats,
        "command_depth": config.command_queue_depth,
        "token_depth": config.token_queue_depth,
        "src_lsb": src.lsb,
        "dst_mask": (1 << dst.width) - 1,
        "src_mask": (1 << src.width) - 1,
    }
    record: np.void = np.array([tuple(values.values())], [(name, np.int64) for name in values])[0]
    return record


def make_table(program: Program, base: int) -> Table:
    """Decode a program up to its first FINISH.

    Raises
    ------
    EncodingError
        An instruction is illegal; the message names its index.
    ProgramError
        There is no FINISH, or a transfer leaves its scratchpad.
    """
    config = program.config
    words = program.instructions[: program.finish + 1]
    fields = decode_columns(words, config)
    opcode = fields["opcode"]
    module = _modules(opcode, fields["memory_type"])
    _check_legal(words, fields, module, config)
    kind = np.select(
        [opcode == Opcode.LOAD, opcode == Opcode.STORE, opcode == Opcode.FINISH],
        [int(Kind.LOAD), int(Kind.STORE), int(Kind.FINISH)],
        int(Kind.ISSUE),
    )
    values = {
        "module": module,
        "kind": kind,
        **_token_columns(fields, module),
        **_memory_columns(fields, config, base),
        **_issue_columns(fields, config),
        **{name: fields[name] for name in _COPIED},
    }
    columns = np.zeros(len(words), COLUMNS)
    for name, value in values.items():
        columns[name] = value
    bursts, count = split_transfers(columns, config.axi_bytes, config.axi_burst_beats)
    columns["end_burst"] = np.cumsum(count)
    columns["first_burst"] = columns["end_burst"] - count
    fetch = split_fetch(len(words), config.axi_bytes, config.axi_burst_beats)
    return Table(columns, fields, np.concatenate([bursts, fetch]), len(bursts))


def _modules(opcode: NDArray[np.int64], memory_type: NDArray[np.int64]) -> NDArray[np.int64]:
    to_load = (memory_type == MemoryType.INP) | (memory_type == MemoryType.WGT)
    module = np.where((opcode == Opcode.LOAD) & to_load, 0, 1)
    return np.where(opcode == Opcode.STORE, 2, module)


def _check_legal(
    words: NDArray[np.uint64],
    fields: dict[str, NDArray[np.int64]],
    module: NDArray[np.int64],
    config: Config,
) -> None:
    opcode, memory_type = fields["opcode"], fields["memory_type"]
    is_load, is_store = opcode == Opcode.LOAD, opcode == Opcode.STORE
    prev = fields["pop_prev"] | fields["push_prev"]
    behind = fields["pop_next"] | fields["push_next"]
    suspect = (
        (opcode > max(Opcode))
        | (is_load & ((memory_type > max(MemoryType)) | (memory_type == MemoryType.OUT)))
        | (is_store & (memory_type != MemoryType.OUT))
        | ((module == 0) & (prev != 0))
        | ((module == 2) & (behind != 0))
        | ((opcode == Opcode.ALU) & (fields["alu_opcode"] > max(AluOp)))
    )
    for index in np.flatnonzero(suspect)[:1].tolist():
        low, high = words[index].tolist()
        try:
            decode_one(low | high << 64, config)
        except Exception as error:
            raise type(error)(f"Instruction {index}: {error}") from None


def _token_columns(
    fields: dict[str, NDArray[np.int64]], module: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    columns = {}
    for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
        tables = (TOKEN_FLAGS[name] for name in MODULES)
        queue = np.array([QUEUES.index(t[flag]) if flag in t else -1 for t in tables])
        columns[flag] = np.where(fields[flag] != 0, queue[module], -1)
    return columns


def _memory_columns(
    fields: dict[str, NDArray[np.int64]], config: Config, base: int
) -> dict[str, NDArray[np.int64]]:
    kinds = tuple(MemoryType)
    kind, x_size = fields["memory_type"], fields["x_size"]
    opcode = fields["opcode"]
    # No columns: nothing moves. No rows: padding alone. Other opcodes hold 0 in both.
    used = ((opcode == Opcode.LOAD) | (opcode == Opcode.STORE)) & (x_size > 0)
    element = np.array([element_bytes(k, config) for k in kinds])[kind] * used
    rows = fields["y_size"] * used
    width = (fields["x_pad_0"] + x_size + fields["x_pad_1"]) * used
    above, below = fields["y_pad_0"] * width, fields["y_pad_1"] * width
    some = rows > 0
    _check_room(fields, used, above + below + rows * width, config)
    return {
        "address": base + fields["dram_base"] * element,
        "rows": rows,
        "row_bytes": x_size * element,
        "stride_bytes": fields["x_stride"] * element,
        "element_bytes": element,
        "pad_head": np.where(some, above + fields["x_pad_0"], above + below),
        "pad_row": (fields["x_pad_1"] + fields["x_pad_0"]) * used,
        "pad_tail": np.where(some, fields["x_pad_1"] + below, 0),
        "sram": fields["sram_base"],
        "is_uop": (opcode == Opcode.LOAD) & (kind == MemoryType.UOP),
        "pad_value": fields["pad_value"],
    }


def _check_room(
    fields: dict[str, NDArray[np.int64]],
    used: NDArray[np.bool_],
    entries: NDArray[np.int64],
    config: Config,
) -> None:
    kinds = tuple(MemoryType)
    depth = np.array([sram_depth(k, config) for k in kinds])[fields["memory_type"]]
    end = fields["sram_base"] + entries
    for index in np.flatnonzero(used & (entries > 0) & (end > depth))[:1].tolist():
        raise ProgramError(
            f"Instruction {index}: a transfer must stay within the {int(depth[index])} entries of "
            f"{kinds[int(fields['memory_type'][index])].name}, not reach {int(end[index])}."
        )


def _issue_columns(
    fields: dict[str, NDArray[np.int64]], config: Config
) -> dict[str, NDArray[np.int64]]:
    opcode, alu = fields["opcode"], fields["alu_opcode"]
    is_gemm, is_alu = opcode == Opcode.GEMM, opcode == Opcode.ALU
    span = np.maximum(fields["uop_end"] - fields["uop_begin"], 0)
    count = fields["iter_out"] * fields["iter_in"] * span
    beyond = (count > 0) & (fields["uop_end"] > config.uop_depth)
    for index in np.flatnonzero(beyond)[:1].tolist():
        raise ProgramError(
            f"Instruction {index}: uop_end must be at most the {config.uop_depth} entries of UOP, "
            f"not {int(fields['uop_end'][index])}."
        )
    is_rq = is_alu & (alu == AluOp.RQ)
    writes_only = (fields["reset"] | fields["overwrite"]) != 0
    return {
        "count": count,
        "uop_begin": fields["uop_begin"],
        "uop_end": fields["uop_end"],
        "iter_out": fields["iter_out"],
        "iter_in": fields["iter_in"],
        "dst_out": fields["dst_factor_out"],
        "dst_in": fields["dst_factor_in"],
        "src_out": fields["src_factor_out"],
        "src_in": fields["src_factor_in"],
        "wgt_out": fields["wgt_factor_out"],
        "wgt_in": fields["wgt_factor_in"],
        "reads_dst": (is_gemm & ~writes_only) | is_alu,
        "reads_src": is_alu & ~is_rq & (fields["use_imm"] == 0),
        "is_rq": is_rq,
        "is_slow": is_alu & np.isin(alu, SLOW_OPERATIONS),
    }
