"""A process that candidates run in: it may crash or hang, and is then replaced."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from vdla.processor import ONE_THREAD

__all__ = ["CrashError", "Sandbox", "TimeLimitError"]


class CrashError(Exception):
    """The process ended; the text says how."""


class TimeLimitError(Exception):
    """The process took longer than it may, and was killed."""


class Sandbox:
    """Runs functions one at a time in a process of its own.

    Starting one takes seconds, so it is kept from call to call.
    """

    def __init__(self) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(self, function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
        """Return what a function returns, or raise what it raises.

        Parameters
        ----------
        function : callable
            Importable: a module's own.
        arguments : object
            Picklable, as the result.
        seconds : float
            After which the process is killed.

        Raises
        ------
        CrashError
            The process ended.
        TimeLimitError
            It was killed.
        """
        try:
            if not self._sent(function, arguments, seconds):
                self._sent(function, arguments, seconds)
            if not self._pipe.poll(seconds):
                self.close()
                raise TimeLimitError(f"took over {seconds:g} s")
            value, error = self._pipe.recv()
        except (EOFError, OSError):
            raise CrashError(self._ended()) from None
        if error is not None:
            raise error
        return value

    def _sent(self, function: Callable[..., Any], arguments: Any, seconds: float) -> bool:
        """Hand a function over; tell whether it was taken, and not left by one that just ended."""
        if self._process is not None and not self._process.is_alive():
            self.close()  # killed, or idle for long
        if self._process is None:
            self._start()
        try:
            self._pipe.send((function, arguments, seconds))
            if not self._pipe.poll(_START_SECONDS):  # imports are not the candidate's time
                self.close()
                raise TimeLimitError(f"took over {_START_SECONDS:g} s to start")
            self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            if self._process.exitcode != 0:
                raise
            return False
        return True

    def kill(self) -> None:
        """Kill the process, from any thread: what another one runs there ends as a crash."""
        process = self._process
        if process is not None:
            with suppress(ValueError):  # it has just been forgotten
                process.kill()

    def close(self) -> None:
        """Kill the process, and forget it."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def _start(self) -> None:
        self._pipe, there = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def _ended(self) -> str:
        """Wait for the end of the process, forget it, and say how it ended."""
        self._process.join()
        code = self._process.exitcode
        self._pipe.close()
        self._process = self._pipe = None
        if code < 0:
            with suppress(ValueError):
                return f"ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


_START_SECONDS = 120.0
"""For a process to start and to import what it is to run, on a board's card too."""
_LOOK_SECONDS = 5.0
"""How often a process looks whether its parent is there."""
_IDLE_SECONDS = 300.0
"""After which it ends itself, and frees what it holds: a board, for one."""
_SPARE_SECONDS = 5.0
"""After which a process ends itself: whoever was to kill it is gone."""


def _serve(pipe: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has started it decides
    os.environ.update(ONE_THREAD)  # before numpy is imported: several run side by side
    parent, idle = os.getppid(), 0.0
    with suppress(EOFError, OSError):
        while idle < _IDLE_SECONDS:
            if not pipe.poll(_LOOK_SECONDS):
                if os.getppid() != parent:
                    return
                idle += _LOOK_SECONDS
                continue
            idle = 0.0
            answer = _answer(pipe)
            try:
                pipe.send(answer)
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                pipe.send((None, TypeError(f"{type(answer[0]).__name__} cannot be sent: {error}")))


def _answer(pipe: Any) -> tuple[Any, Exception | None]:
    """Run what is asked for, and return its result, or its error."""
    try:
        function, arguments, seconds = pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception as error:  # of what it imports
        pipe.send(None)
        return None, error
    pipe.send(None)
    signal.setitimer(signal.ITIMER_REAL, seconds + _SPARE_SECONDS)
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
