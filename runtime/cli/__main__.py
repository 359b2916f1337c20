"""The ``vdla`` command of a Python that is named by its path: ``PYTHON -m vdla.runtime.cli``."""

from __future__ import annotations

from vdla.runtime.cli import main

if __name__ == "__main__":
    main()
