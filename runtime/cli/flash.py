"""``vdla flash``: everything a board needs, copied there, installed and tested."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from vdla.runtime.cli.options import JsonOption
from vdla.runtime.cli.output import emit_json, progress_bar

__all__ = ["ask_password", "flash"]

PASSWORD = "VDLA_BOARD_PASSWORD"


def flash(
    networks: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE.vdla]...", help="Compiled networks.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="USER@BOARD", help="The board, on the network."),
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="This machine is the board.")] = False,
    board: Annotated[
        str | None,
        typer.Option("--board", metavar="NAME", help="Which board it is, if it does not say."),
    ] = None,
    overlay: Annotated[
        Path | None,
        typer.Option("--overlay", metavar="FOLDER", help="What vdla bitstream made for it."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Of the board's SSH server.")
    ] = None,
    identity: Annotated[
        Path | None, typer.Option("--identity", metavar="FILE", help="A private key.")
    ] = None,
    accept_new_host_key: Annotated[
        bool,
        typer.Option("--accept-new-host-key", help="Believe a board that was never seen, once."),
    ] = False,
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="PATH", help="The Python there that has pynq."),
    ] = None,
    selftest_device: Annotated[
        str,
        typer.Option("--selftest-device", metavar="DEVICE", help="What the self-test runs on."),
    ] = "pynq",
    as_json: JsonOption = False,
) -> None:
    """Copy vdla, an overlay and networks to a board, install them, and run the self-test.

    What is there already is not sent again, so after an interruption the same command goes on
    where it stopped.
    """
    if local == (host is not None):
        raise typer.BadParameter("give one of --host and --local")

    from vdla.runtime.flash.address import Address, parse_address
    from vdla.runtime.flash.cargo import Cargo
    from vdla.runtime.flash.connect import on_board
    from vdla.runtime.flash.install import flash as install

    cargo = Cargo(networks=networks or [], overlay=overlay, board=board, device=selftest_device)
    cargo.check()
    address = None if host is None else parse_address(host)
    if address is not None and port is not None:
        address = Address(address.host, address.user, port)
    with (
        progress_bar("flashing") as progress,
        on_board(
            address,
            python=python,
            identity=identity,
            accept_new_host_key=accept_new_host_key,
            ask=ask_password,
        ) as machine,
    ):
        report = install(machine, cargo, ask=ask_password, progress=progress)
    _show(machine.name, report, as_json=as_json)


def ask_password(prompt: str) -> str | None:
    """Return the board's password: the environment's, or what is typed; None where nobody is."""
    known = os.environ.get(PASSWORD)
    if known is not None:
        return known
    return getpass.getpass(prompt) if sys.stdin.isatty() else None


def _show(name: str, report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit_json({"host": name, **report})
        return
    sent, present = len(report["sent"]), len(report["present"])
    typer.echo(f"{name}: {report['machine']}, Python {report['python']}")
    typer.echo(f"{sent} files copied into {report['folder']}, {present} were there")
    typer.echo(f"vdla {report['vdla']} {'installed' if report['installed'] else 'was installed'}")
    if report["board"] is not None:
        typer.echo(f"overlay for {report['board']}")
    typer.echo("the self-test passed")
