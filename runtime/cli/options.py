"""Options that several commands share, each said once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vdla.config import Config

__all__ = [
    "BindOption",
    "CacheOption",
    "CheckOption",
    "CompiledForOption",
    "ConfigOption",
    "CpuOption",
    "Device",
    "DeviceOption",
    "EmitOption",
    "FloatDtype",
    "FloatDtypeOption",
    "MatricesOption",
    "WinogradOption",
    "kernel_options",
    "GpuOption",
    "ImageOption",
    "InputOption",
    "JsonOption",
    "LabelsOption",
    "ModelArgument",
    "OwnConfigOption",
    "PinOption",
    "PlaceOption",
    "Rank",
    "RankOption",
    "RecordsOption",
    "RunDeviceOption",
    "Target",
    "CompiledForOption",
    "Target",
    "TargetOption",
    "ThreadsOption",
    "VthreadsOption",
    "read_bind",
    "read_config",
    "read_config_of",
    "read_place",
]


BUILT_IN = ("digits", "mobilenet_v1", "mobilenet_v2", "resnet18", "resnet34", "resnet50")
"""As `vdla.compiler.zoo` has them; said again because help must not load a compiler."""


class Device(str, Enum):
    """Where a compiled network runs."""

    functional = "functional"
    cycle = "cycle"
    rtl = "rtl"


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .tflite or .onnx file, a layer list (.csv, .yaml), or built in: "
        f"{', '.join(BUILT_IN)}.",
    ),
]
BindOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bind", metavar="NAME=SIZE", help="Fix an open dimension of an .onnx file; repeatable."
    ),
]
ConfigOption = Annotated[
    str,
    typer.Option("--config", metavar="NAME|FILE.toml", help="The accelerator's configuration."),
]
DeviceOption = Annotated[
    Device,
    typer.Option(
        "--device",
        help="functional: results only; cycle: results and exact timing; rtl: the gateware.",
    ),
]


OwnConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="NAME|FILE.toml",
        help="The accelerator's configuration; without, the file's, or else the board's.",
    ),
]
_DEVICES = (
    "functional: results only; cycle: results and exact timing; rtl: the gateware, "
    "simulated; pynq: the board that this is; pynq@HOST: a board on the network"
)
TargetOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help=f"{_DEVICES}.",
    ),
]
RunDeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help=f"{_DEVICES}; cpu: the processor alone. Without, cycle, or cpu where nothing is on "
        "the accelerator; opencl or cuda, or a part of its name behind it, opencl:NAME: a GPU "
        "alone; cycle+opencl: beside an accelerator. With --target opencl or cuda, a part of the "
        "name of such a device; without, a GPU, or else the first.",
    ),
]


class Target(str, Enum):
    """What a network is compiled for."""

    vdla = "vdla"
    cpu = "cpu"
    opencl = "opencl"
    cuda = "cuda"
    ptx = "ptx"
    metal = "metal"


CompiledForOption = Annotated[
    Target | None,
    typer.Option(
        "--target",
        help="vdla: what the accelerator takes goes there; cpu: everything is machine code for "
        "the processor; opencl, cuda, ptx, metal: everything is kernels for a GPU.",
    ),
]


EmitOption = Annotated[
    Path | None,
    typer.Option(
        "--emit-source",
        metavar="DIR",
        help="With --target opencl, cuda, ptx or metal: write the kernels, weights and a list of "
        "calls there, and run nothing.",
    ),
]


class Kernels(str, Enum):
    """What kernels are written in."""

    opencl = "opencl"
    cuda = "cuda"
    ptx = "ptx"
    metal = "metal"


class FloatDtype(str, Enum):
    """How floats lie in a GPU's memory."""

    float16 = "float16"
    float32 = "float32"


FloatDtypeOption = Annotated[
    FloatDtype | None,
    typer.Option(
        "--dtype",
        help="With kernels as the target: how weights and activations lie in memory; inputs and "
        "outputs are float32, and so is arithmetic. Without, float32.",
    ),
]
WinogradOption = Annotated[
    int,
    typer.Option(
        "--winograd",
        metavar="2|4",
        help="With kernels: compute 3 x 3 convolutions of floats by Winograd's algorithms, on "
        "tiles of 2 x 2 or 4 x 4, with fewer products and sums that are rounded otherwise.",
    ),
]
MatricesOption = Annotated[
    bool,
    typer.Option(
        "--matrices",
        help="With kernels for cuda: multiply float16 and 8-bit integers on tensor cores, which "
        "compute capability 7.2 and later have.",
    ),
]
GpuOption = Annotated[
    Kernels | None,
    typer.Option(
        "--gpu",
        help="Make kernels of what stays off the accelerator, as far as there are some for it.",
    ),
]
CpuOption = Annotated[
    str | None,
    typer.Option(
        "--cpu",
        metavar="LEVEL",
        help="Compile what runs on the processor for one: host, or a level such as armv7-neon; "
        "without, numpy computes it beside the accelerator, and --target cpu takes host.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, help="Threads of machine code on the processor; without, one a core."
    ),
]
PinOption = Annotated[bool, typer.Option("--pin", help="Bind each of them to a CPU of its own.")]
LabelsOption = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Names of the classes, one a line."),
]


