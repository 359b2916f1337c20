"""The command table, and the one place where an error becomes a line on stderr."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

import vdla
from vdla.errors import VdlaError, VdlaWarning
from vdla.runtime.cli import (
    INTERRUPTED,
    area,
    bench,
    bitstream,
    build,
    calibrate,
    devices,
    doctor,
    execute,
    flash,
    listing,
    quantize,
    reading,
    records,
    reporting,
    selftest,
    simulate,
    sweep,
    synth,
    tune,
    verilog,
)
from vdla.runtime.cli.output import fail, note
from vdla.runtime.cli.requirements import install_command, providing

__all__ = ["app"]


class _Commands(TyperGroup):
    """Turns what a user can act on into one line; anything else keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _tell
                return super().invoke(ctx)
        except VdlaError as error:
            if os.environ.get("VDLA_TRACEBACK") == "1":
                raise
            fail(str(error))
        except ModuleNotFoundError as error:
            package = providing(error.name or "")
            if package is None or os.environ.get("VDLA_TRACEBACK") == "1":
                raise
            fail(
                f"this command needs {package.name}, which is not installed; "
                f"install it with: {install_command([package])}"
            )
        except MemoryError as error:
            fail(f"this takes more memory than there is ({error}); use a smaller network or image")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _tell(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning: one of ours as a line of words, others as Python does."""
    if issubclass(category, VdlaWarning):
        note(str(message))
        return
    stream = sys.stderr if file is None else file
    stream.write(warnings.formatwarning(message, category, filename, lineno, line))


app = typer.Typer(
    cls=_Commands,
    help="A tensor accelerator for FPGAs: compile networks for it and simulate them to the cycle.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vdla {vdla.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


app.command("simulate")(simulate.simulate)
app.command("compile")(build.build)
app.command("run")(execute.execute)
app.command("flash")(flash.flash)
app.command("import")(reading.import_model)
app.command("quantize")(quantize.quantize)
app.command("report")(reporting.report)
app.command("compare")(reporting.compare)
app.command("disasm")(listing.disasm)
app.command("asm")(listing.asm)
app.command("calibrate")(calibrate.calibrate)
app.command("selftest")(selftest.selftest)
app.command("sweep")(sweep.sweep)
app.command("tune")(tune.tune)
app.command("verilog")(verilog.verilog)
app.command("synth")(synth.synth)
app.command("area")(area.area)
app.command("bitstream")(bitstream.bitstream)
app.add_typer(bench.app, name="bench")
app.add_typer(records.app, name="records")
app.command("devices")(devices.devices)
app.command("doctor")(doctor.doctor)
