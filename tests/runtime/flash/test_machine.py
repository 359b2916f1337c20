from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vdla.errors import DeviceError, InputError
from vdla.runtime.flash import machine as subject
from vdla.runtime.flash.address import Address, parse_address
from vdla.runtime.flash.connect import on_board
from vdla.runtime.flash.machine import File


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("pynq", Address("pynq")),
        ("xilinx@pynq.local", Address("pynq.local", "xilinx")),
        ("xilinx@192.168.2.99:2222", Address("192.168.2.99", "xilinx", 2222)),
        ("root@[fe80::1]:22", Address("fe80::1", "root", 22)),
        ("fe80::1", Address("fe80::1")),
        ("[fe80::1]", Address("fe80::1")),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "xilinx@", "-oProxyCommand=x", "a b", "x@-v"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InputError, match="A board's address must be USER@HOST or USER@HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("port", ["0", "65536", "ssh"])
def test_what_is_no_port(port: str) -> None:
    with pytest.raises(InputError, match=f"must be a number from 1 to 65535, not '{port}'"):
        parse_address(f"pynq:{port}")


def test_files_arrive_whole(tmp_path: Path, home: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 1000)
    (tmp_path / "empty").write_bytes(b"")
    files = [File.of(tmp_path / "a", "x/a"), File.of(tmp_path / "empty", "x/empty")]
    sizes: list[int] = []
    with on_board(None, python=sys.executable) as machine:
        assert machine.missing(files) == files
        for file in files:
            machine.send(file, sizes.append)
        assert machine.missing(files) == []
        machine.call("keep", folder="x", names=["a"])
        assert machine.missing(files) == files[1:]
    assert sum(sizes) == 256_000
    assert (home / ".local/share/vdla/x/a").read_bytes() == (tmp_path / "a").read_bytes()


def test_what_was_unused_for_longest_goes_first(tmp_path: Path, home: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1000))
    with on_board(None, python=sys.executable) as machine:
        for name in ("old", "new", "used"):
            machine.send(File.of(tmp_path / "a", f"files/{name}/a"))
            subprocess.run(["touch", "-d", "yesterday", home / ".local/share/vdla/files/old"])
        machine.call("trim", folder="files", most_bytes=2000, used=["used"])
        left = sorted(path.name for path in (home / ".local/share/vdla/files").iterdir())
        assert left == ["new", "used"]


def test_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_LOCK_SECONDS", 0.3)
    with on_board(None, python=sys.executable) as first:
        first.lock()
        with on_board(None, python=sys.executable) as second:
            with pytest.raises(DeviceError, match="One vdla at a time installs on a board, and"):
                second.lock()
            first.close()
            second.lock()


def test_outputs_come_apart() -> None:
    lines: list[str] = []
    code = "import os, sys; print(os.environ['A']); print('x' * 9, file=sys.stderr); sys.exit(4)"
    with on_board(None, python=sys.executable) as machine:
        command = [sys.executable, "-c", code]
        done = machine.run(command, environment={"A": "a b\n"}, line=lines.append)
    assert (done.code, done.output, done.said) == (4, "a b\n\n", ["x" * 9])
    assert lines == ["x" * 9]


def test_the_end_of_a_connection_is_told() -> None:
    with on_board(None, python=sys.executable) as machine:
        machine.doing("the roof was painted")
        command = ["sh", "-c", "kill -9 $PPID"]
        with pytest.raises(DeviceError, match="hung up while the roof was painted: run the same"):
            machine.run(command)
        with pytest.raises(DeviceError, match="hung up while the roof was painted: run the same"):
            machine.call("describe")


def test_a_python_that_does_not_start(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho hello\necho no libc >&2\nexit 1\n", encoding="ascii")
    broken.chmod(0o755)
    with pytest.raises(DeviceError, match="of this machine did not: no libc: try it there"):
        on_board(None, python=str(broken)).__enter__()
    with pytest.raises(DeviceError, match="this machine has no /no/python: name one"):
        on_board(None, python="/no/python").__enter__()
