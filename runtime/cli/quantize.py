"""``vdla quantize``: a float network and some images become an int8 network."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vdla.runtime.cli.options import BindOption, JsonOption, read_bind
from vdla.runtime.cli.output import emit_json, progress_bar, show_table

if TYPE_CHECKING:
    from vdla.compiler.quantize import LayerNoise

__all__ = ["quantize"]


class Calibration(str, Enum):
    """How a tensor's range is chosen."""

    minmax = "minmax"
    percentile = "percentile"
    entropy = "entropy"


class Ends(str, Enum):
    """What the quantized network takes and gives."""

    float = "float"
    int8 = "int8"


class Layout(str, Enum):
    """Order of the axes of arrays."""

    model = "model"
    nhwc = "nhwc"
    nchw = "nchw"


def quantize(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A float network, .onnx or .tflite.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.onnx", help="The quantized network.")
    ],
    calib: Annotated[
        Path,
        typer.Option(
            "--calib",
            metavar="FOLDER|FILE",
            help="Typical inputs: a folder of pictures, an .npy or an .npz file.",
        ),
    ],
    calibration: Annotated[
        Calibration,
        typer.Option(
            help="Ranges of activations: all that is seen, without outliers, or of the least "
            "Kullback-Leibler divergence."
        ),
    ] = Calibration.minmax,
    percentile: Annotated[
        float, typer.Option(metavar="PERCENT", help="What --calibration percentile keeps.")
    ] = 99.99,
    bias_correction: Annotated[
        bool,
        typer.Option(
            "--bias-correction/--no-bias-correction", help="Keep the mean of every channel."
        ),
    ] = True,
    equalize: Annotated[
        bool,
        typer.Option(
            "--equalize", help="Balance channels between layers first: for depthwise networks."
        ),
    ] = False,
    images: Annotated[
        int, typer.Option(metavar="N", help="Take N of the inputs at most, evenly out of all.")
    ] = 100,
    scale: Annotated[
        str,
        typer.Option(
            metavar="X",
            help="The network takes (pixel * scale - mean) / std; 1/255 makes pixels 0..1.",
        ),
    ] = "1",
    mean: Annotated[
        str, typer.Option(metavar="A[,B,C]", help="One for all channels, or one a channel.")
    ] = "0",
    std: Annotated[
        str, typer.Option(metavar="A[,B,C]", help="One for all channels, or one a channel.")
    ] = "1",
    layout: Annotated[
        Layout, typer.Option(help="Order of the axes of arrays, where it is not the network's.")
    ] = Layout.model,
    ends: Annotated[
        Ends,
        typer.Option(
            help="What the quantized network takes and gives: what MODEL does, or integers."
        ),
    ] = Ends.float,
    bind: BindOption = None,
    as_json: JsonOption = False,
) -> None:
    """Quantize a float network after training and write it as QDQ ONNX.

    Shows each layer's signal to quantization noise, with the noise of all layers before, and of
    the layer alone.
    """
    factor = _number(scale, "--scale")
    means, deviations = _numbers(mean, "--mean"), _numbers(std, "--std")

    from vdla.compiler import quantize as quantizer
    from vdla.compiler.onnx import export_onnx
    from vdla.runtime.api import read_graph

    graph = read_graph(model, read_bind(bind))
    preprocessing = quantizer.Preprocessing(
        scale=factor, mean=means, std=deviations, layout=layout.value
    )
    samples = quantizer.read_samples(calib, graph, preprocessing, limit=images)
    with progress_bar("quantizing") as progress:
        quantized = quantizer.quantize(
            graph,
            samples.values,
            calibration=calibration.value,
            percentile=percentile,
            bias_correction=bias_correction,
            equalize=equalize,
            known=samples.ranges,
            ends=ends.value,
            progress=progress,
        )
    export_onnx(quantized.graph, output)
    count = len(next(iter(samples.values.values())))
    _show(quantized.layers, output, count, as_json=as_json)


def _show(layers: Sequence[LayerNoise], output: Path, count: int, *, as_json: bool) -> None:
    size = output.stat().st_size
    if as_json:
        rows = [
            {
                "name": layer.name,
                "op": layer.op,
                "form": layer.form,
                "sqnr_db": _finite(layer.sqnr_db),
                "alone_db": _finite(layer.alone_db),
            }
            for layer in layers
        ]
        emit_json({"file": str(output), "bytes": size, "images": count, "layers": rows})
        return
    rows_shown = [
        (layer.name, layer.op, layer.form, _decibels(layer.sqnr_db), _decibels(layer.alone_db))
        for layer in layers
    ]
    show_table(("layer", "operator", "on", "SQNR dB", "alone dB"), rows_shown, text_columns=3)
    typer.echo(f"\n{output}: {size:,} bytes, calibrated on {count} images")


def _finite(decibels: float) -> float | None:
    """Return a ratio that JSON can say; None where there is no noise, or no signal."""
    return None if isinf(decibels) else round(decibels, 2)


def _decibels(value: float) -> str:
    return "-" if isinf(value) else f"{value:.1f}"


def _number(text: str, option: str) -> float:
    """Return a decimal number or a fraction.

    >>> _number("1/255", "--scale") == 1 / 255
    True
    """
    try:
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{option} takes numbers, as 0.5 or 1/255, not {text!r}") from None


def _numbers(text: str, option: str) -> tuple[float, ...]:
    return tuple(_number(part, option) for part in text.split(","))
