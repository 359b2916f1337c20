"""Gathering reports of synthesized configurations into the file that the model is fitted to.

``python -m vdla.runtime.area.collect FOLDER FILE`` reads every ``.json`` of a folder, each with
``fields``, of a configuration, and ``report``, of ``vdla synth -o``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vdla.config import Config
from vdla.runtime.synthesis.parts import part_of

__all__ = ["gathered"]


def gathered(folder: Path) -> str:
    """Return the file's text: a line a configuration, of its fields those that are no default."""
    default = Config().to_dict()
    entries = []
    for file in sorted(folder.glob("*.json")):
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        config, report = Config.from_dict(found["fields"]), found["report"]
        fields = {k: v for k, v in config.to_dict().items() if v != default[k] and k != "name"}
        units = {unit: [used["lut"], used["ff"]] for unit, used in report["modules"].items()}
        entries.append(
            {
                "fields": fields,
                "family": part_of(config).family,
                "tool": report["tool"],
                "total": report["total"],
                "modules": units,
            }
        )
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    return f'{{"samples": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(gathered(Path(sys.argv[1])), encoding="utf-8")
