"""Arrays that end, or begin, where memory does: reading or writing one byte beyond is a crash.

Generated code is run over such arrays in a child process, so that a crash is a failed test that
says what it was (see `in_child`).
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["ENDS", "guarded", "guarded_copy", "in_child"]

ENDS = ("end", "begin")
"""Which end of an array abuts the page that must not be touched."""

_PAGE_BYTES = mmap.PAGESIZE
_PROT_NONE = 0


def guarded(shape: Sequence[int], dtype: str, *, at: str = "end", align: int = 1) -> Any:
    """Return an array of zeros with pages before and after it that nothing may touch.

    Parameters
    ----------
    shape : sequence of int
    dtype : str
    at : str
        ``"end"``: the byte behind the last one cannot be touched, or with an alignment the bytes
        behind the fewest that it takes. ``"begin"``: the byte before the first one cannot be.
    align : int
        The array begins at a multiple of so many bytes, of the dtype's own at least.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    inner = -(-max(size, 1) // _PAGE_BYTES) * _PAGE_BYTES
    memory = mmap.mmap(-1, inner + 2 * _PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(memory, np.uint8)
    start = whole.ctypes.data
    for page in (start, start + _PAGE_BYTES + inner):
        _forbid(page)
    skip = _PAGE_BYTES
    if at == "end":
        align = max(align, kind.alignment)
        skip += (inner - size) // align * align
    return whole[skip : skip + size].view(kind).reshape(shape)


def guarded_copy(array: Any, *, at: str = "end", align: int = 1) -> Any:
    """Return a copy of an array, as `guarded` has it."""
    copy = guarded(array.shape, str(array.dtype), at=at, align=align)
    copy[...] = array
    return copy


def _forbid(page: int) -> None:
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if mprotect(page, _PAGE_BYTES, _PROT_NONE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


def in_child(work: Callable[[], None]) -> None:
    """Run a check in a child process and fail with what ended it.

    Parameters
    ----------
    work : callable
        Raises where the check fails; a copy of this process runs it, so nothing that it changes
        is seen here.

    Raises
    ------
    AssertionError
        It raised, or a signal ended it: SIGSEGV and SIGBUS are accesses out of bounds, SIGILL an
        instruction that this processor lacks.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            faulthandler.disable()  # the parent says what happened
            work()
            status = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-60_000:])
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise AssertionError(f"the child was ended by {name}{_MEANINGS.get(name, '')}")
    assert os.WEXITSTATUS(status) == 0, said


_OUT_OF_BOUNDS = ": it touched memory out of bounds of its arrays"
_MEANINGS = {
    "SIGSEGV": _OUT_OF_BOUNDS,
    "SIGBUS": _OUT_OF_BOUNDS,
    "SIGILL": ": it ran an instruction that this processor lacks",
}
