"""Compiling and running networks in a few lines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.arguments import sizes_by_name, whole_number
from vdla.config import PYNQ_Z1, Config
from vdla.errors import InputError, ModelError, VdlaWarning
from vdla.module import GPU_TARGETS, Module
from vdla.module import load as load_module
from vdla.runtime.modules import fingerprint, kept
from vdla.runtime.network import Network, Progress

if TYPE_CHECKING:
    from vdla.compiler.gpu.tuning import GpuMachine
    from vdla.compiler.graph import Graph
    from vdla.compiler.network.runs import CompileGpu, CompileNative
    from vdla.compiler.ops import LoweredNode
    from vdla.compiler.tune.database import Database

__all__ = ["KERNELS", "compile", "load", "read_graph"]

RANKS = ("estimate", "cycle")
"""What may choose among schedules."""

KERNELS = (*GPU_TARGETS, "ptx")
"""What kernels are written in; ptx is CUDA C, and the same as NVIDIA's assembly."""

FLOATS = ("float16", "float32")
"""How floats may lie in the memory of a GPU."""

WINOGRAD = (2, 4)
"""Rows and columns of the tiles that Winograd's algorithms have."""

TARGETS = ("vdla", "cpu", *KERNELS)
"""What a network is compiled for: the accelerator and a processor beside it, or one thing alone."""


