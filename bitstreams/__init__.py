"""Bitstreams and their tables: one directory for each board."""
