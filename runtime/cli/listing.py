"""``vdla disasm`` and ``vdla asm``: instructions as text and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from vdla.errors import AssemblyError, InputError, ModuleError
from vdla.runtime.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, read_config
from vdla.runtime.cli.output import emit_json, note, write_file

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vdla.isa.asm import Assembly
    from vdla.program import Program

__all__ = ["asm", "disasm"]

UopRun: TypeAlias = "tuple[int, npt.NDArray[np.uint32]]"
"""Address in memory of the first micro-op, and the micro-ops."""

INSTRUCTION_BYTES = 16
UOP_BYTES = 4


def disasm(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A .vdla file, or bare instructions, 16 bytes each, little-endian."
        ),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    program: Annotated[
        int | None,
        typer.Option(
            "--program", metavar="K", help="Only program K of a file that holds several; from 0."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print a program's micro-ops and instructions as assembly that vdla asm reads."""
    from vdla.isa.asm import disassemble

    programs = _programs(file, config)
    if program is not None:
        if not 0 <= program < len(programs):
            raise InputError(
                f"--program must be one of the {len(programs)} programs of {file}, from 0, not "
                f"{program}."
            )
        programs = programs[program : program + 1]
    texts = [disassemble(each, uops) for each, uops in programs]
    if as_json:
        emit_json([text.splitlines() for text in texts])
        return
    for index, text in enumerate(texts):
        if len(texts) > 1:
            typer.echo(f"# program {index} of {len(texts)}")
        typer.echo(text, nl=False)


def asm(
    file: Annotated[Path, typer.Argument(metavar="FILE.s", help="A program in assembly.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE.bin", help="Where the instructions go."),
    ],
    uops: Annotated[
        Path | None,
        typer.Option(
            "--uops", metavar="FILE.bin", help="Where the micro-ops go: memory from address 0 on."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="NAME|FILE.toml",
            help="What to encode for; by default what the text's .config says.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Assemble a program into bare instructions, 16 bytes each, little-endian."""
    from vdla.isa.asm import assemble

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AssemblyError(f"A program in assembly must be a text file: {file}: {error}") from None
    assembly = assemble(text, None if config is None else read_config(config))
    program = assembly.program
    write_file(output, program.instructions.astype("<u8").tobytes())
    count = sum(len(words) for _, words in assembly.uops)
    if uops is not None:
        write_file(uops, _uop_image(assembly))
    elif count:
        note(f"{count} micro-ops are not in {output}; --uops FILE.bin writes them")
    if as_json:
        emit_json(
            {
                "file": str(output),
                "instructions": len(program),
                "uops": count,
                "config": program.config.name,
                "config_hash": f"{program.config.hash:016x}",
            }
        )
    else:
        typer.echo(f"{output}: {len(program)} instructions for {program.config.name}")


def _uop_image(assembly: Assembly) -> bytes:
    import numpy as np

    end = max((first + len(words) for first, words in assembly.uops), default=0)
    memory = np.zeros(UOP_BYTES * end, np.uint8)
    assembly.place(memory)
    return memory.tobytes()


def _programs(file: Path, config: str) -> list[tuple[Program, list[UopRun]]]:
    """Return each program of a file with the micro-ops that it loads."""
    import numpy as np

    from vdla.module import load
    from vdla.program import Program

    if file.suffix != ".vdla":
        return [(Program(read_config(config), _bare_words(file)), [])]
    module = load(file)
    memory = np.zeros(module.arena_bytes, np.uint8)
    for segment in module.segments:
        memory[segment.offset : segment.offset + len(segment.data)] = segment.data
    return [(program, _loaded_uops(program, memory)) for program in module.programs]


def _loaded_uops(program: Program, memory: npt.NDArray[np.uint8]) -> list[UopRun]:
    from vdla.isa import Load, MemoryType, decode

    rows = {
        (load.dram_base + y * load.x_stride, load.x_size)
        for load in decode(program.instructions, program.config)
        if isinstance(load, Load) and load.memory_type is MemoryType.UOP
        for y in range(load.y_size)
    }
    runs: list[tuple[int, int]] = []  # first and end of what stands together
    for first, count in sorted(rows):
        if runs and first <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(runs[-1][1], first + count)
        else:
            runs.append((first, first + count))
    return [(first, memory[UOP_BYTES * first : UOP_BYTES * end].view("<u4")) for first, end in runs]


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
