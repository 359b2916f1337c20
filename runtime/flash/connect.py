"""Reaching a board: over SSH, or where this machine is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vdla.runtime.flash.address import Address
from vdla.runtime.flash.machine import LocalChannel, Machine

__all__ = ["on_board"]


@contextmanager
def on_board(
    address: Address | None,
    *,
    python: str | None = None,
    identity: Path | None = None,
    accept_new_host_key: bool = False,
    ask: Callable[[str], str | None] = lambda prompt: None,
) -> Iterator[Machine]:
    """Yield the board at an address, hung up when the block ends.

    Parameters
    ----------
    address : Address or None
        None: this machine.
    python : str, optional
        The Python to use there.
    identity : Path, optional
        A private key.
    accept_new_host_key : bool
        Whether a board that was never seen is believed.
    ask : callable
        Returns a password for a prompt, None where nobody can be asked.

    Raises
    ------
    DeviceError
        It cannot be reached, or has no Python that will do.
    """
    if address is None:
        machine = Machine("this machine", LocalChannel, python)
        try:
            yield machine
        finally:
            machine.close()
        return

    from vdla.runtime.flash.ssh import Connection

    connection = Connection(
        address, identity=identity, accept_new_host_key=accept_new_host_key, ask=ask
    )
    try:
        machine = Machine(connection.name, connection.open, python)
        machine.password = connection.password
        yield machine
        machine.close()
    finally:
        connection.close()
