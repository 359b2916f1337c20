"""The ``vdla`` command."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from vdla.runtime.cli.app import run

    run()
