"""The digits network reads what it was not shown, on every device."""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla.compiler.zoo import digits_held_out


def share_right(device: str, count: int) -> float:
    images, labels = digits_held_out()
    run = vdla.compile("digits").run(images[:count], device=device)
    (scores,) = run.outputs.values()
    return float((scores.reshape(count, 10).argmax(axis=1) == labels[:count]).mean())


@pytest.mark.parametrize("device", ["functional", "cycle"])
def test_97_of_100_held_out_images(device: str) -> None:
    assert share_right(device, 450) >= 0.97


@pytest.mark.rtl
def test_some_of_them_on_the_gateware() -> None:
    images = digits_held_out().images[:20]
    network = vdla.compile("digits")
    (ours,) = network.run(images, device="rtl").outputs.values()
    (expected,) = network.run(images, device="functional").outputs.values()
    assert np.array_equal(ours, expected)
    assert share_right("rtl", 20) >= 0.97
