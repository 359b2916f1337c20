"""Reports of what was synthesized on this machine, found again by configuration and gateware."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.config import Config
from vdla.runtime.cache import cache_folder

if TYPE_CHECKING:
    from vdla.runtime.synthesis import Report

__all__ = ["keep_report", "kept_report"]


def keep_report(report: Report) -> None:
    """Keep a report for `kept_report`; where nothing can be written, nothing is kept."""
    file = _file(report.config, report.part.family)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(report.to_dict()), encoding="utf-8")
        part.replace(file)


def kept_report(config: Config, family: str) -> dict[str, tuple[int, int]] | None:
    """Return LUTs and flip-flops by unit where this machine synthesized this very gateware."""
    try:
        modules = json.loads(_file(config, family).read_text(encoding="utf-8"))["modules"]
        return {unit: (int(used["lut"]), int(used["ff"])) for unit, used in modules.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file(config: Config, family: str) -> Path:
    return cache_folder("area") / f"{config.hash:016x}-{family}-{_gateware()}.json"


@lru_cache(maxsize=1)
def _gateware() -> str:
    """Return a hash of the gateware's sources; importing them takes Amaranth."""
    import vdla

    digest = hashlib.sha256()
    for source in sorted((Path(vdla.__file__).parent / "gateware").glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
