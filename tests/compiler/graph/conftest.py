from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

CASES = Path(__file__).parents[1] / "reference" / "litert_cases.npz"


@pytest.fixture(scope="session")
def network() -> bytes:
    """A TFLite file: conv2d, depthwise_conv2d, add, max_pool2d, mean, dense, softmax."""
    model: bytes = np.load(CASES)["network.model"].tobytes()
    return model
