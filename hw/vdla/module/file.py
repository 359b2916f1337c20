"""Reading and writing ``.vdla`` files: a zip archive of one manifest and numpy arrays."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

import vdla
from vdla.config import Config
from vdla.errors import ModuleError, VdlaError

from .faults import gpu_fault, native_fault
from .manifest import from_manifest, to_manifest
from .parts import Module

__all__ = ["FORMAT_VERSION", "load", "save"]

FORMAT_VERSION = 4

_MANIFEST = "manifest.json"
_ZIP_MAGIC = b"PK\x03\x04"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that zip can hold: same input, same bytes
_AGAIN = "Compile the network again"


def save(module: Module, path: str | Path) -> None:
    """Write a module; a reader sees the old file or the new one, never a part.

    The bytes depend on nothing but the module and the version of vdla.

    Raises
    ------
    ModuleError
        The file cannot be written.
    """
    path = Path(path)
    if not path.name:
        raise ModuleError(f"A compiled file must have a name, not {path}: name a file in it.")
    manifest, arrays = to_manifest(module)
    head = {"format": "vdla", "format_version": FORMAT_VERSION, "vdla_version": vdla.__version__}
    text = json.dumps({**head, **manifest}, sort_keys=True, separators=(",", ":"))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            _add(archive, _MANIFEST, text.encode())
            for index, array in enumerate(arrays):
                _add(archive, _member(index), _npy(array))
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise ModuleError(
            f"A compiled file must go to a folder that can be written: {path}: {error.strerror}."
        ) from None


def load(path: str | Path, config: Config | None = None) -> Module:
    """Read a module.

    Parameters
    ----------
    path : path
    config : Config, optional
        The machine it is meant for; by default the one it was compiled for. What is not in the
        hash (clock, memory latency) is taken from here.

    Raises
    ------
    ModuleError
        The file cannot be read, is not a module, is damaged, or belongs to another format version
        or another configuration.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModuleError(
            f"A compiled file must be readable: {path}: {error.strerror}. Name one that "
            "vdla compile wrote."
        ) from None
    if not data.startswith(_ZIP_MAGIC):
        raise ModuleError(
            f"A compiled file must be one that vdla compile wrote; {path} is no zip archive. "
            "Compile the network first."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            manifest = _manifest(archive, path)
            arrays = [_array(archive.read(_member(i))) for i in range(len(archive.namelist()) - 1)]
        module = from_manifest(manifest, arrays)
        stored = manifest["config_hash"]
        fault = native_fault(module) or gpu_fault(module)
    except ModuleError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        VdlaError,
    ) as error:
        _damaged(path, f"{type(error).__name__}: {error}")
    if f"{module.config.hash:016x}" != stored:
        _damaged(path, f"its configuration has the hash {module.config.hash:016x}, not {stored}")
    if fault is not None:
        _damaged(path, fault)
    if config is None:
        return module
    _require_same(module.config, config, path)
    return module.with_config(config)


def _manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    if _MANIFEST not in archive.namelist():
        raise ModuleError(
            f"A compiled file must hold {_MANIFEST}; {path} is a zip archive without it. "
            "Compile the network first."
        )
    manifest = json.loads(archive.read(_MANIFEST))
    version = manifest.get("format_version")
    if manifest.get("format") != "vdla" or version is None:
        _damaged(path, "the manifest names no format")
    if version != FORMAT_VERSION:
        raise ModuleError(
            f"A compiled file must have format version {FORMAT_VERSION}, not {version}: {path} was "
            f"written by vdla {manifest.get('vdla_version')}, and this is {vdla.__version__}. "
            f"{_AGAIN} with this version."
        )
    return dict(manifest)


def _require_same(ours: Config, wanted: Config, path: Path) -> None:
    if ours.hash == wanted.hash:
        return
    theirs = wanted.to_dict()
    differing = [
        f"{name} is {value} in the file and {theirs[name]} here"
        for name, value in ours.to_dict().items()
        if name != "name" and value != theirs[name]
    ]
    raise ModuleError(
        f"A compiled file runs on its own configuration only: {path} is for {ours.name} (hash "
        f"{ours.hash:016x}), not for {wanted.name} (hash {wanted.hash:016x}); "
        f"{'; '.join(differing)}. {_AGAIN} for {wanted.name}."
    )


def _damaged(path: Path, what: str) -> NoReturn:
    raise ModuleError(
        f"A compiled file must be whole; {path} is cut short or damaged ({what}). {_AGAIN}."
    )


def _member(index: int) -> str:
    return f"arrays/{index:05}.npy"


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)


def _npy(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    np.lib.format.write_array(stream, np.asarray(little, order="C"), (1, 0), allow_pickle=False)
    return stream.getvalue()


def _array(data: bytes) -> NDArray[Any]:
    found: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return found
