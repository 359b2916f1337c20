"""The end of a measurement that runs on the board: ``python -m vdla.runtime.tune.onboard``.

It takes the device's name and a file with what was built, and writes one JSON object: ``cycles``,
or ``error`` and the ``kind`` of a candidate that fails.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from vdla.errors import ProgramError, VdlaError

from .devices import OnDevice

__all__ = ["main"]


def main() -> None:
    """Measure what the arguments name."""
    device, file = sys.argv[1:]
    built = pickle.loads(Path(file).read_bytes())
    try:
        found: dict[str, Any] = {"cycles": OnDevice(device, built.config).run(built, 0.0)}
    except VdlaError as error:
        kind = "program" if isinstance(error, ProgramError) else "device"
        found = {"error": str(error), "kind": kind}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
