"""Passes over graphs: each takes a graph and returns one that computes the same with less."""

from __future__ import annotations

from .table import PASSES, run_passes

__all__ = ["PASSES", "run_passes"]
