"""What candidates do to the process that they run in, and what is said of it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
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


class Unknown:
    """Cannot be made of bytes where it is sent to."""

    def __reduce__(self) -> object:
        return int, ("no number",)


def local() -> object:
    return lambda: None


def test_what_cannot_be_sent_is_an_error_like_another() -> None:
    with Sandbox() as sandbox:
        with pytest.raises(ValueError, match="no number"):
            sandbox.run(len, Unknown(), seconds=60)
        with pytest.raises(TypeError, match="function cannot be sent"):
            sandbox.run(local, seconds=60)
        assert sandbox.run(len, "abc", seconds=60) == 3


def test_a_process_may_be_killed_from_another_thread() -> None:
    with Sandbox() as sandbox:
        sandbox.run(os.getpid, seconds=60)
        threading.Timer(0.3, sandbox.kill).start()
        with pytest.raises(CrashError, match="ended by SIGKILL"):
            sandbox.run(time.sleep, 60, seconds=60)
        sandbox.kill()


def test_a_process_whose_owner_is_gone_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox() as sandbox:
        monkeypatch.setattr(Sandbox, "close", lambda self: None)
        own = sandbox.run(os.getpid, seconds=60)
        with pytest.raises(TimeLimitError):
            sandbox.run(time.sleep, 60, seconds=-4.9)  # a tenth of a second before it ends itself
        process = sandbox._process
        process.join(timeout=20)
        assert (process.pid, process.exitcode) == (own, -signal.SIGALRM)


def test_one_that_ended_for_being_idle_is_replaced() -> None:
    with Sandbox() as sandbox:
        first = sandbox.run(os.getpid, seconds=60)
        sandbox._pipe.send((_leave, (), 60))  # as one does that has waited for long enough
        sandbox._pipe.recv()
        second = sandbox.run(os.getpid, seconds=60)
        assert second != first
        sandbox.kill()
        sandbox._process.join()
        assert sandbox.run(os.getpid, seconds=60) not in (first, second)


def _leave() -> None:
    os._exit(0)
