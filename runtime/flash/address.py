"""Where a board is, as a person writes it."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.errors import InputError

__all__ = ["Address", "parse_address"]


@dataclass(frozen=True)
class Address:
    """Where a board is.

    Parameters
    ----------
    host : str
    user : str or None
        None: the user that the SSH configuration or this computer says.
    port : int or None
        None: the SSH configuration's, or 22.
    """

    host: str
    user: str | None = None
    port: int | None = None


def parse_address(text: str) -> Address:
    """Return the address that ``USER@HOST:PORT`` says; user and port may be left out.

    Raises
    ------
    InputError
        It says none.
    """
    user, _, host = text.rpartition("@")
    port = None
    if host.count(":") == 1 or host.startswith("["):  # an IPv6 address has more, or brackets
        host, _, digits = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if digits:
            if not digits.isdecimal() or not 0 < int(digits) < 1 << 16:
                raise InputError(
                    f"A board's port must be a number from 1 to 65535, not {digits!r}: give "
                    "USER@HOST:PORT"
                )
            port = int(digits)
    host = host.strip("[]")
    if not host or host.startswith("-") or any(c.isspace() for c in text):
        raise InputError(f"A board's address must be USER@HOST or USER@HOST:PORT, not {text!r}")
    return Address(host, user or None, port)
