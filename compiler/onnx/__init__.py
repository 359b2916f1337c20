"""ONNX models: read as graphs, and graphs written as models."""

from __future__ import annotations

from .importer import import_onnx

__all__ = ["import_onnx"]
