"""The ``vdla`` command: a module for each command, heavy imports only inside them."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the ``vdla`` command with the arguments of the process."""
    from vdla.runtime.cli.app import app

    app()
