"""Boards over SSH: what they need is copied to them, and networks run on them from here."""

from __future__ import annotations

__all__: list[str] = []
