"""Default tiles, by shape."""

from __future__ import annotations

import pytest

from vdla.compiler.gpu.fetch import step_of


@pytest.mark.parametrize(
    ("depth", "most", "step"),
    [
        (1, 16, 1),
        (3, 8, 3),
        (5, 8, 5),
        (16, 16, 16),
        (7, 8, 7),
        (17, 16, 9),
        (20, 8, 8),
        (30, 16, 16),
        (33, 16, 12),
        (512, 8, 8),
    ],
)
def test_steps_are_even_and_of_whole_vectors(depth: int, most: int, step: int) -> None:
    assert step_of(depth, most) == step
    # No more steps than need be.
    assert -(-depth // step) == -(-depth // most)
