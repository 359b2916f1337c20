"""The ways of building an overlay, by name."""

from __future__ import annotations

from collections.abc import Mapping

from .job import Flow
from .openxc7 import OpenXc7
from .vivado import Vivado

__all__ = ["FLOWS"]

FLOWS: Mapping[str, Flow] = {"vivado": Vivado(), "openxc7": OpenXc7()}
