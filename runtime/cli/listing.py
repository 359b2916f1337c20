"""``vdla disasm`` and ``vdla asm``: instructions as text and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vdla.errors import AssemblyError, InputError, ModuleError
from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vdla.program import Program

__all__ = ["asm", "disasm"]

INSTRUCTION_BYTES = 16


def disasm(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A .vdla file, or bare instructions, 16 bytes each, little-endian."
        ),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Print a program's instructions, one a line, as assembly that vdla asm reads."""
    lines = [line for program in _programs(file, config) for line in _lines(program)]
    if as_json:
        emit_json(lines)
        return
    label = None
    for line in lines:
        if line["layer"] != label:
            label = line["layer"]
            typer.echo(f"# {label}")
        typer.echo(line["text"])


def asm(
    file: Annotated[Path, typer.Argument(metavar="FILE.s", help="A program in assembly.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE.bin", help="Where the instructions go."),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Assemble a program into bare instructions, 16 bytes each, little-endian."""
    settings = read_config(config)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AssemblyError(f"A program in assembly must be a text file: {file}: {error}") from None

    from vdla.isa import assemble, encode

    words = encode(assemble(text), settings)
    output.write_bytes(words.astype("<u8").tobytes())
    if as_json:
        emit_json({"file": str(output), "instructions": len(words), "config": settings.name})
    else:
        typer.echo(f"{output}: {len(words)} instructions for {settings.name}")


def _programs(file: Path, config: str) -> list[Program]:
    from vdla.program import Program

    if file.suffix == ".vdla":
        from vdla.runtime import api

        return list(api.load(file).programs)
    return [Program(read_config(config), _bare_words(file))]


def _bare_words(file: Path) -> npt.NDArray[np.uint64]:
    import numpy as np

    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"A program must be a readable file: {file}: {error}") from None
    if len(data) % INSTRUCTION_BYTES:
        raise ModuleError(
            f"Bare instructions must take a multiple of {INSTRUCTION_BYTES} bytes, "
            f"not {len(data)}: {file}"
        )
    return np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(-1, 2)


def _lines(program: Program) -> Iterator[dict[str, Any]]:
    from vdla.isa import decode, line_of, module_of

    for index, instruction in enumerate(decode(program.instructions, program.config)):
        layer = int(program.layer_of[index])
        yield {
            "index": index,
            "module": module_of(instruction).value,
            "layer": program.labels[layer] if layer >= 0 else None,
            "text": line_of(instruction),
        }
