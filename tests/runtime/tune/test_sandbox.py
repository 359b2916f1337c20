"""What candidates do to the process that they run in, and what is said of it."""

from __future__ import annotations

import ctypes
import os
import sys
import time

import pytest

from vdla.runtime.tune.sandbox import CrashError, Sandbox, TimeLimitError


def test_results_errors_and_ends_are_told_apart() -> None:
    with Sandbox() as sandbox:
        assert sandbox.run(divmod, 7, 2, seconds=60) == (3, 1)
        first = sandbox.run(os.getpid, seconds=60)
        with pytest.raises(ZeroDivisionError):
            sandbox.run(divmod, 7, 0, seconds=60)
        assert sandbox.run(os.getpid, seconds=60) == first != os.getpid()
        with pytest.raises(CrashError, match="ended by SIGSEGV"):
            sandbox.run(ctypes.string_at, 0, seconds=60)
        with pytest.raises(CrashError, match="ended with exit code 3"):
            sandbox.run(sys.exit, 3, seconds=60)
        with pytest.raises(TimeLimitError, match=r"took over 0\.2 s"):
            sandbox.run(time.sleep, 60, seconds=0.2)
        assert sandbox.run(os.getpid, seconds=60) not in (first, os.getpid())
