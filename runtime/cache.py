"""Where things are kept that take long to make and can be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(kind: str) -> Path:
    """Return the folder for one kind of thing; it need not exist yet.

    It lies in the platform's cache directory, or where the environment variable ``VDLA_CACHE``
    says.
    """
    chosen = os.environ.get("VDLA_CACHE")
    if chosen:
        return Path(chosen) / kind
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "vdla" / kind
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vdla" / kind
