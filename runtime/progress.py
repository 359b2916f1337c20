"""Telling a caller how far work has come."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "counting"]

Progress = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what is being worked on."""


def counting(progress: Progress | None, total: int) -> Callable[[str], None]:
    """Return what is to be called with what each of so many steps does, before it."""
    done = iter(range(total))

    def tell(doing: str) -> None:
        if progress is not None:
            progress(next(done), total, doing)

    return tell
