"""What stands in the way of a flash: each thing its own clear error, before anything is changed."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vdla
from tests.arm.conftest import Board
from tests.arm.server import Wire, free_port
from tests.arm.userland import BARE_PYTHON, USER
from tests.runtime.flash.conftest import write_overlay
from vdla.bitstreams import BIT
from vdla.errors import DeviceError
from vdla.runtime.flash.address import Address
from vdla.runtime.flash.connect import on_board
from vdla.runtime.flash.machine import File, Machine
from vdla.runtime.flash.ssh import Connection

pytestmark = pytest.mark.slow

OLD_PYTHON = """\
#!/bin/sh
exec python3 -c "import sys
sys.version_info = (3, 8, 10, 'final', 0)
exec(sys.argv[1])" "$2"
"""
SUDO = """\
#!/bin/sh
[ "$1" = -n ] && exit 1
read -r password
[ "$password" = xilinx ] || exit 1
while [ "${1#-}" != "$1" ]; do [ "$1" = -p ] && shift; shift; done
exec env WAS_ROOT=yes "$@"
"""


@pytest.fixture
def flash(board: Board, vdla_command: Any) -> Any:
    def run(*arguments: str, host: str = board.host, known: bool = True) -> str:
        key = ["--identity", str(board.identity)]
        trust = ["--accept-new-host-key"] if known else []
        outcome = vdla_command("flash", "--host", host, *key, *trust, *arguments)
        assert outcome.code == 2, outcome.err
        assert outcome.err.count("\n") == 1
        return str(outcome.err)

    return run


def program(board: Board, name: str, text: str) -> Path:
    path = board.userland.root / "usr/local/bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
    path.chmod(0o755)
    return path


def test_a_key_must_be_known(flash: Any, home: Path) -> None:
    assert re.search(
        r"host key must be known, and \[127.0.0.1\]:\d+ shows ssh-ed25519 SHA256:\S{43}, which "
        r"~/.ssh/known_hosts does not have: .* then log in once with ssh, or give vdla flash "
        r"--accept-new-host-key",
        flash(known=False),
    )
    assert not (home / ".ssh/known_hosts").exists()


def test_a_key_is_kept_beside_others_and_must_stay(
    board: Board, flash: Any, home: Path, tmp_path: Path
) -> None:
    (home / ".ssh").mkdir()
    known = home / ".ssh/known_hosts"
    known.write_text("# mine\nother ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA", encoding="ascii")
    assert "must have pynq" in flash()  # so far the connection is good
    mine, other, kept = known.read_text(encoding="ascii").splitlines()
    assert (mine, other.split()[0]) == ("# mine", "other")
    assert kept.startswith(f"[127.0.0.1]:{board.port} ssh-ed25519 ")

    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "new")]
    subprocess.run(keygen, check=True)
    changed = (tmp_path / "new.pub").read_text(encoding="ascii").split()[1]
    known.write_text(f"[127.0.0.1]:{board.port} ssh-ed25519 {changed}\n", encoding="ascii")
    assert re.search(
        rf"must have the host key it had, and 127.0.0.1 shows .* ssh-keygen -R "
        rf"'\[127.0.0.1\]:{board.port}', and log in once with ssh, or give "
        r"vdla flash --accept-new-host-key; if not, another machine",
        flash(),
    )


def test_nobody_answers(flash: Any) -> None:
    port = free_port()
    assert f"127.0.0.1 port {port} refuses connections: wait" in flash(host=f"127.0.0.1:{port}")
    assert "name must lead to an address, and board.invalid does not" in flash(host="board.invalid")


@pytest.mark.parametrize(
    ("nbytes", "said"),
    [
        (30, "An SSH server must answer at 127.0.0.1 port {port}, and what does is none: it hangs"),
        (5000, "{user}@127.0.0.1 hung up while vdla started there: run the same command again"),
    ],
)
def test_a_wire_cut_before_anything_is_copied(
    board: Board, wire: Wire, flash: Any, nbytes: int, said: str
) -> None:
    wire.cut_after(nbytes)
    assert said.format(port=wire.port, user=USER) in flash(host=f"{USER}@127.0.0.1:{wire.port}")


def test_a_wire_that_breaks_under_the_writing_thread(board: Board, wire: Wire) -> None:
    """Paramiko then raises what its socket says, not what its reading thread found."""
    address = Address("127.0.0.1", USER, wire.port)
    connection = Connection(address, identity=board.identity, accept_new_host_key=True)
    machine = Machine(connection.name, connection.open)
    connection._client.get_transport().sock.shutdown(socket.SHUT_WR)
    with pytest.raises(DeviceError, match="hung up while vdla started there: run the same"):
        machine.call("describe")
    machine.close()
    connection.close()


def test_nobody_is_let_in(flash: Any, monkeypatch: pytest.MonkeyPatch, board: Board) -> None:
    stranger = f"root@127.0.0.1:{board.port}"
    assert (
        "The board must let root@127.0.0.1 in, and it does not: no key is accepted, and no "
        "password was given: copy a key to it with ssh-copy-id" in flash(host=stranger)
    )
    monkeypatch.setenv("VDLA_BOARD_PASSWORD", "wrong")
    assert "the password is wrong, or passwords are not accepted" in flash(host=stranger)


def test_a_board_brings_python_numpy_pip_and_pynq(board: Board, flash: Any) -> None:
    assert "/usr/local/share/pynq-venv/bin/python3 of xilinx@127.0.0.1 does not: flash its SD" in (
        flash()
    )
    assert "has no /usr/bin/python4: name one with --python" in flash(
        "--python", "/usr/bin/python4"
    )
    assert re.search(
        r"must have numpy >=1.23, which is compiled and so comes with its image, and "
        rf"{BARE_PYTHON} of {USER}@127.0.0.1 has none: take PYNQ's image",
        flash("--python", BARE_PYTHON),
    )
    assert "must have pip, and /usr/bin/python3 of" in flash("--python", "/usr/bin/python3")
    program(board, "old", OLD_PYTHON)
    assert (
        f"Python must be 3.10 or later, and /usr/local/bin/old of {USER}@127.0.0.1 is 3.8: flash "
        "the SD card with a PYNQ image of version 3.0 or later"
        in flash("--python", "/usr/local/bin/old")
    )


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    return write_overlay(tmp_path / "overlay")


def test_files_must_belong_together(flash: Any, overlay: Path, tmp_path: Path) -> None:
    network = vdla.compile("digits", config=vdla.ULTRA96)
    network.save(tmp_path / "net.vdla")
    ours, theirs = f"{vdla.PYNQ_Z1.hash:016x}", f"{vdla.ULTRA96.hash:016x}"
    assert (
        f"A network must be compiled for the overlay's configuration, {vdla.PYNQ_Z1.name} (hash "
        f"{ours}), and {tmp_path}/net.vdla is for {vdla.ULTRA96.name} (hash {theirs}): compile it "
        f"again with --config {vdla.PYNQ_Z1.name}"
        in flash(f"{tmp_path}/net.vdla", "--overlay", str(overlay))
    )
    assert "must be for the board, zcu104, and the one in" in (
        flash("--overlay", str(overlay), "--board", "zcu104")
    )
    (overlay / BIT).write_text("another", encoding="ascii")
    assert "A file of an overlay must be as it was built" in flash("--overlay", str(overlay))
    assert "net.txt" in flash(str(tmp_path / "net.txt"))


@pytest.fixture
def small_disk(board: Board) -> Iterator[Path]:
    """Put a disk of 1 MiB where vdla's folder is."""
    folder = board.userland.root / "home" / USER / ".local/share/vdla"
    before = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,uid=1000", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    if not before:
        folder.rmdir()


