"""A connection to a board over SSH: host keys, ways to log in, and what each refusal means."""

from __future__ import annotations

import base64
import getpass
import hashlib
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko

from vdla.errors import DeviceError, InputError
from vdla.runtime.flash.address import Address

__all__ = ["Connection", "SshChannel"]

_PORT = 22
_CONNECT_SECONDS = 15.0
_ANSWER_SECONDS = 60.0  # a board's processor is slow at key exchange, and may be busy
_KEEPALIVE_SECONDS = 10
_DEAD_MILLISECONDS = 60_000  # a board that lost its power does not say so
_GONE = (OSError, EOFError, paramiko.SSHException)
"""What paramiko raises when the other end hangs up: which one, its threads' race decides."""


class Connection:
    """A login on a board.

    Parameters
    ----------
    address : Address
    identity : Path, optional
        A private key, beside those of the SSH agent and of ``~/.ssh``.
    accept_new_host_key : bool
        Whether a board that was never seen is believed, and its key kept.
    ask : callable
        Returns a password for a prompt, None where nobody can be asked.

    Attributes
    ----------
    name : str
        For messages.
    password : str or None
        What it was logged in with, if with a password.

    Raises
    ------
    DeviceError
        The board cannot be reached, is not who it was, or lets nobody in.
    """

    def __init__(
        self,
        address: Address,
        *,
        identity: Path | None = None,
        accept_new_host_key: bool = False,
        ask: Callable[[str], str | None] = lambda prompt: None,
    ) -> None:
        settings = _settings(address)
        self.host = settings.get("hostname", address.host)
        self.port = address.port or int(settings.get("port", _PORT))
        self.user = address.user or settings.get("user") or _local_user()
        self.name = f"{self.user}@{address.host}"
        self.password: str | None = None
        keys = [str(identity)] if identity else settings.get("identityfile")
        if identity is not None and not identity.is_file():
            raise InputError(f"--identity must be a private key's file, and {identity} is none")
        self._client = paramiko.SSHClient()
        with suppress(OSError):
            self._client.load_system_host_keys()
        with suppress(OSError):
            self._client.load_system_host_keys("/etc/ssh/ssh_known_hosts")
        self._client.set_missing_host_key_policy(_NewHost(self.name, accept_new_host_key))
        try:
            self._log_in(keys, ask)
        except BaseException:
            self._client.close()
            raise

    def _log_in(self, keys: list[str] | None, ask: Callable[[str], str | None]) -> None:
        try:
            self._connect(key_filename=keys, look_for_keys=True, allow_agent=True)
            return
        except paramiko.PasswordRequiredException:
            refused = "the private key has a passphrase, and no SSH agent holds it (ssh-add KEY)"
        except (paramiko.AuthenticationException, paramiko.SSHException) as error:
            if not _about_login(error):
                raise self._no_ssh(error) from None
            refused = "no key is accepted"
        password = ask(f"Password of {self.name}: ")
        if password is None:
            raise self._refused(f"{refused}, and no password was given")
        try:
            self._connect(password=password, look_for_keys=False, allow_agent=False)
        except paramiko.AuthenticationException:
            raise self._refused("the password is wrong, or passwords are not accepted") from None
        except paramiko.SSHException as error:
            raise self._no_ssh(error) from None
        self.password = password

    def _refused(self, why: str) -> DeviceError:
        return DeviceError(
            f"The board must let {self.name} in, and it does not: {why}: copy a key to it with "
            f"ssh-copy-id, name one in ~/.ssh/config, or give the password when asked or in "
            "VDLA_BOARD_PASSWORD (on PYNQ's images user and password are xilinx)"
        )

    def _no_ssh(self, error: Exception) -> DeviceError:
        return DeviceError(
            f"An SSH server must answer at {self.host} port {self.port}, and what does is none: "
            f"{str(error) or 'it hangs up'}: check the address and the port, USER@HOST:PORT"
        )

    def _connect(self, **how: Any) -> None:
        try:
            self._client.connect(
                self.host,
                self.port,
                self.user,
                sock=self._socket(),
                timeout=_CONNECT_SECONDS,
                auth_timeout=_ANSWER_SECONDS,
                banner_timeout=_ANSWER_SECONDS,
                **how,
            )
        except paramiko.BadHostKeyException as error:
            raise DeviceError(
                f"A board must have the host key it had, and {self.host} shows "
                f"{_fingerprint(error.key)} where ~/.ssh/known_hosts has "
                f"{_fingerprint(error.expected_key)}: if its SD card was flashed anew, remove the "
                f"old key with: ssh-keygen -R '{_known_as(self.host, self.port)}', and log in once "
                "with ssh, or give vdla flash --accept-new-host-key; if not, another machine "
                "answers in its place"
            ) from None
        except (OSError, EOFError) as error:
            raise self._no_ssh(error) from None
        transport = self._client.get_transport()
        assert transport is not None
        transport.set_keepalive(_KEEPALIVE_SECONDS)

    def _socket(self) -> socket.socket:
        where = f"{self.host} port {self.port}"
        try:
            found = socket.create_connection((self.host, self.port), timeout=_CONNECT_SECONDS)
        except socket.gaierror as error:
            raise DeviceError(
                f"A board's name must lead to an address, and {self.host} does not "
                f"({error.strerror}): use its address (192.168.2.99 where a PYNQ board is "
                "connected straight to this computer)"
            ) from None
        except ConnectionRefusedError:
            raise DeviceError(
                f"An SSH server must run on the board, and {where} refuses connections: wait until "
                "it has started up, or check the port, USER@HOST:PORT"
            ) from None
        except OSError as error:
            raise DeviceError(
                f"A board must be on the network, and {where} does not answer "
                f"({error.strerror or 'timed out'}): check power, cable and address"
            ) from None
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_MILLISECONDS)
        return found

    def open(self, command: str) -> SshChannel:
        """Start a shell command on the board."""
        transport = self._client.get_transport()
        assert transport is not None
        try:
            channel = transport.open_session(timeout=_ANSWER_SECONDS)
            channel.exec_command(command)
        except _GONE as error:
            raise DeviceError(
                f"{self.name} must start a command, and it does not: "
                f"{str(error) or 'it hung up'}: try again, or try: "
                f"ssh {self.name} true"
            ) from None
        return SshChannel(channel)

    def close(self) -> None:
        """Log out."""
        self._client.close()


