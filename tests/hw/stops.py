"""Who must stop, and why, by the name of each illegal program."""

from __future__ import annotations

from tests.illegal import BAD_ENCODINGS, OUT_OF_RANGE, Illegal
from vdla.registers import ErrorCause, ErrorModule

__all__ = ["ILLEGAL", "STOPS"]

C, M = ErrorCause, ErrorModule

ILLEGAL: dict[str, Illegal] = BAD_ENCODINGS | OUT_OF_RANGE

STOPS: dict[str, tuple[ErrorModule, ErrorCause]] = {
    **dict.fromkeys(("opcode_5", "opcode_6", "opcode_7"), (M.FETCH, C.ILLEGAL_OPCODE)),
    **{
        f"{opcode}_memory_type_{code}": (M.FETCH, C.ILLEGAL_MEMORY_TYPE)
        for opcode in ("load", "store")
        for code in (6, 7)
    },
    **{f"alu_opcode_{code}": (M.FETCH, C.ILLEGAL_ALU_OPCODE) for code in (6, 7)},
    **{
        f"store_of_{kind}": (M.FETCH, C.STORE_NOT_OUT)
        for kind in ("uop", "wgt", "inp", "acc", "acc_8bit")
    },
    "load_of_out": (M.FETCH, C.LOAD_OUT),
    **dict.fromkeys(
        ("load_pop_prev", "load_push_prev", "store_pop_next", "store_push_next"),
        (M.FETCH, C.ILLEGAL_FLAG),
    ),
    **{f"load_{kind}": (M.LOAD, C.INDEX_PAST_BUFFER) for kind in ("inp", "wgt")},
    **{f"load_{kind}": (M.COMPUTE, C.INDEX_PAST_BUFFER) for kind in ("uop", "acc", "acc_8bit")},
    "store": (M.STORE, C.INDEX_PAST_BUFFER),
    "load_memory": (M.LOAD, C.AXI_READ),
    "store_memory": (M.STORE, C.AXI_WRITE),
    **dict.fromkeys(
        ("gemm_uop", "gemm_dst", "gemm_src", "gemm_wgt", "alu_uop", "alu_dst", "alu_src"),
        (M.COMPUTE, C.INDEX_PAST_BUFFER),
    ),
    "rq_parameters": (M.COMPUTE, C.RQ_PARAMETERS_PAST_ACC),
}
"""Who must stop, and why, by the name of the illegal program."""
