"""Text assembly: a program as lines that `assemble` reads and `disassemble` writes.

::

    .config pynq-z1                 # a named configuration, or fields: .config batch=2 ...
    .uop 0x40: 0,0,0 0,1,1          # micro-ops dst,src,wgt at that element of memory
    .layer "conv1"                  # the layer of the instructions that follow
    load.uop  sram=0 dram=0x40 x=2
    load.inp  sram=0 dram=0x10 y=14 x=14 stride=56 pad=1,1,1,1 fill=-3 ; push_next
    gemm      uop=0:2 loop=14,14 dst=14,1 src=16,1 ; pop_prev push_next
    rq        uop=0:1 loop=1,196 dst=0,1 clip=-128,127
    .word 0x0000000000000003 0x0000000000000000   # an instruction as it is encoded
    finish

Operands that are left out have their default. Dependence flags follow a semicolon, a comment a
number sign.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.config import PRESETS, PYNQ_Z1, Config, named
from vdla.errors import AssemblyError, ConfigError, EncodingError
from vdla.program import Program

from .codec import decode_one, decode_uops, encode_one, encode_uops
from .listing import line_of
from .parser import integer, parse_instruction

__all__ = ["Assembly", "assemble", "disassemble"]

_MASK64 = (1 << 64) - 1
_UOPS_A_LINE = 8


@dataclass(frozen=True, eq=False)
class Assembly:
    """What a text assembles to.

    Parameters
    ----------
    program : Program
    uops : tuple of (int, ndarray of uint32)
        Micro-ops and where in memory they belong: the ``dram_base`` of the first.
    """

    program: Program
    uops: tuple[tuple[int, NDArray[np.uint32]], ...]

    def place(self, dram: NDArray[np.uint8], base: int = 0) -> None:
        """Write the micro-ops into a memory image, shape (..., bytes)."""
        for first, words in self.uops:
            start = base + 4 * first
            raw = words.astype("<u4").view(np.uint8)
            if start + len(raw) > dram.shape[-1]:
                raise AssemblyError(
                    f"The memory image must hold the micro-ops at {first:#x}: they end at byte "
                    f"{start + len(raw)}, not at {dram.shape[-1]}."
                )
            dram[..., start : start + len(raw)] = raw


class _Assembler:
    def __init__(self, config: Config | None) -> None:
        self.config = config
        self.given = config is not None
        self.words: list[int] = []
        self.labels: list[str] = []
        self.layer = -1
        self.layer_of: list[int] = []
        self.uops: list[tuple[int, list[int]]] = []

    @property
    def encoding(self) -> Config:
        """The configuration, settled by the first line that needs it."""
        if self.config is None:
            self.config = PYNQ_Z1
        return self.config

    def line(self, text: str) -> None:
        directive, _, rest = text.partition(" ")
        if directive == ".config":
            self._config(rest.split())
        elif directive == ".layer":
            self._layer(rest.strip())
        elif directive == ".uop":
            self._uops(rest)
        elif directive == ".word":
            self._emit(_word(rest.split()))
        elif directive.startswith("."):
            raise AssemblyError(
                f"a directive must be one of .config, .layer, .uop, .word, not {directive}."
            )
        else:
            self._emit(encode_one(parse_instruction(text), self.encoding))

    def _emit(self, word: int) -> None:
        self.words.append(word)
        self.layer_of.append(self.layer)

    def _config(self, operands: list[str]) -> None:
        if self.config is not None and not self.given:
            raise AssemblyError(".config must stand once, before all instructions and micro-ops.")
        if len(operands) == 1 and "=" not in operands[0]:
            config = named(operands[0])
        else:
            pairs = (operand.partition("=") for operand in operands)
            config = Config.from_dict({k: v if k == "name" else _field(v) for k, _, v in pairs})
        if self.given and config != self.config:
            raise AssemblyError(
                f".config must name the configuration that is asked for, {self.encoding.name}, "
                f"not {config.name}."
            )
        self.config = config

    def _layer(self, name: str) -> None:
        if not name:
            self.layer = -1
            return
        try:
            label = str(json.loads(name)) if name.startswith('"') else name
        except ValueError:
            raise AssemblyError(
                f"a layer's name must be a word or a quoted string, not {name}."
            ) from None
        if label not in self.labels:
            self.labels.append(label)
        self.layer = self.labels.index(label)

    def _uops(self, rest: str) -> None:
        first, colon, entries = rest.partition(":")
        if not colon:
            raise AssemblyError(".uop must be followed by an address, a colon and micro-ops.")
        words = [_uop(entry, self.encoding) for entry in entries.split()]
        self.uops.append((integer(first.strip(), "an address"), words))

    def result(self) -> Assembly:
        config = self.encoding
        pairs = [(word & _MASK64, word >> 64) for word in self.words]
        program = Program(
            config,
            np.array(pairs, dtype="<u8").reshape(-1, 2),
            tuple(self.labels),
            np.array(self.layer_of, dtype=np.int64),
        )
        return Assembly(program, tuple((at, np.array(w, "<u4")) for at, w in _joined(self.uops)))


def assemble(text: str, config: Config | None = None) -> Assembly:
    """Assemble text.

    Parameters
    ----------
    text : str
    config : Config, optional
        What to encode for; by default what the text's ``.config`` says, else `PYNQ_Z1`.

    Raises
    ------
    AssemblyError
        Names the line, the rule and what stands there.
    """
    assembler = _Assembler(config)
    for number, line in enumerate(text.splitlines(), 1):
        code = _without_comment(line).strip()
        if not code:
            continue
        try:
            assembler.line(code)
        except (AssemblyError, ConfigError, EncodingError) as error:
            raise AssemblyError(f"Line {number}: {error}") from None
    return assembler.result()


def disassemble(
    program: Program, uops: Iterable[tuple[int, NDArray[np.uint32]]] = (), *, indices: bool = False
) -> str:
    """Return a program as text that assembles to the same bits.

    Words that encode no legal instruction, or set bits that no field names, become ``.word``
    with the reason beside it.

    Parameters
    ----------
    uops : iterable of (int, ndarray of uint32)
        Micro-ops to list, with the ``dram_base`` of the first of each run.
    indices : bool
        Append each instruction's index as a comment.
    """
    config = program.config
    lines = [f".config {_config_text(config)}"]
    lines += [line for first, words in uops for line in _uop_lines(first, words, config)]
    layer = -1
    for index, (low, high) in enumerate(program.instructions.tolist()):
        if program.layer_of[index] != layer:
            layer = int(program.layer_of[index])
            lines.append(f".layer {json.dumps(program.labels[layer])}" if layer >= 0 else ".layer")
        line = _instruction_line(low | high << 64, config)
        lines.append(f"{line:<88} # {index}" if indices else line)
    return "\n".join(lines) + "\n"


def _instruction_line(word: int, config: Config) -> str:
    raw = f".word {word & _MASK64:#018x} {word >> 64:#018x}"
    try:
        instruction = decode_one(word, config)
    except EncodingError as error:
        return f"{raw}  # {error}"
    if encode_one(instruction, config) != word:
        return f"{raw}  # {line_of(instruction)}, and bits that no field names"
    return line_of(instruction)


def _without_comment(line: str) -> str:
    """Cut a line at its first number sign outside quotes."""
    quoted = False
    for position, character in enumerate(line):
        if character == '"' and line[position - 1 : position] != "\\":
            quoted = not quoted
        elif character == "#" and not quoted:
            return line[:position]
    return line


def _field(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _config_text(config: Config) -> str:
    if PRESETS.get(config.name) == config:
        return config.name
    standard = Config().to_dict()
    changed = (f"{k}={v}" for k, v in config.to_dict().items() if v != standard[k] and k != "name")
    return " ".join([*changed, f"name={config.name.replace(' ', '-') or 'custom'}"])


def _word(operands: list[str]) -> int:
    if len(operands) != 2:
        raise AssemblyError(f".word must have two halves, the low one first, not {len(operands)}.")
    low, high = (integer(operand, "half an instruction") for operand in operands)
    if not (0 <= low <= _MASK64 and 0 <= high <= _MASK64):
        raise AssemblyError("half an instruction must fit 64 bits.")
    return low | high << 64


def _uop(text: str, config: Config) -> int:
    parts = [integer(part, "an index") for part in text.split(",")]
    if len(parts) == 1 and 0 <= parts[0] < 1 << 32:
        return parts[0]
    if len(parts) != 3:
        raise AssemblyError(f"a micro-op must be dst,src,wgt or one 32-bit word, not {text}.")
    dst, src, wgt = parts
    return int(encode_uops([dst], [src], [wgt], config)[0])


def _uop_lines(first: int, words: NDArray[np.uint32], config: Config) -> Iterator[str]:
    dst, src, wgt = decode_uops(words, config)
    regular = encode_uops(dst, src, wgt, config) == words
    texts = [
        f"{d},{s},{w}" if plain else f"{word:#010x}"
        for d, s, w, plain, word in zip(dst, src, wgt, regular, words.tolist(), strict=True)
    ]
    for at in range(0, len(texts), _UOPS_A_LINE):
        yield f".uop {first + at:#x}: {' '.join(texts[at : at + _UOPS_A_LINE])}"


def _joined(runs: Sequence[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """Join runs that follow each other in memory."""
    joined: list[tuple[int, list[int]]] = []
    for first, words in runs:
        if joined and joined[-1][0] + len(joined[-1][1]) == first:
            joined[-1][1].extend(words)
        else:
            joined.append((first, list(words)))
    return joined