class Rank(str, Enum):
    """What chooses among schedules."""

    estimate = "estimate"
    cycle = "cycle"


PlaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--place",
        metavar="NODES=DEVICE",
        help="cpu or vdla for nodes by name, pattern (layer1_*) or operator, those that can run "
        "there; repeatable, of two patterns the later one holds.",
    ),
]
RankOption = Annotated[
    Rank,
    typer.Option("--rank", help="Choose schedules by an estimate, or by the cycle model (slow)."),
]
RecordsOption = Annotated[
    Path | None,
    typer.Option(
        "--records", metavar="FILE.jsonl", help="Take the schedules that vdla tune wrote there."
    ),
]
VthreadsOption = Annotated[
    int,
    typer.Option("--vthreads", min=1, max=2, help="Virtual threads: 2 hides the memory's latency."),
]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Keep what is compiled, and use what was compiled before."
    ),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Compare every layer with the integer interpreter.")
]
ImageOption = Annotated[
    Path | None,
    typer.Option("--image", metavar="FILE", help="A picture; cut and scaled to the input."),
]
InputOption = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE.npy", help="The input tensor, of its shape and dtype."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

DEFAULT_CONFIG = "PYNQ_Z1"


def kernel_options(dtype: FloatDtype | None, winograd: int, *, matrices: bool) -> dict[str, Any]:
    """Return what is said of how kernels compute, as `vdla.compile` takes it; nothing else."""
    given = {
        "dtype": None if dtype is None else dtype.value,
        "winograd": winograd,
        "matrices": matrices,
    }
    return {name: value for name, value in given.items() if value}


def read_bind(pairs: list[str] | None) -> dict[str, int]:
    """Return the sizes of dimensions by name.

    Raises
    ------
    InputError
        One is not of the form NAME=SIZE, or two give a dimension different sizes.
    """
    from vdla.errors import InputError

    sizes: dict[str, int] = {}
    for pair in pairs or []:
        name, _, size = pair.partition("=")
        if not name or not size.isdecimal():
            raise InputError(
                f"--bind must be a name and a size, such as N=1, not {pair!r}: give one a dimension"
            )
        if sizes.setdefault(name, int(size)) != int(size):
            raise InputError(
                f"--bind must give a dimension one size, not {name} both {sizes[name]} and {size}: "
                "leave one out"
            )
    return sizes


def read_config(text: str) -> Config:
    """Return the configuration of a name, or of a file: ``.toml``, or VTA's ``.json``."""
    from vdla.config import Config, named

    if text.endswith((".toml", ".json")):
        return Config.from_toml(Path(text))
    return named(text)


def read_config_of(text: str | None, file: Path | None, device: str) -> Config:
    """Return the configuration that is named, or else a compiled file's, or else the board's."""
    if text is not None:
        return read_config(text)
    if file is not None:
        from vdla.module import load

        return load(file).config
    if device == "pynq":
        from vdla.runtime.board.overlay import config_here

        return config_here()
    return read_config(DEFAULT_CONFIG)


def read_place(pairs: list[str] | None) -> dict[str, str]:
    """Return the devices that are asked for nodes.

    Raises
    ------
    InputError
        One is not of the form NODES=DEVICE, or two put the same nodes on different devices.
    """
    from vdla.errors import InputError

    wishes: dict[str, str] = {}
    for pair in pairs or []:
        nodes, _, device = pair.rpartition("=")
        if not nodes or not device:
            raise InputError(
                f"--place must be nodes and a device, such as conv2d=cpu, not {pair!r}: give both"
            )
        if wishes.setdefault(nodes, device) != device:
            raise InputError(
                f"--place must put nodes on one device, not {nodes} on {wishes[nodes]} and on "
                f"{device}: leave one out"
            )
    return wishes
