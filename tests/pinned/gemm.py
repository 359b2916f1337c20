"""What GEMM means."""

from __future__ import annotations

from tests.pinned.base import Pinned, pinned, unit


@pinned
def weights_are_rows_of_the_output() -> Pinned:
    """Lane o of the result is the input row times row o of the weights."""
    b = Pinned((0, 0, 0, 0))
    b.operands([(1, 2, 3, 4)], [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 1), (-1, -1, -1, -1)])
    b.gemm()
    b.show((1, 2, 7, -10))
    return b


@pinned
def dependent_accumulations_add_up() -> Pinned:
    b = Pinned((1, 1, 1, 1))
    b.operands([(2, 0, 0, 0)], unit(1, 2, 3, 4))
    b.gemm(iter_out=2, iter_in=3)  # six times the product
    b.show((13, 25, 37, 49))
    return b


@pinned
def loops_add_factors_to_every_index() -> Pinned:
    """dst 0, 1 (outer) by src 0, 1 (inner), weights 0 and 1 by both."""
    b = Pinned((0, 0, 0, 0), (0, 0, 0, 0))
    b.operands([(1, 0, 0, 0), (10, 0, 0, 0)], unit(1, 2, 3, 4), unit(5, 6, 7, 8), unit(1, 1, 1, 1))
    b.gemm(
        iter_out=2, iter_in=2, dst_factor_out=1, src_factor_in=1, wgt_factor_out=1, wgt_factor_in=1
    )
    # dst 0: 1 * w0 + 10 * w1; dst 1: 1 * w1 + 10 * w2
    b.show((51, 62, 73, 84), (15, 16, 17, 18))
    return b


@pinned
def overwrite_forgets_what_was_there() -> Pinned:
    b = Pinned((100, 100, 100, 100), (5, 5, 5, 5))
    b.operands([(2, 0, 0, 0)], unit(1, 2, 3, 4))
    b.gemm(overwrite=True)
    b.show((2, 4, 6, 8))
    return b


@pinned
def overwrite_twice_keeps_the_last() -> Pinned:
    b = Pinned((100, 100, 100, 100), uops=[(0, 0, 0), (0, 1, 1)])
    b.operands([(2, 0, 0, 0), (3, 0, 0, 0)], unit(1, 2, 3, 4), unit(1, 1, 1, 1))
    b.gemm(end=2, overwrite=True)
    b.show((3, 3, 3, 3))
    return b


@pinned
def reset_takes_precedence_over_overwrite() -> Pinned:
    b = Pinned((7, 7, 7, 7))
    b.gemm(reset=True, overwrite=True)
    b.show((0, 0, 0, 0))
    return b
