"""Results kept one by one, each whole or not there at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from vdla.errors import InputError

__all__ = ["Store"]


class Store:
    """A folder with a file a point, named by what its result depends on.

    Several processes may write to it at once: whoever comes last puts the same result there.

    Parameters
    ----------
    folder : path
        Made where it is not there yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result of a key; None where there is none, or none that can be read."""
        try:
            kept = json.loads(self._file(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(kept, dict) or kept.get("key") != key:
            return None
        result = kept.get("result")
        return result if isinstance(result, dict) else None

    def put(self, key: str, point: dict[str, Any], result: dict[str, Any]) -> None:
        """Keep a result, beside what it is the result of.

        Raises
        ------
        InputError
            The folder cannot be written.
        """
        file = self._file(key)
        text = json.dumps({"key": key, "point": point, "result": result}, indent=1) + "\n"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as part:
                part.write(text)
            Path(name).replace(file)
        except OSError as error:
            raise InputError(
                f"A sweep's results must go to a folder that can be written: {file.parent}: "
                f"{error.strerror}; name another one."
            ) from None

    def _file(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
