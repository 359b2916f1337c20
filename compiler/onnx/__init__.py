"""ONNX models: read as graphs, and graphs written as models."""

from __future__ import annotations

from .export import export_onnx
from .file import external_files
from .importer import import_onnx

__all__ = ["export_onnx", "external_files", "import_onnx"]
