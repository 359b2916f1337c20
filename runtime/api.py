"""Compiling and running networks in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import PYNQ_Z1, Config
from vdla.errors import InputError
from vdla.module import Module, TensorInfo
from vdla.module import load as load_module
from vdla.module import save as save_module
from vdla.program import Program
from vdla.runtime.device import Counters
from vdla.runtime.devices import open_device
from vdla.runtime.executor import Outcome, execute, groups_of, memory_bytes
from vdla.runtime.inputs import images_in, join_outputs, part_inputs
from vdla.runtime.modules import fingerprint, kept
from vdla.runtime.run import Run
from vdla.runtime.waves import Waves

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph
    from vdla.compiler.ops import Record

__all__ = ["Network", "Run", "compile", "load", "read_graph"]

Array = NDArray[Any]
Progress = Callable[[int, int, str], None]

RANKS = ("estimate", "cycle")
"""What may choose among schedules."""

_MEMORY_BYTES = 256 << 20
"""What the images that run at once may take in a simulator."""


def compile(
    model: str | Path | Graph,
    *,
    config: Config = PYNQ_Z1,
    bind: Mapping[str, int] | None = None,
    vthreads: int = 2,
    place: Mapping[str, str] | None = None,
    rank: str = "estimate",
    without: Collection[str] = (),
    cache: bool = True,
    record: Callable[[Record], None] | None = None,
    progress: Progress | None = None,
) -> Network:
    """Compile a network for the accelerator.

    What was compiled before from the same model, configuration, options and version of the
    compiler is read from the cache directory (environment variable ``VDLA_CACHE``).

    Parameters
    ----------
    model : str, Path or Graph
        A ``.tflite`` or ``.onnx`` file, the name of a built-in network, or a graph.
    config : Config
    bind : mapping of str to int, optional
        Sizes of an ONNX model's symbolic dimensions by name; its batch is 1 without.
    vthreads : int
        Virtual threads of each operator's schedule: 2 hides the memory's latency.
    place : mapping of str to str, optional
        ``'cpu'`` or ``'vdla'`` by node name, for operators that are not to go where they would.
    rank : str
        What chooses among the schedules of a convolution: ``estimate``, the compiler's analytic
        one, or ``cycle``, the cycle model on the best of those, which takes minutes.
    without : collection of str
        Passes to leave out, to see what each is worth: keys of `vdla.compiler.network.PASSES`,
        and for an ONNX model of `vdla.compiler.passes.PASSES`.
    cache : bool
        Whether compiled networks are kept and found again.
    record : callable, optional
        Called with the schedule of each convolution that is compiled; none is read from the cache.
    progress : callable, optional
        Called with the steps done, the steps in all, and what is being worked on.

    Raises
    ------
    InputError
        There is no virtual thread, or no such rank.
    ModelError
        The network cannot be read, or holds operators that nothing takes.
    LoweringError
        A layer fits the buffers at no tiling.
    """
    if vthreads < 1:
        raise InputError(f"vthreads must be at least 1, not {vthreads}: 2 hides latency.")
    if rank not in RANKS:
        raise InputError(f"rank must be one of {', '.join(RANKS)}, not {rank!r}.")
    options = {
        "bind": sorted((bind or {}).items()),
        "vthreads": vthreads,
        "place": list((place or {}).items()),  # of two patterns the later one goes first
        "rank": rank,
        "without": sorted(without),
    }

    def make() -> Module:
        from vdla.compiler.network import compile_graph
        from vdla.compiler.passes import PASSES

        measure = None
        if rank == "cycle":
            from vdla.runtime.ranking import cycle_rank

            measure = cycle_rank(config)
        of_graphs = PASSES.keys() & set(without)
        return compile_graph(
            read_graph(model, bind, of_graphs),
            config,
            vthreads=vthreads,
            place=place,
            rank=measure,
            without=set(without) - of_graphs,
            record=record,
            progress=progress,
        )

    if not cache or record is not None:
        return Network(make())
    return Network(kept(fingerprint(model, config, options), config, make))


def read_graph(
    model: str | Path | Graph,
    bind: Mapping[str, int] | None = None,
    without: Collection[str] = (),
) -> Graph:
    """Return the graph of a network: of a file, of one that is built in, or itself.

    Parameters
    ----------
    model : str, Path or Graph
        As `compile` takes it.
    bind : mapping of str to int, optional
        Sizes of an ONNX model's symbolic dimensions by name.
    without : collection of str
        Passes over an ONNX model's graph to leave out.

    Raises
    ------
    InputError
        `bind` is given with what has no symbolic dimensions.
    ModelError
        The network cannot be read, or holds operators that are not taken.
    """
    from vdla.compiler.graph import Graph, import_tflite

    if not isinstance(model, (str, Path, Graph)):
        raise InputError(
            f"A network must be a path, a name or a Graph, not {type(model).__name__}: give one."
        )
    if not isinstance(model, Graph) and str(model).lower().endswith(".onnx"):
        from vdla.compiler.onnx import import_onnx

        return import_onnx(model, bind=bind, without=without)
    if bind:
        name = model.name if isinstance(model, Graph) else model
        raise InputError(f"Only an ONNX model has dimensions to bind, not {name}: leave bind out.")
    if isinstance(model, Graph):
        return model
    if Path(model).suffix or Path(model).exists():
        return import_tflite(model)
    from vdla.compiler.zoo import built_in

    return built_in(str(model))


def load(path: str | Path, config: Config | None = None) -> Network:
    """Read a compiled network.

    Parameters
    ----------
    path : path
    config : Config, optional
        The machine it is meant for; another one than it was compiled for is refused.

    Raises
    ------
    ModuleError
        The file is not a compiled network, is damaged, or is for another configuration or version.
    """
    return Network(load_module(path, config))


class Network:
    """A compiled network.

    Parameters
    ----------
    module : Module
        What `compile` makes and ``.vdla`` files hold.
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.module.name

    @property
    def config(self) -> Config:
        """The configuration it was compiled for."""
        return self.module.config

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs, in the order they run."""
        return self.module.programs

    @property
    def inputs(self) -> Mapping[str, TensorInfo]:
        """What each input takes, by name."""
        return {name: self.module.tensors[name] for name in self.module.inputs}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one image of the first input, batch first."""
        return self.module.tensors[self.module.inputs[0]].shape

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Type of the first input."""
        return np.dtype(self.module.tensors[self.module.inputs[0]].dtype)

    def save(self, path: str | Path) -> None:
        """Write the network to a ``.vdla`` file.

        Raises
        ------
        ModuleError
            The file cannot be written.
        """
        save_module(self.module, path)

    def run(
        self,
        inputs: Array | Mapping[str, Array],
        *,
        device: str = "cycle",
        check: bool = False,
        progress: Progress | None = None,
        max_images_at_once: int | None = None,
        waves: Waves | None = None,
    ) -> Run:
        """Run the network on images.

        Parameters
        ----------
        inputs : array or mapping of str to array
            One image (H, W, C) or several (n, H, W, C), of the input's dtype. An input of another
            shape than (1, ...) comes in that shape, or with n on an axis before it.
        device : str
            ``functional``: results only; ``cycle``: results and exact timing; ``rtl``: the
            gateware, simulated.
        check : bool
            Compare every layer with the integer interpreter.
        progress : callable, optional
            Called with the steps done, the steps in all, and what runs.
        max_images_at_once : int, optional
            How many images a simulator holds at a time; by default as many as 256 MiB take.
        waves : Waves, optional
            Signals of the first image's run to write; the device is ``rtl``.

        Raises
        ------
        InputError
            An input has the wrong shape or dtype, or there is none; or waves are asked of another
            device.
        DeviceError
            There is no such device.
        """
        at_once = self._images_at_once(max_images_at_once)
        parts, stacked = part_inputs(self.module, inputs, at_once)
        counts = [images_in(self.module, part) for part in parts]
        tell = _counting(progress, len(parts) * self._computing_steps() * (2 if check else 1))
        outputs: list[dict[str, Array]] = []
        counters: list[Counters] = []
        seconds, difference = 0.0, None
        for index, part in enumerate(parts):
            shown = None if index else waves
            outcome = self._execute(self.module, part, device, tell, waves=shown)
            outputs.append({name: self._output(outcome, name) for name in self.module.outputs})
            counters = counters or outcome.counters
            seconds += sum(c.cpu_seconds for c in outcome.counters)
            if check and difference is None:
                first = sum(counts[:index])
                difference = self._difference(part, first, outcome, device, tell)
        return Run(
            module=self.module,
            outputs=join_outputs(self.module, outputs, stacked),
            counters=counters,
            sim_seconds=seconds,
            passes=sum(groups_of(count, self.module) for count in counts),
            images_a_pass=min(counts[0], self.config.batch),
            bit_exact=difference is None if check else None,
            first_difference=difference,
        )

    def _execute(
        self,
        module: Module,
        inputs: Mapping[str, Array],
        device: str,
        tell: Callable[[str], None],
        keep: bool = False,
        waves: Waves | None = None,
    ) -> Outcome:
        groups = groups_of(images_in(module, inputs), module)
        target = open_device(device, module.config, groups, waves=waves)
        try:
            return execute(module, inputs, target, keep=keep, progress=tell)
        finally:
            target.close()

    def _difference(
        self,
        inputs: Mapping[str, Array],
        first: int,
        outcome: Outcome,
        device: str,
        tell: Callable[[str], None],
    ) -> str | None:
        """Compare layers in a run that keeps them all, and outputs in the run that was counted."""
        from vdla.compiler.reference import Interpreter
        from vdla.runtime import check

        interpreter = Interpreter(check.graph_of(self.module))
        expected = interpreter.run(inputs, keep_all=True, rounded=outcome.values)
        apart = check.spread(self.module)
        kept = self._execute(apart, inputs, device, tell, keep=True)
        found = check.first_difference(apart, kept, outcome.values, expected)
        if found is None:
            return None
        return str(found.at_image(first) if self.module.per_image else found.in_image(first))

    def _output(self, outcome: Outcome, name: str) -> Array:
        constant = self.module.tensors[name].data
        return outcome.values[name] if constant is None else constant

    def _images_at_once(self, wanted: int | None) -> int:
        if wanted is not None and wanted < 1:
            raise InputError(f"max_images_at_once must be at least 1, not {wanted}.")
        batch = self.config.batch
        fitting = max(1, _MEMORY_BYTES // memory_bytes(self.module)) * batch
        return fitting if wanted is None else wanted

    def _computing_steps(self) -> int:
        from vdla.module import Execute, Launch

        return sum(isinstance(step, (Execute, Launch)) for step in self.module.steps)


def _counting(progress: Progress | None, total: int) -> Callable[[str], None]:
    done = iter(range(total))

    def tell(doing: str) -> None:
        if progress is not None:
            progress(next(done), total, doing)

    return tell
