"""Operators of the graph as kernels of a GPU: their tensor expressions' schedules."""

from __future__ import annotations

from .template import OPERATORS, OperatorKernel, operator_kernel

__all__ = ["OPERATORS", "OperatorKernel", "operator_kernel"]
