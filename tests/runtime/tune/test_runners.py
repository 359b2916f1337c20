"""Who attempts candidates for a device."""

from __future__ import annotations

import pytest

from vdla.config import TINY
from vdla.errors import InputError
from vdla.runtime.tune.attempts import Attempts
from vdla.runtime.tune.runners import open_runner


def test_a_board_takes_one_candidate_at_a_time() -> None:
    with open_runner("pynq", TINY, seconds=1.0) as runner:
        assert isinstance(runner, Attempts)
        assert runner.workers == 1
    for device in ("pynq", "pynq@xilinx@10.0.0.2"):
        with pytest.raises(InputError, match=f"at a time, and {device} is one: leave --workers 2"):
            open_runner(device, TINY, seconds=1.0, workers=2)


def test_what_is_given_is_checked() -> None:
    with open_runner("cycle", TINY, seconds=1.0, workers=3) as runner:
        assert isinstance(runner, Attempts)
        assert runner.workers == 3
    with pytest.raises(InputError, match="workers or a scheduler, not both 2 and tcp"):
        open_runner("cycle", TINY, seconds=1.0, workers=2, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="pynq or pynq@HOST, not 'abacus'"):
        open_runner("abacus", TINY, seconds=1.0)
