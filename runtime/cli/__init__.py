"""The ``vdla`` command: a module for each command, heavy imports only inside them."""

from __future__ import annotations

__all__ = ["INTERRUPTED", "main"]

INTERRUPTED = 130  # 128 + SIGINT, what a shell reports for a command stopped by the keyboard


def main() -> None:
    """Run the ``vdla`` command with the arguments of the process."""
    try:
        from vdla.runtime.cli.app import app
    except KeyboardInterrupt:  # the imports take long enough to be stopped
        raise SystemExit(INTERRUPTED) from None

    app()
