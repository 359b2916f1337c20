"""What is a product of matrices, and how large that is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compiler.gpu import byte_cases
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


@pytest.mark.parametrize(
    ("case", "left", "right", "lanes", "turned"),
    [
        # Steps of 64 terms, or fewer where there are fewer; a matrix of columns is read along rows.
        (byte_cases.matmul((7, 13), (13, 5)), (16, 16), (16, 16), (1, 1), True),
        (byte_cases.matmul((65, 100), (100, 24)), (80, 128), (32, 128), (4, 1), True),
        (byte_cases.matmul((65, 96), (96, 24)), (80, 128), (32, 128), (16, 1), True),
        (byte_cases.plain((19, 40), (33, 40)), (32, 48), (48, 48), (8, 8), False),
    ],
)
def test_bytes_have_their_terms_last(
    case: byte_cases.ByteCase,
    left: tuple[int, ...],
    right: tuple[int, ...],
    lanes: tuple[int, int],
    turned: bool,
) -> None:
    product = product_of(part_of(case.graph, case.graph.nodes).output)
    assert product is not None
    assert (product.left.shape, product.right.shape) == (left, right)
    assert (product.lanes, product.turned) == (lanes, turned)
    assert (product.left.dtype, product.sums.dtype) == ("int8", "int32")
    assert product.depth == min(64, left[1])


def _factor(dtype: str, less: int = 0, kind: str = "int32") -> Tensor:
    """Return a sum of products of uint8, or of uint8 less a number by int8."""
    a, b, k = placeholder((8, 32), "uint8", "a"), placeholder((32, 8), dtype, "b"), reduce_axis(32)
    return compute(
        (8, 8),
        lambda i, j: (
            sum_over((a[i, k].astype(kind) - less) * b[k, j].astype(kind), k)
            if less
            else sum_over(a[i, k].astype(kind) * b[k, j].astype(kind), k)
        ),
    )


def test_bytes_are_multiplied_where_they_are_alike() -> None:
    plain, centred = product_of(_factor("uint8")), product_of(_factor("int8", 128))
    assert plain is not None
    assert centred is not None
    assert [t.dtype for t in plain.held] == ["uint8", "uint8"]
    assert centred.left.dtype == "uint8"
    assert [t.dtype for t in centred.held] == ["int8", "int8"]
    for other in (_factor("int8"), _factor("uint8", 128), _factor("int8", 127)):
        assert product_of(other) is None
    assert product_of(_factor("uint8", kind="int64")) is None


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
