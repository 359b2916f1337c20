"""What RQ means: rows are accumulators, biases, multipliers, packed parameters."""

from __future__ import annotations

from tests.pinned.base import LEAST, MOST, Pinned, Row, pinned
from vdla.isa import AluOp


def _rq(
    values: Row, bias: int, multiplier: int, shift: int, zero: int, single: bool, imm: int
) -> Pinned:
    pack = shift | (zero & 255) << 8 | single << 16
    b = Pinned(values, (bias,) * 4, (multiplier,) * 4, (pack,) * 4, uops=[(0, 1, 0)])
    b.alu(AluOp.RQ, imm)
    return b


def _range(low: int, high: int) -> int:
    return (low & 255) | high << 8


ALL = _range(-128, 127)
UNCLIPPED = _range(1, 0)


@pinned
def rq_double_rounds_twice() -> Pinned:
    """A quarter: 5 -> 2.5 -> 3 -> 1.5 -> 2; -5 -> -2.5 -> -2 -> -1; 6 -> 3 -> 2; -6 -> -3 -> -2."""
    b = _rq((5, -5, 6, -6), 0, 1 << 30, 1, 0, False, ALL)
    b.show((2, -1, 2, -2))
    return b


@pinned
def rq_single_rounds_once() -> Pinned:
    """A quarter: 1.25 -> 1; -1.25 -> -1; 1.5 -> 2; -1.5 -> -1, half upwards."""
    b = _rq((5, -5, 6, -6), 0, 1 << 30, 1, 0, True, ALL)
    b.show((1, -1, 2, -1))
    return b


@pinned
def rq_adds_bias_then_zero_point_then_clips() -> Pinned:
    """(x + 10) / 2 - 5, clipped to -3..4."""
    b = _rq((0, 8, -6, -40), 10, 1 << 30, 0, -5, False, _range(-3, 4))
    b.show((0, 4, -3, -3))
    return b


@pinned
def rq_with_a_reversed_range_clips_nothing() -> Pinned:
    b = _rq((2000, -2000, 2, 0), 0, 1 << 30, 0, 0, False, UNCLIPPED)
    b.show((127, -128, 1, 0))  # OUT saturates all the same
    b.alu(AluOp.SHR, 4)
    b.show((62, -63, 0, 0))
    return b


@pinned
def rq_bias_wraps() -> Pinned:
    """2^31 - 1 + 1 is -2^31, half of it far below -128."""
    b = _rq((MOST, MOST - 1, 1, 0), 1, 1 << 30, 0, 0, True, ALL)
    b.show((-128, 127, 1, 1))
    return b


@pinned
def rq_double_saturates_the_product() -> Pinned:
    """-2^31 times -1 would be 2^31: it is 2^31 - 1, and 127 after 24 bits."""
    b = _rq((LEAST, 0, 0, 0), 0, LEAST, 0, 0, False, UNCLIPPED)
    b.alu(AluOp.SHR, 24)
    b.show((127, 0, 0, 0))
    return b


@pinned
def rq_clips_before_it_wraps() -> Pinned:
    """Single rounding of -2^31 times -1 gives 2^31: clipped to 127 though it needs 33 bits."""
    b = _rq((LEAST, -4, 4, 0), 0, LEAST, 0, 0, True, ALL)
    b.show((127, 4, -4, 0))
    return b


@pinned
def rq_unclipped_keeps_the_low_32_bits() -> Pinned:
    b = _rq((LEAST, -4, 4, 0), 0, LEAST, 0, 0, True, UNCLIPPED)
    b.show((-128, 4, -4, 0))
    return b


@pinned
def rq_zero_point_may_wrap_where_nothing_is_clipped() -> Pinned:
    b = _rq((LEAST, 0, 0, 0), 0, LEAST, 0, 1, False, UNCLIPPED)  # 2^31 - 1, plus 1
    b.show((-128, 1, 1, 1))
    return b


@pinned
def rq_shift_of_31_single() -> Pinned:
    """x (2^31 - 1) / 2^62: about 1/4, 1/2 less a little, -1/2 plus a little, -1/4."""
    b = _rq((1 << 30, MOST, LEAST, -(1 << 30)), 0, MOST, 31, 0, True, ALL)
    b.show((0, 1, -1, 0))
    return b


@pinned
def rq_shift_of_31_double() -> Pinned:
    """2^30 (1 - 2^-31) rounds up to 2^30, half of 2^31: away from zero. -2^30 rounds up as well."""
    b = _rq((1 << 30, -(1 << 30), LEAST, 0), 0, MOST, 31, 0, False, ALL)
    b.show((1, 0, -1, 0))
    return b


