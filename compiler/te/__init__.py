"""The tensor-expression language and its schedules.

An operator is written once as an expression over indices; a schedule then says how its loops
run, where its buffers lie and which hardware intrinsics replace the innermost loops.
"""

from .expr import Expr, Var, all_of, call, ceildiv, maximum, minimum, pick, power, select
from .intrin import TensorIntrin
from .schedule import Schedule, create_schedule
from .stage import Stage
from .tensor import (
    IterVar,
    Tensor,
    compute,
    max_over,
    min_over,
    placeholder,
    reduce_axis,
    requantize,
    sum_over,
)

__all__ = [
    "Expr",
    "IterVar",
    "Schedule",
    "Stage",
    "Tensor",
    "TensorIntrin",
    "Var",
    "all_of",
    "call",
    "ceildiv",
    "compute",
    "create_schedule",
    "max_over",
    "maximum",
    "min_over",
    "minimum",
    "pick",
    "placeholder",
    "power",
    "reduce_axis",
    "requantize",
    "select",
    "sum_over",
]
