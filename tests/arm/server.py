"""The userland's own SSH server on a free port of loopback, and a wire to it that can be cut."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.arm.userland import USER, Userland

__all__ = ["Wire", "ssh_server"]

START_SECONDS = 60
CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey /etc/ssh/key
PidFile none
UsePAM no
PasswordAuthentication yes
KbdInteractiveAuthentication no
"""
CHUNK_BYTES = 1 << 14


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def ssh_server(board: Userland, public_key: str) -> Iterator[int]:
    """Run sshd in the userland and yield its port; the user logs in with a key."""
    port = free_port()
    if not (board.root / "etc/ssh/key").exists():
        board.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/etc/ssh/key", user="root")
    (board.root / "etc/ssh/sshd_test").write_text(CONFIG.format(port=port), encoding="ascii")
    keys = board.root / "home" / USER / ".ssh"
    keys.mkdir(exist_ok=True)
    (keys / "authorized_keys").write_text(public_key, encoding="ascii")
    for path in (keys, keys / "authorized_keys"):
        shutil.chown(path, 1000, 1000)
    server = subprocess.Popen(
        ["chroot", str(board.root), "/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_test"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=board.environment("root"),
    )
    try:
        _wait(port, server)
        yield port
    finally:
        _stop_all(board.root)
        server.wait()


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, "sshd ended at once"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as wire:
            wire.settimeout(START_SECONDS)
            if wire.recv(4) == b"SSH-":  # it answers, and does not only listen
                return
        time.sleep(0.1)
    raise AssertionError(f"sshd does not answer after {START_SECONDS} s")


def _stop_all(root: Path) -> None:
    """End every process whose root is this userland's, which is a folder of this test alone."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "root").resolve() == root.resolve():
                os.kill(int(process.name), signal.SIGKILL)


class Wire:
    """Forwards a port of loopback to another one, until it is cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._left: int | None = None
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, nbytes: int) -> None:
        """Cut the connection when so many bytes have gone to the board."""
        self._left = nbytes

    def cut(self) -> None:
        """Cut the connection, and none that comes while it is being cut."""
        self._left = None
        ends, self._open = self._open, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                threading.Thread(target=self._forward, args=(near, far), daemon=True).start()

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([near, far], [], [])
                for source in ready:
                    data = source.recv(CHUNK_BYTES)
                    if not data:
                        return
                    if source is near and self._left is not None:
                        self._left -= len(data)
                        if self._left <= 0:
                            self.cut()
                            return
                    (far if source is near else near).sendall(data)