def compile(
    model: str | Path | Graph,
    *,
    target: str = "vdla",
    cpu: str | None = None,
    gpu: str | None = None,
    dtype: str | None = None,
    winograd: int = 0,
    matrices: bool = False,
    config: Config = PYNQ_Z1,
    bind: Mapping[str, int] | None = None,
    vthreads: int = 2,
    place: Mapping[str, str] | None = None,
    rank: str = "estimate",
    records: str | Path | Database | None = None,
    threads: int = 1,
    device: str | None = None,
    without: Collection[str] = (),
    cache: bool = True,
    lowered_as: Callable[[Mapping[str, LoweredNode]], None] | None = None,
    progress: Progress | None = None,
) -> Network:
    """Compile a network for the accelerator, or for the processor or a GPU alone.

    What was compiled before from the same model, configuration, options and version of the
    compiler is read from the cache directory (environment variable ``VDLA_CACHE``).

    Parameters
    ----------
    model : str, Path or Graph
        A ``.tflite`` or ``.onnx`` file, a layer list (``.csv`` as SCALE-Sim's, ``.yaml`` as
        Timeloop's or ZigZag's), the name of a built-in network, or a graph.
    target : str
        ``vdla``: what the accelerator takes goes there; ``cpu``: everything runs on the processor,
        as machine code; ``opencl``, ``cuda``, ``ptx`` or ``metal``: everything runs on a GPU,
        as kernels.
    cpu : str, optional
        The processor's level, ``host`` for this machine's or a name of
        `vdla.compiler.targets.cpu.LEVELS` such as ``armv7-neon``: what runs on the processor is
        compiled for it. By default, with the target ``cpu``, this machine's; else numpy computes
        it.
    gpu : str, optional
        With the target ``vdla``: ``opencl``, ``cuda``, ``ptx`` or ``metal``. What stays off the
        accelerator goes to a GPU as far as there are kernels for it, and the rest to the processor.
    dtype : str, optional
        With kernels alone: ``float16`` or ``float32``, how weights and activations lie in the
        GPU's memory. Inputs, outputs and arithmetic are float32. By default float32.
    winograd : int
        With kernels: 2 or 4, the rows and columns of tiles by which Winograd's algorithms compute
        convolutions of 3 x 3 of floats; sums are then rounded otherwise. 0: they do not.
    matrices : bool
        With kernels for ``cuda``: whether products of float16 and of 8-bit integers are computed by
        tensor cores, which compute capability 7.2 and later have.
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
    records : str, Path or Database, optional
        A file of schedules that tuning has found, as `vdla tune` writes it: each is taken where
        shape, configuration and template are those that it was found for, before those that come
        with vdla.
    threads : int
        On which machine code is going to run: records are taken that were measured on as many.
    device : str, optional
        On which kernels are going to run, a part of its name: records are taken that were measured
        on it. By default the device that runs them if none is named.
    without : collection of str
        Passes to leave out, to see what each is worth: keys of `vdla.compiler.network.PASSES`,
        and for an ONNX model of `vdla.compiler.passes.PASSES`.
    cache : bool
        Whether compiled networks are kept and found again.
    lowered_as : callable, optional
        Called with the schedule of each operator on the accelerator, by name; then nothing is read
        from the cache.
    progress : callable, optional
        Called with the steps done, the steps in all, and what is being worked on.

    Raises
    ------
    InputError
        An argument is not of its kind, there is no virtual thread, no such rank or no such target,
        `place`, `cpu`, `gpu`, `device`, `dtype`, `winograd` or `matrices` is given with a target
        that it does not go with, `dtype` or `winograd` is another one, or `records` is no file of
        records.
    DeviceError
        There is no such level of a processor, or no linker for it; or no such GPU, where there are
        records of some.
    ModelError
        The network cannot be read, holds operators that nothing takes, or with float16 weights
        beyond its range.
    LoweringError
        A layer fits the buffers at no tiling.
    """
    _check_config(config)
    _check_names(place, without)
    place = _placed_for(target, place)
    level = _level(target, cpu)
    kernels = _kernels(target, gpu)
    _check_dtype(target, dtype)
    _check_products(kernels, winograd, matrices=matrices)
    if rank not in RANKS:
        raise InputError(f"rank must be one of {', '.join(RANKS)}, not {rank!r}: choose one.")
    known = _records(records)
    machine = _machine(kernels, device, known)
    options = {
        "bind": sorted(sizes_by_name(bind).items()),
        "vthreads": whole_number("vthreads", vthreads, "2 hides latency"),
        "place": list((place or {}).items()),  # of two patterns the later one goes first
        "rank": rank,
        "records": known.digest,
        "threads": whole_number("threads", threads, "1 is the calling one"),
        "without": sorted(without),
        "target": target,
        "native": None if level is None else _versions(level),
        "gpu": kernels,
        "device": None if machine is None else machine.device,
        "dtype": dtype,
        "winograd": winograd,
        "matrices": matrices,
    }

    of_kernels = {"dtype": dtype or "float32", "winograd": winograd, "matrices": matrices}

    def make() -> Module:
        from vdla.compiler.network import compile_graph
        from vdla.compiler.passes import PASSES

        measure = None
        if rank == "cycle":
            from vdla.runtime.ranking import cycle_rank

            measure = cycle_rank(config)
        of_graphs = PASSES.keys() & set(without)
        module = compile_graph(
            read_graph(model, bind, of_graphs),
            config,
            vthreads=vthreads,
            place=place,
            rank=measure,
            records=known,
            native=None if level is None else _native(level, known, threads),
            gpu=None
            if kernels is None
            else _gpu(kernels, known, machine, alone=target != "vdla", **of_kernels),
            without=set(without) - of_graphs,
            lowered_as=lowered_as,
            progress=progress,
        )
        if target == "cpu":
            _require_processor(module)
        return module

    if not cache or lowered_as is not None:
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
        `bind` is given with what has no symbolic dimensions, or is not sizes by name.
    ModelError
        The network cannot be read, or holds operators that are not taken.
    """
    from vdla.compiler.graph import Graph, import_tflite
    from vdla.compiler.layers import LAYER_LISTS, import_layers

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
    if str(model).lower().endswith(LAYER_LISTS):
        return import_layers(model)
    if Path(model).suffix or Path(model).exists():
        return import_tflite(model)
    from vdla.compiler.zoo import built_in

    return built_in(str(model))


def _records(file: str | Path | Database | None) -> Database:
    from vdla.compiler.tune.database import Database
    from vdla.runtime.tune.log import Log

    if file is None or isinstance(file, Database):
        return file or Database()
    path = Path(file)
    if not path.is_file():
        raise InputError(f"records must be a file that tuning wrote, and {path} is none: name it.")
    read = Log(path).read()
    for sentence in read.said(path):
        warnings.warn(sentence, VdlaWarning, stacklevel=3)
    return Database(read.records)


def _placed_for(target: str, place: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if target not in TARGETS:
        raise InputError(f"target must be one of {', '.join(TARGETS)}, not {target!r}: choose one.")
    if target == "vdla":
        return place
    if place:
        raise InputError(
            f"place must be left out with the target {target}, where everything is in one place, "
            f"and it is {dict(place)!r}: leave it out, or compile for the target vdla."
        )
    return {"*": "cpu"}


def _level(target: str, cpu: str | None) -> str | None:
    """Return the level of the processor that code is made for; None for none."""
    if target in KERNELS or (cpu is None and target == "vdla"):
        if cpu is not None:
            raise InputError(
                f"cpu must be left out with the target {target}, where nothing is on the "
                f"processor, and it is {cpu!r}: leave it out, or compile for the target vdla."
            )
        return None
    from vdla.compiler.targets.cpu import Target, host_target

    return (host_target() if cpu in (None, "host") else Target.named(str(cpu))).level


def _native(level: str, records: Database, threads: int) -> CompileNative:
    from functools import partial

    from vdla.compiler.network.runs import compile_native
    from vdla.compiler.targets.cpu import Target

    return partial(compile_native, target=Target.named(level), records=records, threads=threads)


def _kernels(target: str, gpu: str | None) -> str | None:
    """Return the language of kernels that are made; None for none."""
    if target in KERNELS:
        if gpu is not None:
            raise InputError(
                f"gpu must be left out with the target {target}, which is one already, and it is "
                f"{gpu!r}: leave it out."
            )
        return target
    if gpu is None:
        return None
    if target != "vdla":
        raise InputError(
            f"gpu must go with the target vdla, which it is beside, not with {target}: leave gpu "
            f"out, or compile for the target {gpu}."
        )
    if gpu not in KERNELS:
        raise InputError(f"gpu must be one of {', '.join(KERNELS)}, not {gpu!r}: choose one.")
    return gpu


def _check_dtype(target: str, dtype: str | None) -> None:
    if dtype is None:
        return
    if target not in KERNELS:
        raise InputError(
            f"dtype must go with the target {', '.join(KERNELS[:-1])} or {KERNELS[-1]}, whose "
            f"kernels it is for, not with {target}: leave dtype out."
        )
    if dtype not in FLOATS:
        raise InputError(f"dtype must be one of {', '.join(FLOATS)}, not {dtype!r}: choose one.")


def _check_products(kernels: str | None, winograd: int, *, matrices: bool) -> None:
    if winograd not in (0, *WINOGRAD):
        raise InputError(
            f"winograd must be {' or '.join(map(str, WINOGRAD))}, rows and columns of a tile, or 0 "
            f"for none, not {winograd!r}: choose one."
        )
    if winograd and kernels is None:
        raise InputError(
            f"winograd must go with kernels, the target or gpu {', '.join(KERNELS[:-1])} or "
            f"{KERNELS[-1]}, and there are none: leave winograd out."
        )
    if matrices and kernels != "cuda":
        raise InputError(
            "matrices must go with kernels for cuda, since only CUDA C has instructions for tensor "
            f"cores here, not with {kernels or 'none'}: leave matrices out, or compile for the "
            "target cuda."
        )


def _gpu(
    target: str,
    records: Database,
    machine: GpuMachine | None,
    *,
    alone: bool,
    **of_kernels: Any,
) -> CompileGpu:
    from functools import partial

    from vdla.compiler.gpu.code import compile_gpu

    return partial(
        compile_gpu,
        target=target,
        all_of_them=alone,
        records=records,
        machine=machine,
        **of_kernels,
    )


def _machine(target: str | None, device: str | None, records: Database) -> GpuMachine | None:
    """Return the GPU that records are taken of; None where there are none of such."""
    if target is None:
        if device is not None:
            raise InputError(
                f"device must name the GPU that kernels are going to run on, and there are no "
                f"kernels, and it is {device!r}: leave it out, or name it where the network runs."
            )
        return None
    kind = "cuda" if target == "ptx" else target
    if all(record.task.target.get("kind") != kind for record in records):
        return None
    from vdla.runtime.gpu import open_gpu
    from vdla.runtime.tune.gpu import machine_of

    return machine_of(open_gpu(kind, device))


def _versions(level: str) -> tuple[str, ...]:
    """Return what decides on machine code beside the sources of the compiler."""
    import llvmlite
    import llvmlite.binding

    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    return level, llvmlite.__version__, llvm


def _require_processor(module: Module) -> None:
    lost = [f"{layer.name} ({layer.op})" for layer in module.layers if layer.device != "cpu"]
    if lost:
        raise ModelError(
            "Every operator must run on the processor with the target cpu, and these cannot: "
            f"{', '.join(lost)}. Compile for the target vdla, or rewrite the network without them."
        )


def _check_config(config: object) -> None:
    if not isinstance(config, Config):
        raise InputError(
            f"config must be a vdla.Config, not {config!r}: give one, such as vdla.PYNQ_Z1, or "
            "find it by name with vdla.config.named."
        )


def _check_names(place: object, without: object) -> None:
    if place is not None and not isinstance(place, Mapping):
        raise InputError(f"place must be devices by node, not {place!r}: give {{'conv2d': 'cpu'}}.")
    if isinstance(without, str) or not isinstance(without, Collection):
        raise InputError(f"without must be names of passes, not {without!r}: give ['fusion'].")


def load(path: str | Path, config: Config | None = None) -> Network:
    """Read a compiled network.

    Parameters
    ----------
    path : path
    config : Config, optional
        The machine it is meant for; another one than it was compiled for is refused.

    Raises
    ------
    InputError
        `config` is no configuration.
    ModuleError
        The file is not a compiled network, is damaged, or is for another configuration or version.
    """
    if config is not None:
        _check_config(config)
    return Network(load_module(path, config))
