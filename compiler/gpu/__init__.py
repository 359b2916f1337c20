"""Networks, and operators alone, as kernels of a GPU: their tensor expressions' schedules."""

from __future__ import annotations

from .network import GpuNetwork, compile_network
from .template import OPERATORS, OperatorKernel, operator_kernel

__all__ = ["OPERATORS", "GpuNetwork", "OperatorKernel", "compile_network", "operator_kernel"]
