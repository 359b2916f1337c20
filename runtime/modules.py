"""Compiled networks kept by content: what was compiled once starts at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vdla
from vdla.config import Config
from vdla.errors import ModuleError
from vdla.module import Module, load, save
from vdla.runtime.cache import cache_folder

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph

__all__ = ["fingerprint", "kept"]

_KEPT_BYTES = 2 << 30
"""What all kept networks may take together; those unused for longest go first."""

_SOURCES = ("compiler", "config", "isa", "module", "sim")
"""Packages that decide what a network is compiled to, beside the single modules of the base."""


def fingerprint(model: str | Path | Graph, config: Config, options: Mapping[str, Any]) -> str:
    """Return what a compiled network depends on, as 32 hexadecimal digits.

    The model by its bytes, the configuration by all its fields (a clock or a latency may choose
    another schedule), the options, and the compiler by its own sources.

    Parameters
    ----------
    model : str, Path or Graph
        A file, the name of a built-in network, or a graph.
    config : Config
    options : mapping
        Of the compilation; their ``repr`` must tell them apart.
    """
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        for part in parts:
            raw = part if isinstance(part, bytes) else repr(part).encode()
            digest.update(len(raw).to_bytes(8, "little") + raw)

    add(vdla.__version__, sorted(asdict(config).items()), sorted(options.items()))
    for source in _sources():
        add(source.name, source.read_bytes())
    if not isinstance(model, (str, Path)):
        for node in model.nodes:
            add(node.name, node.op, node.inputs, node.outputs, sorted(node.attrs.items()))
            add(node.source)
        for tensor in model.tensors.values():
            add(tensor.name, tensor.shape, str(tensor.dtype), tensor.source)
            if tensor.quant is not None:
                scale = tensor.quant.scale
                add(str(scale.dtype), scale.tobytes(), tensor.quant.zero_point.tobytes())
                add(tensor.quant.axis)
            if tensor.data is not None:
                add(tensor.data.tobytes())
        add(model.name, model.inputs, model.outputs)
    elif Path(model).is_file():
        add(Path(model).name, Path(model).read_bytes())
        if str(model).endswith(".onnx"):
            from vdla.compiler.onnx import external_files

            for file in external_files(model):
                add(file.name, file.read_bytes())
    else:
        add(str(model))
    return digest.hexdigest()[:32]


def kept(key: str, config: Config, make: Callable[[], Module]) -> Module:
    """Return the module of a key; one that is not kept yet is made, and then kept.

    A kept file that cannot be read is made again. Where nothing can be written, nothing is kept.

    Parameters
    ----------
    key : str
        From `fingerprint`.
    config : Config
        What it is compiled for.
    make : callable
        Compiles it.
    """
    folder = cache_folder("modules")
    file = folder / f"{key}.vdla"
    with suppress(ModuleError, OSError):
        module = load(file, config)
        os.utime(file)
        return module
    module = make()
    with suppress(ModuleError, OSError):
        folder.mkdir(parents=True, exist_ok=True)
        save(module, file)
        _prune(folder, file)
    return module


def _sources() -> Iterator[Path]:
    root = Path(vdla.__file__).parent
    yield from sorted(root.glob("*.py"))
    for package in _SOURCES:
        # An editable install keeps the packages in several places.
        module = __import__(f"vdla.{package}", fromlist=["__path__"])
        for folder in module.__path__:
            files = (file for file in Path(folder).rglob("*") if file.is_file())
            yield from sorted(file for file in files if file.suffix not in (".pyc", ".nbc", ".nbi"))


def _prune(folder: Path, newest: Path) -> None:
    files = sorted(folder.glob("*.vdla"), key=lambda f: f.stat().st_mtime, reverse=True)
    total = 0
    for file in files:
        total += file.stat().st_size
        if total > _KEPT_BYTES and file != newest:
            file.unlink(missing_ok=True)
