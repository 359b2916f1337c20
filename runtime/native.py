"""Compiled libraries, loaded and called with numpy alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import tempfile
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.abi import LIBRARY_SYMBOL, POOL_VERSION, Argument, LibraryInfo
from vdla.arguments import whole_number
from vdla.errors import DeviceError, InputError, ModuleError
from vdla.processor import ELF_MACHINES, architecture, features, permit_amx
from vdla.runtime.cache import cache_folder
from vdla.runtime.workers import Workers, shared_workers

__all__ = ["Call", "Function", "Library", "aligned"]

Array = NDArray[Any]

MOST_THREADS = 1024


class Library:
    """A shared object of machine code.

    Parameters
    ----------
    source : bytes or path
        The shared object, or a file that holds it.
    threads : int
        On how many threads its parallel loops run, the caller's included. Libraries with the same
        number share them.
    pin : bool
        Bind every thread but the caller's to a CPU of its own.

    Attributes
    ----------
    info : LibraryInfo
        What it says of itself.

    Raises
    ------
    ModuleError
        It is no library of vdla's, or damaged.
    DeviceError
        It is for another architecture, or for features that this processor lacks.
    """

    def __init__(
        self, source: bytes | str | os.PathLike[str], *, threads: int = 1, pin: bool = False
    ) -> None:
        threads = whole_number("Threads", threads, "give 1 to run on the calling thread alone")
        if threads > MOST_THREADS:
            raise InputError(
                f"Threads must be at most {MOST_THREADS}, not {threads}: give one a core."
            )
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        _check_architecture(data)
        self._handle: _Handle | None = _Handle(data)
        self.info = _read_info(self._handle.functions)
        _check_features(self.info)
        self._workers: Workers | None = None
        if threads > 1:
            functions = self._handle.functions
            self._workers = shared_workers(self._handle, functions, threads, pin)
            pool = ctypes.c_void_p.in_dll(functions, "vdla_pool")
            pool.value = self._workers.address

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def threads(self) -> int:
        """On how many threads its parallel loops run."""
        return self._workers.threads if self._workers is not None else 1

    def function(self, name: str) -> Function:
        """Return one of its functions.

        Raises
        ------
        InputError
            It has none of that name.
        """
        if name not in self.info.functions:
            raise InputError(
                f"A function of this library must be one of {', '.join(self.info.functions)}, "
                f"not {name!r}: name one of these."
            )
        return Function(self, name)

    def close(self) -> None:
        """Unload it, once no thread runs a function of it any more; its threads stop."""
        self._handle = self._workers = None

    def _run(self, name: str, pointers: Any) -> None:
        handle, workers = self._handle, self._workers  # held until the function has returned
        if handle is None:
            raise InputError(
                f"A library must be open for {name} to be called, and this one is closed: "
                "load it again."
            )
        if workers is None:
            handle.run(name, pointers)
            return
        with workers.lock:
            workers.start()
            handle.run(name, pointers)


class Function:
    """A function of a library; call it with its arrays.

    Parameters
    ----------
    library : Library
    name : str

    Attributes
    ----------
    arguments : tuple of Argument
        What it takes, in order.
    """

    def __init__(self, library: Library, name: str) -> None:
        self._library, self.name = library, name
        self.arguments = library.info.functions[name]

    def __call__(self, *arrays: Array) -> None:
        """Run it over arrays, of which it writes some in place.

        Raises
        ------
        InputError
            An array is not what the function takes; or the library is closed.
        """
        self.bind(*arrays)()

    def bind(self, *arrays: Array) -> Call:
        """Check arrays once and return what runs the function over them as often as called."""
        if len(arrays) != len(self.arguments):
            raise InputError(
                f"{self.name} must be given {len(self.arguments)} arrays, not {len(arrays)}: "
                "give every input and output, in order."
            )
        for index, (array, argument) in enumerate(zip(arrays, self.arguments, strict=True)):
            _check_array(f"Argument {index} of {self.name}", array, argument)
        _check_overlap(self.name, arrays, self.arguments)
        return Call(self._library, self.name, arrays)


class Call:
    """A function with its arrays, which it keeps; call it to run it.

    Parameters
    ----------
    library : Library
    name : str
    arrays : tuple of ndarray
    """

    def __init__(self, library: Library, name: str, arrays: tuple[Array, ...]) -> None:
        self._library, self._name, self._arrays = library, name, arrays
        addresses = [array.ctypes.data for array in arrays]
        self._pointers = (ctypes.c_void_p * len(arrays))(*addresses)

    def __call__(self) -> None:
        """Run it once.

        Raises
        ------
        InputError
            The library is closed.
        """
        self._library._run(self._name, self._pointers)


def aligned(shape: tuple[int, ...], dtype: str, align: int = 64) -> Array:
    """Return an array of zeros at an address that is a multiple of so many bytes."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    room = np.zeros(size + align, np.uint8)
    skip = -room.ctypes.data % align
    return room[skip : skip + size].view(dtype).reshape(shape)


class _Handle:
    """A loaded shared object; unloaded when nobody refers to it any more."""

    def __init__(self, data: bytes) -> None:
        self.functions = _load(data)
        self._addresses: dict[str, ctypes.c_void_p] = {}
        # Not at exit: by then threads may still be in it.
        finalizer = weakref.finalize(self, _unload, self.functions._handle)
        finalizer.atexit = False

    def run(self, name: str, pointers: Any) -> None:
        """Call a function, while the threads of its pool stay awake."""
        address = self._addresses.get(name)
        if address is None:
            address = ctypes.cast(self.functions[name], ctypes.c_void_p)
            self._addresses[name] = address
        self.functions.vdla_run(address, pointers)


