"""The pool under ThreadSanitizer: what one thread writes and another reads is always ordered.

x86-64 orders more than the code asks for, so that a missing order shows on ARM alone, and there
rarely. ThreadSanitizer goes by what the code asks for. Each access in the pool's LLVM code is
announced to it, as a compiler's own pass would do, which LLVM for Python does not come with.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tests.compiler.targets.cpu.handmade import Module
from vdla.compiler.targets.cpu import Target, host_target
from vdla.compiler.targets.cpu.library import complete

DRIVER = Path(__file__).with_name("race_driver.cpp")
ORDERS = {"monotonic": 0, "acquire": 2, "release": 3, "acq_rel": 4, "seq_cst": 5}
REPORT = "WARNING: ThreadSanitizer: data race"
RUNS = ((2, 1000), (3, 0), (8, 1000))
"""Threads, and how often one that waits looks before it sleeps."""
SIZES = {"i8": 1, "i32": 4, "i64": 8, "ptr": 8}

NAME = r'%"?[-.\w]+"?'
VALUE = rf"(?:{NAME}|-?\d+|null)"
POINTER = r'[%@]"?[-.\w]+"?'
ORDER = "|".join(ORDERS)
ATOMIC_LOAD = re.compile(rf"({NAME}) = load atomic i32, ptr ({POINTER}) ({ORDER}), align 4")
ATOMIC_STORE = re.compile(rf"store atomic i32 ({VALUE}), ptr ({POINTER}) ({ORDER}), align 4")
EXCHANGE = re.compile(
    rf"({NAME}) = cmpxchg ptr ({POINTER}), i32 ({VALUE}), i32 ({VALUE}) ({ORDER}) ({ORDER})"
)
UPDATE = re.compile(rf"({NAME}) = atomicrmw (add|sub) ptr ({POINTER}), i32 ({VALUE}) ({ORDER})")
LOAD = re.compile(rf"{NAME} = load (i8|i32|i64|ptr), ptr ({POINTER})")
STORE = re.compile(rf"store (i8|i32|i64|ptr) .*, ptr ({POINTER})")
DECLARATIONS = """
declare i32 @__tsan_atomic32_load(ptr, i32)
declare void @__tsan_atomic32_store(ptr, i32, i32)
declare i32 @__tsan_atomic32_fetch_add(ptr, i32, i32)
declare i32 @__tsan_atomic32_fetch_sub(ptr, i32, i32)
declare i32 @__tsan_atomic32_compare_exchange_val(ptr, i32, i32, i32, i32)
""" + "".join(
    f"declare void @__tsan_{kind}{size}(ptr)\n" for kind in ("read", "write") for size in (1, 4, 8)
)


def announced(line: str) -> str:
    """Return a line of LLVM code with its access told to ThreadSanitizer."""
    text = line.strip()
    if match := ATOMIC_LOAD.match(text):
        name, pointer, order = match.groups()
        return f"{name} = call i32 @__tsan_atomic32_load(ptr {pointer}, i32 {ORDERS[order]})"
    if match := ATOMIC_STORE.match(text):
        value, pointer, order = match.groups()
        order = ORDERS[order]
        return f"call void @__tsan_atomic32_store(ptr {pointer}, i32 {value}, i32 {order})"
    if match := UPDATE.match(text):
        name, kind, pointer, value, order = match.groups()
        arguments = f"ptr {pointer}, i32 {value}, i32 {ORDERS[order]}"
        return f"{name} = call i32 @__tsan_atomic32_fetch_{kind}({arguments})"
    if match := EXCHANGE.match(text):
        name, pointer, old, new, order, failing = match.groups()
        arguments = (
            f"ptr {pointer}, i32 {old}, i32 {new}, i32 {ORDERS[order]}, i32 {ORDERS[failing]}"
        )
        pair = "{i32, i1}"
        return "\n".join(
            [
                f"%seen = call i32 @__tsan_atomic32_compare_exchange_val({arguments})",
                f"%same = icmp eq i32 %seen, {old}",
                f"%half = insertvalue {pair} undef, i32 %seen, 0",
                f"{name} = insertvalue {pair} %half, i1 %same, 1",
            ]
        )
    assert " atomic" not in f" {text}", text
    assert not text.startswith("fence"), text
    for pattern, kind in ((LOAD, "read"), (STORE, "write")):
        if match := pattern.match(text):
            size = SIZES[match[1]]
            return f"call void @__tsan_{kind}{size}(ptr {match[2]})\n{text}"
    return text


def pool_text() -> str:
    made = Module()
    made.loop(1000)
    made.network(64, 50)
    made.network(3, 50)
    made.nested(60, 6)
    target = baseline()
    complete(made.module, target, made.functions)
    made.module.triple = target.triple
    return str(made.module)


def baseline() -> Target:
    levels = {"x86-64": "x86-64", "aarch64": "aarch64-neon", "armv7": "armv7-neon"}
    return Target.named(levels[host_target().architecture])


def races(text: str, folder: Path, attempts: int = 1) -> bool:
    """Return whether a race of a pool with this text is reported, in so many attempts."""
    if shutil.which("g++") is None:
        pytest.skip("no g++; install it with: apt-get install g++")
    # Typed pointers, as llvmlite may write them, become plain ones.
    parsed = llvm.parse_assembly(text)
    lines = [announced(line) for line in str(parsed).splitlines()]
    module = llvm.parse_assembly("\n".join(lines) + DECLARATIONS)
    module.verify()
    (folder / "pool.o").write_bytes(baseline().machine(opt=1).emit_object(module))
    command = ["g++", "-O1", "-fsanitize=thread", str(DRIVER), str(folder / "pool.o"), "-o", "run"]
    subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
    for threads, turns in RUNS * attempts:
        words = ["./run", str(threads), str(turns)]
        done = run(words, folder)
        if "unexpected memory mapping" in done.stderr:  # old versions want addresses not random
            done = run(["setarch", "-R", *words], folder)
        assert done.stdout == "right counts\n", done.stdout + done.stderr
        if REPORT in done.stderr:
            return True
    return False


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_pool_has_no_race(tmp_path: Path) -> None:
    assert not races(pool_text(), tmp_path)


def relaxed(pattern: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        changed = re.sub(pattern, r"\1monotonic", text)
        assert changed != text
        return changed

    return change


@pytest.mark.parametrize(
    "weaken",
    [
        relaxed(r"(atomicrmw sub .* )acquire"),
        relaxed(r"(atomicrmw add .* )seq_cst"),
        relaxed(r"(load atomic .* )acquire"),
    ],
    ids=["taking a piece", "reporting it done, calling workers", "seeing a call, seeing the end"],
)
def test_a_weaker_order_is_noticed(weaken: Callable[[str], str], tmp_path: Path) -> None:
    # Who takes a piece without its order has mostly just seen the call in order.
    assert races(weaken(pool_text()), tmp_path, attempts=50)
