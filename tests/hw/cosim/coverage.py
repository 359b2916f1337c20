"""Which lines of the generated design the co-simulation runs.

With ``VDLA_COVERAGE=FOLDER`` in the environment, `machine_of` opens designs that count, and the
session leaves its counts in the folder. Then ``python -m tests.hw.cosim.coverage FOLDER`` says, for
each configuration, how much has run and what has not.

A *line* is one of the Verilog in a process, an assignment or the condition or arm that it stands
under, or a continuous assignment with a condition; others always run, and Verilator does not count
them. A *branch* is an arm of an if or a case, one without a line as well, or a side of a condition.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vdla.config import Config
from vdla.gateware.export import to_verilog
from vdla.gateware.top import Top
from vdla.runtime.rtl import Simulation

__all__ = ["Report", "folder", "opened", "read", "write"]

_POINT = re.compile(r"C '(?P<fields>.*)' (?P<count>\d+)")
_FIELD = re.compile("\x01(?P<key>[^\x02]*)\x02(?P<value>[^\x01]*)")
_MODULE = re.compile(r"^module (\S+?)\s*\(")
_NEVER = re.compile(r"^\s*if \(\\\$auto\$verilog_backend")
"""What yosys writes so that a process without inputs is evaluated at all; it is never true."""

_opened: list[tuple[Config, Simulation]] = []


def folder() -> Path | None:
    """Return where counts go, None where nothing counts."""
    name = os.environ.get("VDLA_COVERAGE")
    return Path(name) if name else None


def opened(config: Config, simulation: Simulation) -> None:
    """Remember a design that counts."""
    _opened.append((config, simulation))


def write(to: Path) -> None:
    """Write what every design of this process has counted."""
    to.mkdir(parents=True, exist_ok=True)
    for number, (config, simulation) in enumerate(_opened):
        name = f"{config.hash:016x}"
        (to / f"{name}.toml").write_text(config.to_toml(), encoding="utf-8")
        simulation.write_coverage(to / f"{name}-{os.getpid()}-{number}.dat")


@dataclass(frozen=True)
class Report:
    """What of one configuration's design has run.

    Attributes
    ----------
    config : Config
    verilog : sequence of str
        Its lines.
    lines : mapping of int to int
        How often each line that counts has run, by its number, from 1.
    branches : mapping of (int, int, str) to int
        The same of arms, by line, column, and whether it is an ``if``, its ``else`` or a ``case``.
    """

    config: Config
    verilog: list[str]
    lines: Counter[int]
    branches: Counter[tuple[int, int, str]]

    @property
    def line_share(self) -> float:
        return _share(self.lines.values())

    @property
    def branch_share(self) -> float:
        return _share(self.branches.values())

    def missing(self) -> Iterator[str]:
        """Yield module, line number and text of each line and branch that has not run."""
        modules, module = [""], ""
        for text in self.verilog:
            if match := _MODULE.match(text):
                module = match[1].lstrip("\\")
            modules.append(module)
        branches = {(line, kind) for (line, _, kind), count in self.branches.items() if not count}
        missing = {(line, "line") for line, count in self.lines.items() if not count}
        missing |= {(line, kind) for line, kind in branches if (line, "line") not in missing}
        for line, kind in sorted(missing):
            yield f"{modules[line]}:{line}, {kind}: {self.verilog[line - 1].strip()}"

    def __str__(self) -> str:
        """Return the shares, and below them what is missing."""
        c = self.config
        total = (
            f"{c.name}, {c.batch}x{c.block_in}x{c.block_out}, AXI{c.axi_version} of "
            f"{c.axi_data_bits} bits: {self.line_share:.2%} of {len(self.lines)} lines, "
            f"{self.branch_share:.2%} of {len(self.branches)} branches"
        )
        return "\n  ".join([total, *self.missing()])


def read(where: Path) -> list[Report]:
    """Return a report for each configuration that has counts in a folder."""
    reports = []
    for path in sorted(where.glob("*.toml")):
        config = Config.from_toml(path)
        verilog = to_verilog(Top(config)).splitlines()
        lines: Counter[int] = Counter()
        branches: Counter[tuple[int, int, str]] = Counter()
        for counts in sorted(where.glob(f"{path.stem}-*.dat")):
            _add(counts.read_text(encoding="utf-8"), verilog, lines, branches)
        reports.append(Report(config, verilog, lines, branches))
    return reports


def _add(
    text: str, verilog: list[str], lines: Counter[int], branches: Counter[tuple[int, int, str]]
) -> None:
    for point in _POINT.finditer(text):
        fields = {m["key"]: m["value"] for m in _FIELD.finditer(point["fields"])}
        count, line = int(point["count"]), int(fields["l"])
        if _NEVER.match(verilog[line - 1]):
            continue
        if fields["o"] != "block":
            branches[line, int(fields["n"]), fields["o"]] += count
        for number in _numbers(fields.get("S", "")):
            if not _NEVER.match(verilog[number - 1]):
                lines[number] += count


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of ``3-5,8``."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _share(counts: Iterable[int]) -> float:
    values = list(counts)
    return sum(map(bool, values)) / len(values) if values else 0.0


if __name__ == "__main__":
    for report in read(Path(sys.argv[1])):
        print(report)
