"""Libraries at the boundary: what is refused before it runs, and what happens around a run."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llvmlite.ir as ll
import numpy as np
import pytest

from tests.compiler.targets.cpu.guarded import in_child
from tests.compiler.targets.cpu.handmade import KERNEL, Module, library
from vdla import abi
from vdla.abi import Argument, LibraryInfo
from vdla.compiler.targets.cpu import LEVELS, Target, host_target, link
from vdla.compiler.targets.cpu.kernel import optimize
from vdla.errors import DeviceError, InputError, ModuleError
from vdla.processor import available_cpus
from vdla.runtime import native, workers
from vdla.runtime.native import Library, aligned


@pytest.fixture(scope="module")
def code() -> bytes:
    return library(host_target().level)


def signature(**functions: tuple[Argument, ...]) -> bytes:
    """Return a library of functions that do nothing."""
    made = Module()
    for name, arguments in functions.items():
        function = ll.Function(made.module, KERNEL, name)
        ll.IRBuilder(function.append_basic_block()).ret_void()
        made.functions[name] = arguments
    target = host_target()
    return link(made.object(target), target)


@pytest.fixture(scope="module")
def two() -> Iterator[Library]:
    """A library with a function of one array that it reads and one that it writes."""
    source = Argument(dtype="float32", shape=(4, 6), align=32)
    result = Argument(dtype="int8", shape=(24,), written=True)
    with Library(signature(f=(source, result))) as library:
        yield library


def counted(library: Library, name: str, runs: int = 1) -> np.ndarray:
    function = library.function(name)
    array = np.zeros(function.arguments[0].shape, np.int32)
    call = function.bind(array)
    for _ in range(runs):
        call()
    return array


# Loading


def test_a_library_loads_from_bytes_and_from_a_file(code: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(code)
    for source in (code, tmp_path / "x.so", str(tmp_path / "x.so")):
        with Library(source) as one:
            assert (counted(one, "loop_7") == 1).all()
            assert (one.info.level, one.threads) == (host_target().level, 1)


def test_loading_leaves_no_file(
    code: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDLA_CACHE", str(tmp_path))
    with Library(code):
        assert list((tmp_path / "native").iterdir()) == []


def test_without_a_cache_it_is_loaded_from_a_temporary_file(
    code: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("VDLA_CACHE", str(tmp_path / "file"))  # no folder can be made in it
    with Library(code) as one:
        assert (counted(one, "loop_3") == 1).all()


def test_libraries_of_the_same_bytes_are_apart(code: bytes) -> None:
    with Library(code) as one, Library(code, threads=2) as other:
        assert (one.threads, other.threads) == (1, 2)
        assert (counted(one, "loop_7") == 1).all()
        assert (counted(other, "loop_7") == 1).all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "A library must be an ELF shared object, not b''…: compile it again."),
        (b"\x7fELF" + bytes(60), "for this machine's architecture, .*, not another architecture"),
    ],
)
def test_what_is_no_library(data: bytes, message: str) -> None:
    with pytest.raises((ModuleError, DeviceError), match=message):
        Library(data)


def test_a_library_cut_short(code: bytes) -> None:
    for size in (len(code) // 2, 500, 60):
        with pytest.raises(ModuleError, match=r"must be whole, and of this one \d+ bytes are"):
            Library(code[:size])


def test_a_library_that_the_system_refuses(code: bytes) -> None:
    damaged = bytearray(code)
    damaged[16] = 4  # the type of a core dump
    with pytest.raises(ModuleError, match=r"must be a shared object that this system loads, and"):
        Library(bytes(damaged))


def test_a_library_of_another_architecture() -> None:
    mine = host_target().architecture
    level, name = ("x86-64", "x86-64") if mine == "armv7" else ("armv7-neon", "armv7")
    with pytest.raises(DeviceError) as error:
        Library(library(level))
    assert str(error.value) == (
        f"A library must be for this machine's architecture, {mine}, not {name}: compile it for a "
        f"target of {mine}."
    )


def test_a_library_without_its_text() -> None:
    target = host_target()
    module = ll.Module("plain")
    function = ll.Function(module, KERNEL, "f")
    ll.IRBuilder(function.append_basic_block()).ret_void()
    parsed, machine = optimize(module, target)
    with pytest.raises(ModuleError, match=r"must say what it holds, in vdla_library, and this one"):
        Library(link(machine.emit_object(parsed), target))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this one's text is damaged"),
        ('{"format":1}', "this one's text is damaged"),
        ('{"format":7}', "A library's format must be 1, not 7: compile it again with this version"),
    ],
)
def test_a_damaged_text(text: str, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        LibraryInfo.from_json(text)


def test_another_pool_is_refused(monkeypatch: pytest.MonkeyPatch, code: bytes) -> None:
    monkeypatch.setattr(native, "POOL_VERSION", 9)
    with pytest.raises(ModuleError, match="pool of a library must be of version 9, not 1: compile"):
        Library(code)


def test_the_text_returns_what_was_said() -> None:
    info = LibraryInfo(
        architecture="armv7",
        level="armv7-neon",
        requires=("neon",),
        pool=1,
        functions={"f": (Argument(dtype="int8", shape=(1, 2), written=True, align=64),), "g": ()},
    )
    assert LibraryInfo.from_json(info.to_json()) == info
    assert abi.LIBRARY_SYMBOL == "vdla_library"


def test_a_processor_that_lacks_a_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [one for one in LEVELS.values() if one.architecture == host_target().architecture]
    highest = mine[0]
    monkeypatch.setattr(native, "features", lambda: frozenset(highest.requires[1:]))
    with pytest.raises(DeviceError) as error:
        Library(library(highest.level))
    assert str(error.value) == (
        f"A library for {highest.level} must run on a processor with "
        f"{', '.join(highest.requires)}, and this one lacks {highest.requires[0]}: compile it for "
        "a lower level, with VDLA_CPU or by name."
    )


def test_amx_is_asked_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target.named("x86-64-amx")
    if host_target().architecture != target.architecture:
        return
    monkeypatch.setattr(native, "features", lambda: frozenset(target.requires))
    asked = []
    monkeypatch.setattr(native, "permit_amx", lambda: asked.append(True) or len(asked) > 1)
    with pytest.raises(DeviceError, match=r"must be given AMX tiles by the kernel, which refuses"):
        Library(library(target.level))
    Library(library(target.level)).close()  # loaded, not run
    assert len(asked) == 2


# Arrays


def test_arrays_that_fit(two: Library) -> None:
    two.function("f")(aligned((4, 6), "float32"), np.zeros(24, np.int8))


def read_only() -> np.ndarray:
    array = np.zeros(24, np.int8)
    array.flags.writeable = False
    return array


def misaligned(by: int) -> np.ndarray:
    room = aligned((4 * 6 * 4 + by,), "uint8")
    return room[by:].view(np.float32).reshape(4, 6)


IN, OUT = aligned((4, 6), "float32"), np.zeros(24, np.int8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((IN,), "f must be given 2 arrays, not 1: give every input and output, in order."),
        (
            ([1.0], OUT),
            "Argument 0 of f must be a numpy array, not list: give numpy.asarray of it.",
        ),
        (
            (IN.astype("float64"), OUT),
            "Argument 0 of f must be float32, not float64: convert it with astype('float32').",
        ),
        (
            (IN.astype(">f4"), OUT),
            "Argument 0 of f must be float32, not >f4: convert it with astype('float32').",
        ),
        (
            (IN.reshape(6, 4), OUT),
            "Argument 0 of f must have the shape (4, 6), not (6, 4): reshape it.",
        ),
        (
            (aligned((6, 4), "float32").T, OUT),
            "Argument 0 of f must have its rows one after the other, not strides of (4, 16) "
            "bytes: give numpy.ascontiguousarray of it.",
        ),
        (
            (misaligned(4), OUT),
            "Argument 0 of f must be at an address that is a multiple of 32 bytes, not 4 beyond "
            "one: copy it into vdla.runtime.native.aligned.",
        ),
        (
            (IN, read_only()),
            "Argument 1 of f must be writeable, for it is written, and it is read-only: copy it.",
        ),
        (
            (IN, IN.reshape(-1).view(np.int8)[40:64]),
            "Argument 1 of f must share no memory with the others, for it is written, and it "
            "overlaps argument 0: copy one of them.",
        ),
    ],
)
def test_arrays_that_do_not_fit(two: Library, arrays: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        two.function("f")(*arrays)
    assert str(error.value) == message


def test_a_function_that_is_not_there(two: Library) -> None:
    with pytest.raises(InputError) as error:
        two.function("g")
    assert str(error.value) == (
        "A function of this library must be one of f, not 'g': name one of these."
    )


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_are_counted_from_one(code: bytes, threads: Any) -> None:
    with pytest.raises(InputError, match=r"Threads must be a whole number of at least 1, not"):
        Library(code, threads=threads)


def test_threads_have_a_limit(code: bytes) -> None:
    with pytest.raises(InputError, match="Threads must be at most 1024, not 1025: give one a core"):
        Library(code, threads=1025)


@pytest.mark.parametrize("align", [1, 64, 4096])
@pytest.mark.parametrize("dtype", ["int8", "float32", "int64"])
def test_aligned_arrays_are(align: int, dtype: str) -> None:
    array = aligned((3, 5), dtype, align)
    assert array.ctypes.data % max(align, array.itemsize) == 0
    assert (array.shape, array.dtype, array.any()) == ((3, 5), np.dtype(dtype), False)
    assert array.flags.writeable


# Runs


def alive() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("vdla-")]


def test_threads_live_as_long_as_a_library_that_uses_them(code: bytes) -> None:
    gc.collect()
    assert alive() == []
    one, other = Library(code, threads=3), Library(code, threads=3)
    assert alive() == []  # none before they are needed
    counted(one, "loop_7")
    assert sorted(alive()) == ["vdla-1", "vdla-2"]
    counted(other, "loop_7")
    assert len(alive()) == 2
    one.close()
    assert (counted(other, "loop_1000", 10) == 10).all()  # in code of the library that is closed
    other.close()
    assert alive() == []


def test_a_closed_library_refuses(code: bytes) -> None:
    one = Library(code, threads=2)
    call = one.function("loop_3").bind(np.zeros(3, np.int32))
    one.close()
    one.close()
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == (
        "A library must be open for loop_3 to be called, and this one is closed: load it again."
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_several_python_threads_at_once(code: bytes, threads: int) -> None:
    with Library(code, threads=threads) as one, ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(counted, one, "network_64_1000", 5) for _ in range(8)]
        assert all((run.result() == 5000).all() for run in runs)


def test_closing_waits_for_a_run(code: bytes) -> None:
    one = Library(code, threads=2)
    array = np.zeros(64, np.int32)
    call = one.function("network_64_1000").bind(array)
    runs = 0

    def run() -> None:
        nonlocal runs
        try:
            while True:
                call()
                runs += 1
        except InputError:
            pass

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.02)
    one.close()
    thread.join()
    assert (array == 1000 * runs).all()


@pytest.mark.parametrize("used", [False, True])
def test_a_forked_child_has_threads_of_its_own(code: bytes, used: bool) -> None:
    with Library(code, threads=3) as one:
        if used:
            counted(one, "network_64_1000")

        def work() -> None:
            assert alive() == []
            assert (counted(one, "network_64_1000", 3) == 3000).all()
            assert len(alive()) == 2
            one.close()
            assert alive() == []

        in_child(work)
        assert (counted(one, "network_64_1000", 3) == 3000).all()


def test_a_child_forked_during_a_run_runs(code: bytes) -> None:
    with Library(code, threads=2) as one:
        stop = threading.Event()

        def keep_running() -> None:
            while not stop.is_set():
                counted(one, "network_64_1000")

        thread = threading.Thread(target=keep_running)
        thread.start()
        try:
            for _ in range(5):
                in_child(lambda: assert_counts(one))
        finally:
            stop.set()
            thread.join()


def assert_counts(one: Library) -> None:
    assert (counted(one, "network_64_1000") == 1000).all()


def test_more_threads_than_processors_do_not_spin(
    code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(workers, "cpu_budget", lambda: 1)
    monkeypatch.setattr(workers, "_turns_per_us", lambda functions: started.append(1) or 1.0)
    with Library(code, threads=2) as one:
        assert (counted(one, "network_64_1000") == 1000).all()
        assert started == []  # nobody asked how long a turn takes, for there are none


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_threads_sleep_when_nothing_runs(code: bytes) -> None:
    with Library(code, threads=2) as one:
        counted(one, "network_64_1000")
        (worker,) = [t for t in threading.enumerate() if t.name == "vdla-1"]
        status = Path(f"/proc/self/task/{worker.native_id}/stat")

        def state_and_ticks() -> list[str]:
            fields = status.read_text(encoding="ascii").rpartition(")")[2].split()
            return [fields[0], fields[11], fields[12]]

        until(lambda: state_and_ticks()[0] == "S")
        asleep = state_and_ticks()
        time.sleep(0.1)  # ten ticks, had it looked around
        assert state_and_ticks() == asleep


def test_pinned_threads_stay_on_a_processor(code: bytes) -> None:
    mine = os.sched_getaffinity(0)
    cpus = available_cpus()
    pinned_to = cpus[1 % len(cpus)]
    with Library(code, threads=2, pin=True) as one:
        counted(one, "loop_1000")
        (worker,) = [t for t in threading.enumerate() if t.name == "vdla-1"]
        until(lambda: os.sched_getaffinity(worker.native_id) == {pinned_to})
        assert os.sched_getaffinity(0) == mine


def test_a_process_that_closes_nothing_ends(code: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(code)
    program = (
        "import sys, numpy as np\n"
        "from vdla.runtime.native import Library\n"
        "library = Library(sys.argv[1], threads=3)\n"
        "function = library.function('loop_1000')\n"
        "function(np.zeros(1000, np.int32))\n"
        "print(sorted(n for n in sys.modules if n.startswith(('llvmlite', 'vdla.compiler'))))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "x.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
