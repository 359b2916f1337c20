"""``vdla verilog``: the gateware of a configuration as files for vendors' tools and for yosys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json, write_file

__all__ = ["verilog"]

MODULE = "vdla"
"""The name of the top module, of the files, and of the IP that is packaged from them."""


def verilog(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Where the files go; made if needed."),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Write the accelerator as Verilog and RTLIL, with its configuration beside it."""
    from vdla.gateware.export import to_rtlil, to_verilog
    from vdla.gateware.top import Top

    chosen = read_config(config)
    texts = {
        f"{MODULE}.v": to_verilog(Top(chosen), MODULE),
        f"{MODULE}.il": to_rtlil(Top(chosen), MODULE),
        f"{MODULE}.toml": chosen.to_toml(),
    }
    for name, text in texts.items():
        write_file(output / name, text.encode())
    if as_json:
        emit_json(
            {
                "module": MODULE,
                "files": [str(output / name) for name in texts],
                "config": chosen.name,
                "config_hash": f"{chosen.hash:016x}",
            }
        )
        return
    for name, text in texts.items():
        typer.echo(f"{output / name}: {len(text.splitlines())} lines")
