"""What ALU operations mean."""

from __future__ import annotations

from tests.pinned.base import LEAST, MOST, Pinned, pinned
from vdla.isa import AluOp


@pinned
def alu_immediate_takes_acc_dst() -> Pinned:
    b = Pinned((10, 10, 10, 10), (50, 50, 50, 50), uops=[(0, 1, 0)])
    b.alu(AluOp.ADD, 1)
    b.show((11, 11, 11, 11))
    return b


@pinned
def alu_src_indexes_acc() -> Pinned:
    b = Pinned((10, 10, 10, 10), (50, 50, 50, 50), uops=[(0, 1, 0)])
    b.alu(AluOp.ADD)
    b.show((60, 60, 60, 60))
    return b


@pinned
def alu_minimum_and_maximum_are_signed() -> Pinned:
    b = Pinned((5, -5, 0, LEAST), (-1, -1, -1, -1), uops=[(0, 1, 0)])
    b.alu(AluOp.MIN)
    b.show((-1, -5, -1, -128))
    b.alu(AluOp.MAX, -3)
    b.show((-1, -3, -1, -3))
    return b


@pinned
def alu_add_wraps() -> Pinned:
    b = Pinned((MOST, LEAST, MOST, 0), (1, -1, 0, LEAST), uops=[(0, 1, 0)])
    b.alu(AluOp.ADD)
    b.show((-128, 127, 127, -128))
    return b


@pinned
def shift_right_rounds_down() -> Pinned:
    b = Pinned((-5, 5, -1, 1))
    b.alu(AluOp.SHR, 1)
    b.show((-3, 2, -1, 0))
    return b


@pinned
def shift_right_past_16_stays_right() -> Pinned:
    b = Pinned((3 << 20, -(3 << 20), 1, -1))
    b.alu(AluOp.SHR, 20)
    b.show((3, -3, 0, -1))
    return b


@pinned
def shift_right_past_the_width_leaves_the_sign() -> Pinned:
    b = Pinned((MOST, LEAST, 1, -1))
    b.alu(AluOp.SHR, 40)
    b.show((0, -1, 0, -1))
    return b


@pinned
def shift_left_by_a_negative_amount() -> Pinned:
    b = Pinned((3, -3, 1 << 30, 1))
    b.alu(AluOp.SHR, -2)
    b.show((12, -12, 0, 4))
    b.alu(AluOp.SHR, -31)  # even numbers leave no bit, as 2**32 divides them
    b.show((0, 0, 0, 0))
    return b


@pinned
def shift_left_to_the_sign_bit() -> Pinned:
    b = Pinned((1, 2, 3, -1))
    b.alu(AluOp.SHR, -31)
    b.show((-128, 0, -128, -128))
    return b


@pinned
def shift_left_past_the_width_leaves_nothing() -> Pinned:
    b = Pinned((1, -1, MOST, LEAST))
    b.alu(AluOp.SHR, -32)
    b.show((0, 0, 0, 0))
    return b


@pinned
def shift_by_a_tensor_takes_all_32_bits() -> Pinned:
    b = Pinned((64, 64, 64, -64), (3, -1, 100, 1000000), uops=[(0, 1, 0)])
    b.alu(AluOp.SHR)
    b.show((8, 127, 0, -1))
    return b


@pinned
def shift_by_the_extremes_of_a_tensor() -> Pinned:
    b = Pinned((64, 64, 5, -64), (LEAST, MOST, 0, 32 + 3), uops=[(0, 1, 0)])
    b.alu(AluOp.SHR)
    b.show((0, 0, 5, -1))
    return b


@pinned
def multiplication_wraps() -> Pinned:
    """46341 squared is 2^31 + 4633, so it wraps below zero; 65536 squared is 2^32."""
    b = Pinned((46341, 65536, -3, 3), (46341, 65536, 7, -4), uops=[(0, 1, 0)])
    b.alu(AluOp.MUL)
    b.show((-128, 0, -21, -12))
    return b


@pinned
def operations_on_one_entry_follow_each_other() -> Pinned:
    """acc[k + 1] += acc[k] for k = 0, 1, 2: each sees the sum before it."""
    b = Pinned((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), uops=[(1, 0, 0)])
    b.alu(AluOp.ADD, iter_in=3, dst_factor_in=1, src_factor_in=1)
    b.show((2, 4, 6, 8), (3, 6, 9, 12), (4, 8, 12, 16), entry=1)
    return b


@pinned
def operations_over_one_entry_repeat() -> Pinned:
    b = Pinned((1, 2, 3, 4))
    b.alu(AluOp.SHR, -1, iter_out=2, iter_in=2)
    b.show((16, 32, 48, 64))
    return b


@pinned
def alu_reset_bit_is_ignored() -> Pinned:
    b = Pinned((1, 2, 3, 4))
    b.alu(AluOp.ADD, 1, reset=True)
    b.show((2, 3, 4, 5))
    return b
