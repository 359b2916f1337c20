"""Bitstreams and their tables: one directory for each board."""

from .manifest import BIT, HWH, MANIFEST, Manifest, find, places, read, sha256

__all__ = ["BIT", "HWH", "MANIFEST", "Manifest", "find", "places", "read", "sha256"]
