"""The lock of a board, without a board."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vdla.errors import DeviceError
from vdla.runtime.board import lock


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "_FOLDER", tmp_path)
    return tmp_path


def test_root_takes_a_lock_that_another_user_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under fs.protected_regular: no O_CREAT on a file of another user in /run/lock."""
    (folder / "vdla-0.lock").write_text("1", encoding="ascii")
    opening = os.open

    def protected(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and Path(path).exists():
            raise PermissionError(13, "Permission denied")
        return opening(path, flags, mode)

    monkeypatch.setattr(lock.os, "open", protected)
    lock.BoardLock("0").release()
    lock.BoardLock("1").release()  # and makes one that is not there


def test_whoever_has_just_come_has_no_number_yet(folder: Path) -> None:
    held = lock.BoardLock("0")
    held.path.write_text("", encoding="ascii")
    with pytest.raises(DeviceError, match="another process has it: wait for it to end"):
        lock.BoardLock("0")
    held.release()
