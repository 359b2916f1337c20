"""A compiled network timed by the cycle model: what traces, plots and reports are drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import InputError
from vdla.isa import Opcode
from vdla.module import Launch, Module
from vdla.runtime.streams import MODULES
from vdla.sim import cycle

if TYPE_CHECKING:
    import pandas as pd

    from vdla.runtime.network import Network

__all__ = ["Part", "Slices", "Timeline"]

_WORK = ("gemm", "alu", "load")
"""What the busy cycles of compute are spent on."""


@dataclass(frozen=True)
class Slices:
    """The time each instruction of a module holds the part of it that works, in order.

    Instructions of a module overlap between start and finish; these do not: a LOAD or STORE holds
    the write stage or the data channel, a GEMM or ALU the issue stage.

    Attributes
    ----------
    instruction : ndarray of int64, shape (n,)
        Index in the program.
    begin, end : ndarray of int64, shape (n,)
        First cycle, and the one past the last.
    busy : ndarray of int64, shape (n,)
        How many of those cycles write or issue something.
    """

    instruction: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """One program of the timeline.

    Attributes
    ----------
    index : int
        Of the program in the module file.
    begin : int
        Cycles of the programs before it; its own cycle 0.
    result : CycleResult
    """

    index: int
    begin: int
    result: cycle.CycleResult

    def slices(self, module: str) -> Slices:
        """Return what the instructions of ``load``, ``compute`` or ``store`` hold; own cycles."""
        m = [name.value for name in MODULES].index(module)
        result = self.result
        mine = np.flatnonzero(result.table.columns["module"] == m)
        log = result.state.log[mine]
        begin, end = log["first_write"], log["end_write"]
        seen = begin < result.cycles
        end = np.minimum(end, result.cycles)
        busy = np.minimum(log["busy"], end - begin)
        return Slices(mine[seen], begin[seen], end[seen], busy[seen])


@dataclass(frozen=True, eq=False)
class Timeline:
    """The programs of a network one after another, each with its exact timing.

    Attributes
    ----------
    module : Module
    config : Config
        The machine that it was timed on.
    parts : tuple of Part
        In the order they run.
    """

    module: Module
    config: Config
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, network: Network, **changes: Any) -> Timeline:
        """Time a network; data do not matter, so none are computed.

        Parameters
        ----------
        network : Network
        **changes
            Fields of the configuration that do not change what the programs mean:
            ``dram_latency_cycles``, ``dram_bytes_per_cycle``, ``axi_data_bits``,
            ``axi_outstanding``, ``axi_burst_beats``, queue depths. The same programs are timed
            on the machine so changed.

        Raises
        ------
        InputError
            Nothing of the network runs on the accelerator, or a change needs it compiled again.
        ConfigError
            There is no such machine.
        """
        return cls.of_module(network.module, **changes)

    @classmethod
    def of_module(cls, module: Module, **changes: Any) -> Timeline:
        """As `of`, of what a ``.vdla`` file holds."""
        if not module.programs:
            raise InputError(
                f"A timeline needs a program, and nothing of {module.name} runs on the "
                "accelerator: vdla import MODEL says why."
            )
        unfit = sorted(changes.keys() - _RETIMED)
        if unfit:
            raise InputError(
                f"A timeline may change {', '.join(sorted(_RETIMED))}, not {', '.join(unfit)}: "
                "compile the network for that configuration."
            )
        config = module.config.replace(name=module.config.name, **changes)
        memory = _memory_of(module)
        parts, begin = [], 0
        for step in module.steps:
            if isinstance(step, Launch):
                program = replace(module.programs[step.program], config=config)
                result = cycle.time(program, memory)
                parts.append(Part(step.program, begin, result))
                begin += result.cycles
        return cls(module, config, tuple(parts))

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.module.name

    @property
    def cycles(self) -> int:
        """Cycles of all programs together."""
        return sum(part.result.cycles for part in self.parts)

    @property
    def images(self) -> int:
        """Images that one pass computes."""
        return self.config.batch if self.module.per_image else 1

    @property
    def milliseconds(self) -> float:
        """Time on the accelerator at the configuration's clock."""
        return self.cycles / self.config.clock_mhz / 1000

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """Cycles of each module by cause, all programs together."""
        total: dict[str, dict[str, int]] = {}
        for part in self.parts:
            for module, causes in part.result.counters.items():
                mine = total.setdefault(module, dict.fromkeys(causes, 0))
                for cause, count in causes.items():
                    mine[cause] += count
        return total

    @cached_property
    def layers(self) -> pd.DataFrame:
        """A row a layer of the accelerator that stores something, in the order of the last stores.

        Columns ``name``, ``op``, ``begin`` and ``end`` (its window in cycles), ``cycles``, ``macs``
        (of all images of a pass), ``mac_utilization`` (NaN without any), ``bytes_read``,
        ``bytes_written``, for each module and cause the cycles in ``load_busy``,
        ``compute_memory``, …, and in ``compute_gemm``, ``compute_alu`` (with FINISH's one slot) and
        ``compute_load`` what ``compute_busy`` is made of. Sums over the windows are the network's.
        """
        import pandas as pd

        specs = {layer.name: layer for layer in self.module.layers}
        peak = self.config.macs_per_cycle
        rows = []
        for part in self.parts:
            layers = part.result.layers
            work = _work(part, [layer.end for layer in layers])
            for index, layer in enumerate(layers):
                macs = specs[layer.name].macs * self.images
                rows.append(
                    {
                        "name": layer.name,
                        "op": specs[layer.name].op,
                        "begin": part.begin + layer.begin,
                        "end": part.begin + layer.end,
                        "cycles": layer.cycles,
                        "macs": macs,
                        "mac_utilization": macs / (layer.cycles * peak) if macs else np.nan,
                        "bytes_read": layer.bytes_read,
                        "bytes_written": layer.bytes_written,
                        **{
                            f"{module}_{cause}": count
                            for module, causes in layer.waiting.items()
                            for cause, count in causes.items()
                        },
                        **{f"compute_{kind}": int(work[kind][index]) for kind in _WORK},
                    }
                )
        return pd.DataFrame(rows)

    def token_levels(self, queue: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return when a token queue's level changes, and the level from then on."""
        return self._joined(lambda part: part.result.token_levels(queue))

    def command_levels(self, module: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return when a command queue's level changes, and the level from then on.

        An entry is taken in the cycle after the dispatch and free in the one after the start.
        """
        return self._joined(lambda part: _command_levels(part.result, module))

    def _joined(self, levels_of: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        pairs = [(part.begin, *levels_of(part)) for part in self.parts]
        return (
            np.concatenate([begin + cycles for begin, cycles, _ in pairs]),
            np.concatenate([levels for _, _, levels in pairs]),
        )

    def memory(self) -> NDArray[np.uint8]:
        """Return the memory as it stands before anything runs, micro-ops included."""
        return _memory_of(self.module)

    def windows(self) -> Iterator[tuple[str, int, int]]:
        """Yield the name, first cycle and the one past the last of each layer."""
        for part in self.parts:
            for layer in part.result.layers:
                yield layer.name, part.begin + layer.begin, part.begin + layer.end


_RETIMED = frozenset(
    {
        "axi_burst_beats",
        "axi_data_bits",
        "axi_outstanding",
        "axi_version",
        "clock_mhz",
        "command_queue_depth",
        "dram_bytes_per_cycle",
        "dram_latency_cycles",
        "token_queue_depth",
    }
)
"""What a program does not see of the machine that runs it."""


def _memory_of(module: Module) -> NDArray[np.uint8]:
    memory = np.zeros(module.arena_bytes, np.uint8)
    for segment in module.segments:
        memory[segment.offset : segment.offset + len(segment.data)] = segment.data
    return memory


def _command_levels(
    result: cycle.CycleResult, module: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    m = [name.value for name in MODULES].index(module)
    log = result.state.log[result.table.columns["module"] == m]
    taken = np.sort(log["dispatch"][log["dispatch"] < result.cycles]) + 1
    freed = np.sort(log["start"][log["start"] < result.cycles]) + 1
    cycles = np.unique(np.concatenate([taken, freed]))
    levels = np.searchsorted(taken, cycles, "right") - np.searchsorted(freed, cycles, "right")
    return cycles, levels.astype(np.int64)


def _work(part: Part, ends: list[int]) -> dict[str, NDArray[np.int64]]:
    """Return the busy cycles of compute in each window by what they are spent on."""
    slices = part.slices("compute")
    opcode = part.result.table.columns["opcode"][slices.instruction]
    kinds = np.select([opcode == Opcode.GEMM, opcode == Opcode.LOAD], [0, 2], 1)
    begin, end = slices.begin, slices.begin + slices.busy
    edges = np.concatenate(([0], ends))
    found = {}
    for index, kind in enumerate(_WORK):
        mine = kinds == index
        # Busy cycles before an edge: whole slices, and what the one across it has had by then.
        done = np.concatenate(([0], np.cumsum((end - begin)[mine])))
        at = np.searchsorted(end[mine], edges, "right")
        across = np.append(begin[mine], part.result.cycles)[at]
        before = done[at] + np.maximum(edges - across, 0)
        found[kind] = np.diff(before)
    return found
