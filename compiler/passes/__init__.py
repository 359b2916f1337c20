"""Passes over graphs: each takes a graph and returns one that computes the same with less."""

from __future__ import annotations

from .groups import Group, fusion_groups
from .table import PASSES, run_passes

__all__ = ["PASSES", "Group", "fusion_groups", "run_passes"]