def _unload(handle: int) -> None:
    import _ctypes

    _ctypes.dlclose(handle)


def _load(data: bytes) -> ctypes.CDLL:
    """Load a shared object from memory, or from a file that is removed at once.

    The dynamic linker takes two files of one name for the same, so each has a name of its own.
    """
    folder = cache_folder("native")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _load_from(data, folder)
    except OSError:  # no such folder can be made, or nothing in it may be run
        pass
    try:
        return _load_from(data, None)
    except OSError as error:
        raise ModuleError(
            f"A library must be a shared object that this system loads, and it says: {error}: "
            "compile it again; or where files may not be run, let VDLA_CACHE or TMPDIR name a "
            "folder where they may."
        ) from None


def _load_from(data: bytes, folder: Path | None) -> ctypes.CDLL:
    descriptor, name = tempfile.mkstemp(suffix=".so", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return ctypes.CDLL(name)
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()


def _check_architecture(data: bytes) -> None:
    names = {number: name for name, number in ELF_MACHINES.items()}
    if len(data) < 20 or data[:4] != b"\x7fELF":
        raise ModuleError(
            f"A library must be an ELF shared object, not {data[:4]!r}…: compile it again."
        )
    made_for = names.get(int.from_bytes(data[18:20], "little"), "another architecture")
    if made_for != architecture():
        raise DeviceError(
            f"A library must be for this machine's architecture, {architecture()}, "
            f"not {made_for}: compile it for a target of {architecture()}."
        )
    missing = _bytes_wanted(data) - len(data)
    if missing > 0:  # the dynamic linker would crash
        raise ModuleError(
            f"A library must be whole, and of this one {missing} bytes are missing: compile it "
            "again."
        )


def _bytes_wanted(data: bytes) -> int:
    """Return how long a file is whose segments begin and end where its headers say."""
    wide = data[4] == 2
    if len(data) < (64 if wide else 52):
        return 64
    (table,) = struct.unpack_from("<Q" if wide else "<I", data, 32 if wide else 28)
    size, count = struct.unpack_from("<HH", data, 54 if wide else 42)
    end: int = table + size * count
    if end > len(data):
        return end
    for at in range(table, end, size):
        if wide:
            offset, length = struct.unpack_from("<8xQ16xQ", data, at)
        else:
            offset, length = struct.unpack_from("<4xI8xI", data, at)
        end = max(end, offset + length)
    return end


def _read_info(functions: ctypes.CDLL) -> LibraryInfo:
    try:
        first = ctypes.c_char.in_dll(functions, LIBRARY_SYMBOL)
    except ValueError:
        raise ModuleError(
            f"A library must say what it holds, in {LIBRARY_SYMBOL}, and this one has none: "
            "give one that vdla compiled."
        ) from None
    info = LibraryInfo.from_json(ctypes.string_at(ctypes.addressof(first)))
    if info.pool != POOL_VERSION:
        raise ModuleError(
            f"The thread pool of a library must be of version {POOL_VERSION}, not {info.pool}: "
            "compile it again with this version of vdla."
        )
    return info


def _check_features(info: LibraryInfo) -> None:
    missing = [name for name in info.requires if name not in features()]
    if missing:
        raise DeviceError(
            f"A library for {info.level} must run on a processor with "
            f"{', '.join(info.requires)}, and this one lacks {', '.join(missing)}: "
            "compile it for a lower level, with VDLA_CPU or by name."
        )
    if "amx_tile" in info.requires and not permit_amx():
        raise DeviceError(
            f"A library for {info.level} must be given AMX tiles by the kernel, which refuses: "
            "compile it for a lower level, with VDLA_CPU or by name."
        )


def _check_array(what: str, array: object, argument: Argument) -> None:
    dtype = np.dtype(argument.dtype)
    if not isinstance(array, np.ndarray):
        raise InputError(
            f"{what} must be a numpy array, not {type(array).__name__}: give numpy.asarray of it."
        )
    if array.dtype != dtype:
        raise InputError(
            f"{what} must be {dtype}, not {array.dtype}: convert it with astype({str(dtype)!r})."
        )
    if array.shape != argument.shape:
        raise InputError(
            f"{what} must have the shape {argument.shape}, not {array.shape}: reshape it."
        )
    if not array.flags.c_contiguous:
        raise InputError(
            f"{what} must have its rows one after the other, not strides of {array.strides} bytes: "
            "give numpy.ascontiguousarray of it."
        )
    align = max(argument.align, dtype.alignment)
    if array.ctypes.data % align:
        raise InputError(
            f"{what} must be at an address that is a multiple of {align} bytes, not "
            f"{array.ctypes.data % align} beyond one: copy it into vdla.runtime.native.aligned."
        )
    if argument.written and not array.flags.writeable:
        raise InputError(
            f"{what} must be writeable, for it is written, and it is read-only: copy it."
        )


def _check_overlap(name: str, arrays: tuple[Array, ...], arguments: tuple[Argument, ...]) -> None:
    spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    for index, argument in enumerate(arguments):
        if not argument.written:
            continue
        begin, end = spans[index]
        for other, (first, behind) in enumerate(spans):
            if other != index and first < end and begin < behind:
                raise InputError(
                    f"Argument {index} of {name} must share no memory with the others, for it is "
                    f"written, and it overlaps argument {other}: copy one of them."
                )
