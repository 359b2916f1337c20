"""ONNX models: read as graphs, and graphs written as models."""

from __future__ import annotations

from .file import external_files
from .importer import import_onnx

__all__ = ["external_files", "import_onnx"]
