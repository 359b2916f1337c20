"""Bitstreams and their tables: one directory for each board."""

from .manifest import BIT, HWH, MANIFEST, Manifest, find, places, read

__all__ = ["BIT", "HWH", "MANIFEST", "Manifest", "find", "places", "read"]