@pinned
def rq_ignores_bits_that_have_no_name() -> Pinned:
    b = Pinned(
        (8, 8, 8, 8), (0,) * 4, (1 << 30,) * 4, (-(1 << 17) | 0b11100001,) * 4, uops=[(0, 1, 0)]
    )
    b.alu(AluOp.RQ, ALL)
    b.show((2, 2, 2, 2))
    return b


@pinned
def rq_ignores_use_imm() -> Pinned:
    b = _rq((8, 8, 8, 8), 0, 1 << 30, 1, 0, False, ALL)
    b.alu(AluOp.RQ, _range(-128, 1), use_imm=True)  # 2 -> 0.5 -> 1
    b.show((1, 1, 1, 1))
    return b


@pinned
def rq_parameters_are_per_lane_and_follow_src() -> Pinned:
    """Entries 0, 1 by the parameters at 2, entry 8 by those at 5: 3 away from the first."""
    half = 1 << 30
    b = Pinned(
        (8, 8, 8, 8),
        (16, 16, 16, 16),
        (0, 1, 2, 4),
        (half,) * 4,
        (0, 1, 2, 3),
        (0, 0, 0, 0),
        (half, half, half, half),
        (1 << 8,) * 4,
        (40, 40, 40, 40),
        uops=[(0, 2, 0), (1, 2, 0), (8, 5, 0)],
    )
    b.alu(AluOp.RQ, ALL, end=3)
    # (8 + 0) / 2; 9 / 4 -> 4.5 -> 5 -> 2.5 -> 3; 10 / 8 -> 5 -> 1.25; 12 / 16 -> 6 -> 0.75
    b.show((4, 3, 1, 1), (8, 5, 2, 1))
    b.show((21, 21, 21, 21), entry=8)
    return b


_HALF = 1 << 30
_PLUS_3 = 3 << 8  # packed: no shift, two roundings, a zero point of 3


@pinned
def rq_holds_parameters_that_it_overwrites() -> Pinned:
    """Entries 0 to 5 in both loops, (x + 40) / 2 + 3 all along though 1, 2, 3 are written.

    8 -> 27; bias 40 -> 43; 2^30 and 768, the others, to the clip; 28 -> 37; 6 -> 26.
    """
    b = Pinned(
        *((8,) * 4, (40,) * 4, (_HALF,) * 4, (_PLUS_3,) * 4, (28,) * 4, (6,) * 4),
        uops=[(0, 1, 0)],
    )
    b.alu(AluOp.RQ, ALL, iter_out=2, iter_in=3, dst_factor_out=3, dst_factor_in=1)
    b.show((27,) * 4, (43,) * 4, (127,) * 4, (127,) * 4, (37,) * 4, (26,) * 4)
    return b


@pinned
def rq_reads_parameters_anew_in_the_next_instruction() -> Pinned:
    """The bias goes from 40 to (40 + 40) / 2 + 3 = 43; then 27 -> 70 / 2 + 3."""
    b = Pinned(
        *((8,) * 4, (40,) * 4, (_HALF,) * 4, (_PLUS_3,) * 4),
        uops=[(0, 1, 0), (1, 1, 0)],
    )
    b.alu(AluOp.RQ, ALL, end=2)
    b.alu(AluOp.RQ, ALL)
    b.show((38,) * 4, (43,) * 4)
    return b


def _two_sets(*uops: tuple[int, int, int]) -> Pinned:
    """Return RQ with (x + 40) / 2 + 3 from entry 1 and x / 2 + 1 from entry 5."""
    b = Pinned(
        *((8,) * 4, (40,) * 4, (_HALF,) * 4, (_PLUS_3,) * 4, (28,) * 4),
        *((0,) * 4, (_HALF,) * 4, (1 << 8,) * 4, (10,) * 4, (7,) * 4),
        uops=uops,
    )
    b.alu(AluOp.RQ, ALL, end=len(uops))
    return b


@pinned
def rq_reads_parameters_anew_when_src_comes_back() -> Pinned:
    """8 -> 27; bias 40 -> 43; 28 -> 34 + 3, held; 10 -> 5 + 1; 7 -> (7 + 43) / 2 + 3."""
    b = _two_sets((0, 1, 0), (1, 1, 0), (4, 1, 0), (8, 5, 0), (9, 1, 0))
    b.show((27,) * 4, (43,) * 4)
    b.show((37,) * 4, entry=4)
    b.show((6,) * 4, (28,) * 4, entry=8)
    return b


@pinned
def rq_reads_what_it_wrote_where_src_changes() -> Pinned:
    """The second bias by the first set: 0 -> 23. 10 -> 16.5 -> 17 + 1. Itself: 23 + 1, unread.

    7 -> 15 + 1 by the bias held, 23.
    """
    b = _two_sets((5, 1, 0), (8, 5, 0), (5, 5, 0), (9, 5, 0))
    b.show((24,) * 4, entry=5)
    b.show((18,) * 4, (16,) * 4, entry=8)
    return b