def test_room_is_needed(board: Board, flash: Any, small_disk: Path, tmp_path: Path) -> None:
    assert re.search(
        rf"{USER}@127.0.0.1 must have \d+ MiB free in /home/{USER}/.local/share/vdla, and has "
        r"\d MiB: remove files there",
        flash("--selftest-device", "functional"),
    )
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    address = Address("127.0.0.1", USER, board.port)
    with on_board(address, identity=board.identity) as machine:
        with pytest.raises(DeviceError, match="large: No space left on device: free space there"):
            machine.send(File.of(tmp_path / "large", "large"))
        (tmp_path / "large").write_bytes(b"small")
        wrong = replace(File.of(tmp_path / "large", "small"), sha256="0" * 64)
        with pytest.raises(DeviceError, match="must arrive as it was sent, and .*small on xilinx"):
            machine.send(wrong)
        machine.send(File.of(tmp_path / "large", "small"))  # the connection is as good as before
    assert sorted(path.name for path in small_disk.iterdir()) == ["lock", "small"]


def test_root_takes_a_password(board: Board) -> None:
    address = Address("127.0.0.1", USER, board.port)
    with on_board(address, identity=board.identity, accept_new_host_key=True) as machine:
        with pytest.raises(DeviceError, match="Root must dig on .*, and xilinx cannot become root"):
            machine.become_root(lambda prompt: None, "dig")  # there is no sudo at all
        sudo = program(board, "sudo", SUDO)
        try:
            with pytest.raises(DeviceError, match="without the right password: give the password"):
                machine.become_root(lambda prompt: "guess", "dig")
            machine.password = None
            asked: list[str] = []
            machine.become_root(lambda prompt: asked.append(prompt) or "xilinx", "dig")
            machine.become_root(lambda prompt: None, "dig")  # it is remembered
            assert asked == [f"Password of {USER} on {USER}@127.0.0.1, for sudo: "]
            done = machine.run(["printenv", "WAS_ROOT", "A"], environment={"A": "b c"}, root=True)
            assert (done.code, done.output) == (0, "yes\nb c\n")
            done = machine.run(["sh", "-c", "echo no >&2; exit 3"], root=True)
            assert (done.code, done.said) == (3, ["no"])
        finally:
            sudo.unlink()


def test_a_board_without_vdla_is_sent_to_flash(board: Board, vdla_command: Any) -> None:
    from vdla.runtime.flash.remote import run_remote

    fresh = board.userland.run("python3", "-c", "import vdla", check=False)
    assert fresh.returncode == 1
    with pytest.raises(DeviceError, match=rf"has none: install it with: vdla flash --host {USER}@"):
        run_remote(
            board.host,
            ["x.vdla"],
            identity=board.identity,
            accept_new_host_key=True,
            python="/usr/bin/python3",
        )
