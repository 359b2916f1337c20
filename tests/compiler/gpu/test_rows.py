"""What is a product of matrices, and how large that is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compiler.gpu.cases import SAME, Case, convolution, dense, matmul
from vdla.compiler.gpu.part import part_of
from vdla.compiler.gpu.rows import Product, product_of
from vdla.compiler.te import Tensor, compute, max_over, placeholder, reduce_axis, sum_over


def _product(case: Case) -> Product | None:
    return product_of(part_of(case.graph, case.graph.nodes).output)


@pytest.mark.parametrize(
    ("case", "left", "right", "lanes"),
    [
        (dense(7, 13, 5, dtype="float16"), (16, 16), (16, 16), (1, 1)),
        (dense(7, 16, 24, dtype="float16"), (16, 16), (16, 32), (8, 8)),
        # Both have a batch of 3; rows of one matrix are read with every other.
        (matmul((3, 5, 40), (3, 40, 17), "float16"), (3, 16, 64), (3, 64, 32), (8, 1)),
        (matmul((3, 5, 40), (40, 24), "float16"), (16, 64), (64, 32), (8, 8)),
        # 2 x 8 x 8 pixels, and 3 x 3 x 16 terms.
        (
            convolution((2, 8, 8, 16), 33, (3, 3), padding=SAME, dtype="float16"),
            (128, 160),
            (160, 48),
            (8, 1),
        ),
    ],
)
def test_a_product_has_rows_columns_and_terms(
    case: Case, left: tuple[int, ...], right: tuple[int, ...], lanes: tuple[int, int]
) -> None:
    product = _product(case)
    assert product is not None
    assert (product.left.shape, product.right.shape) == (left, right)
    assert product.sums.shape == (*left[:-1], right[-1])
    assert (product.left.dtype, product.sums.dtype) == ("float16", "float32")
    assert product.output.shape == case.exact.shape
    assert product.rows * product.columns * (3 if len(left) == 3 else 1) == case.exact.size
    assert product.lanes == lanes


A, B = placeholder((4, 8), "float16", "a"), placeholder((8, 6), "float16", "b")
K = reduce_axis(8, "k")


def _wide(name: str = "sums") -> Tensor:
    return compute(
        (4, 6),
        lambda i, j: sum_over(A[i, K].astype("float32") * B[K, j].astype("float32"), K),
        name,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: compute((4, 6), lambda i, j: A[i, j].astype("float32")),
        lambda: compute((4,), lambda i: sum_over(A[i, K].astype("float32"), K)),
        lambda: compute(
            (4, 6),
            lambda i, j: max_over(A[i, K].astype("float32") * B[K, j].astype("float32"), K),
        ),
        lambda: compute(
            (6, 4),
            lambda j, i: sum_over(A[i, K].astype("float32") * B[K, j].astype("float32"), K),
        ),
        lambda: compute((6, 4), lambda j, i: _wide()[i, j]),
        lambda: compute((4, 6), lambda i, j: _wide("one")[i, j] + _wide("two")[i, j]),
    ],
    ids=["no sum", "no product", "no addition", "columns first", "transposed", "two sums"],
)
def test_what_is_no_product_of_matrices(make: Callable[[], Tensor]) -> None:
    assert product_of(make()) is None


def test_a_product_of_float32_is_none_of_halves() -> None:
    assert _product(dense(64, 32, 96)) is None
    # Grouped: a group's channels of the output read its own of the input, so that the last axis
    # belongs to rows as much as to columns.
    grouped = convolution((1, 6, 6, 8), 12, (3, 3), padding=SAME, groups=4, dtype="float16")
    assert _product(grouped) is None