class SshChannel:
    """A command on a board.

    Parameters
    ----------
    channel : paramiko.Channel
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._lines = channel.makefile("rb")
        self._said = channel.makefile_stderr("rb")

    def write(self, data: bytes) -> None:
        """Send all of `data`."""
        try:
            self._channel.sendall(data)
        except _GONE as error:
            raise ConnectionError(*error.args) from None

    def readline(self) -> bytes:
        """Return the next line; nothing at the end."""
        try:
            return bytes(self._lines.readline())
        except _GONE:
            return b""

    def failure(self) -> tuple[int | None, str]:
        """Return the exit code and what went to standard error."""
        said = self._said.read().decode(errors="replace")
        code = self._channel.recv_exit_status() if self._channel.eof_received else -1
        return None if code < 0 else code, said

    def close(self) -> None:
        """Hang up."""
        with suppress(*_GONE):
            self._channel.close()


class _NewHost:
    """Keeps the key of a host that was never seen, or refuses it."""

    def __init__(self, name: str, accept: bool) -> None:
        self._name = name
        self._accept = accept

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        if not self._accept:
            raise DeviceError(
                f"A board's host key must be known, and {hostname} shows {_fingerprint(key)}, "
                "which ~/.ssh/known_hosts does not have: compare it with what the board's console "
                "prints for: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub (or another type), "
                "then log in once with ssh, or give vdla flash --accept-new-host-key"
            )
        known = Path("~/.ssh/known_hosts").expanduser()
        try:
            known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with known.open("a+", encoding="ascii") as file:  # a file of others: add, keep the rest
                if file.tell():
                    file.seek(file.tell() - 1)
                    if file.read() != "\n":
                        file.write("\n")
                file.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")
        except OSError as error:
            raise DeviceError(
                f"A board's host key is kept in {known}, which cannot be written: {error.strerror}"
            ) from None


def _fingerprint(key: paramiko.PKey) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def _known_as(host: str, port: int) -> str:
    return host if port == _PORT else f"[{host}]:{port}"


def _about_login(error: Exception) -> bool:
    """Return whether an error means that the board answered, and lets nobody in."""
    words = str(error)
    return isinstance(error, paramiko.AuthenticationException) or "No authentication" in words


def _settings(address: Address) -> dict[str, Any]:
    """Return what ``~/.ssh/config`` says of a host."""
    path = Path("~/.ssh/config").expanduser()
    if not path.is_file():
        return {}
    try:
        found = paramiko.SSHConfig.from_path(str(path)).lookup(address.host)
    except paramiko.SSHException as error:
        raise InputError(f"~/.ssh/config must be readable, and is not: {error}") from None
    return dict(found)


def _local_user() -> str:
    return getpass.getuser()
