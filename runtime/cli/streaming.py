"""``vdla run --images``: one picture after another, with what each shows and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import typer

from vdla.errors import InputError, VdlaError
from vdla.runtime.cli.inputs import from_image, from_npy
from vdla.runtime.cli.output import emit_json, note, progress_bar, show_table
from vdla.runtime.cli.report import class_words, top_classes

if TYPE_CHECKING:
    import numpy.typing as npt

    from vdla.runtime.network import Network
    from vdla.runtime.run import Answer

__all__ = ["read_labels", "show_stream", "stream_images"]

PICTURES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff"})
ARRAYS = frozenset({".npy"})
PARTS = ("accelerator", "processor", "transfers", "end to end")


def read_labels(path: Path) -> tuple[str, ...]:
    """Return the names of classes from a text file, one a line.

    Raises
    ------
    InputError
        The file cannot be read, or is empty.
    """
    try:
        labels = tuple(line.strip() for line in path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--labels must be a text file that can be read: {path}: {error}; write one label a "
            "line, in the order of the scores"
        ) from None
    if not any(labels):
        raise InputError(f"--labels must hold one label a line, and {path} is empty: name another")
    return labels


def stream_images(
    network: Network,
    images: Path,
    device: str,
    *,
    threads: int | None = None,
    pin: bool = False,
    as_json: bool,
) -> None:
    """Run every image of a folder on a device, the next read while one runs, and print the results.

    Parameters
    ----------
    network : Network
    images : Path
        A folder, searched with the folders in it, or one file: pictures, or ``.npy`` with one image
        or several.
    device : str
    threads : int, optional
        Of machine code on the processor.
    pin : bool
        Bind each of them to a CPU of its own.
    as_json : bool

    Raises
    ------
    InputError
        There is no image, or none that can be read.
    """
    from time import perf_counter

    from vdla.runtime.devices import HARDWARE, PROCESSOR, parts_of

    if len(network.inputs) != 1:
        raise InputError(
            f"--images needs a network with one input, and {network.name} reads "
            f"{', '.join(network.inputs)}: give them with --input FILE.npz"
        )
    files = _files(images)
    skipped: list[dict[str, str]] = []
    names: list[str] = []
    answers: list[Answer] = []
    failure: BaseException | None = None
    with progress_bar("running") as progress:
        read = _reading(files, network, names, skipped, progress)
        network.to(device, threads=threads, pin=pin)
        begin = perf_counter()
        try:
            for answer in network.stream(read):
                answers.append(answer)
        except (VdlaError, KeyboardInterrupt) as error:
            failure = error  # raised once the answers before it are shown
        finally:
            elapsed = perf_counter() - begin
            network.close()
    for one in skipped:
        note(f"left out {one['file']}: {one['why']}")
    if failure is not None and not answers:
        raise failure
    if not answers:
        raise InputError(f"--images must hold an image that can be read, and {images} holds none")
    real = {*HARDWARE, PROCESSOR}
    rows = [
        _row(name, answer, network.labels)
        for name, answer in zip(names, answers, strict=failure is None)
    ]
    report: dict[str, Any] = {
        "device": device,
        "config": network.config.name,
        "config_hash": f"{network.config.hash:016x}",
        "clock_mhz": answers[0].clock_mhz,
        "images": rows,
        "skipped": skipped,
        "seconds": {part: _median(rows, part) for part in PARTS},
        # A simulator's own speed says nothing of the machine that it simulates.
        "frames_per_second": len(rows) / elapsed if parts_of(device)[0] in real else None,
        "accelerator_frames_per_second": _most_frames(answers),
    }
    if as_json:
        emit_json(report)
    else:
        show_stream(report)
    if failure is not None:
        note(f"stopped after {len(rows)} images")
        raise failure


def _files(images: Path) -> list[Path]:
    if not images.is_dir():
        if not images.exists():
            raise InputError(f"--images must be a folder or a file, and {images} is neither")
        return [images]
    files = sorted(
        path
        for path in images.rglob("*")
        if path.suffix.lower() in PICTURES | ARRAYS and path.is_file()
    )
    if not files:
        raise InputError(
            f"--images must hold pictures ({', '.join(sorted(PICTURES))}) or .npy files, and "
            f"{images} holds none: name another folder"
        )
    return files


def _reading(
    files: Sequence[Path],
    network: Network,
    names: list[str],
    skipped: list[dict[str, str]],
    progress: Callable[[int, int, str], None],
) -> Iterator[npt.NDArray[Any]]:
    """Yield the images of files; name each, and each file that cannot be read with the reason."""
    shape, dtype = network.input_shape, network.input_dtype
    for index, path in enumerate(files):
        progress(index, len(files), path.name)
        try:
            if path.suffix.lower() in ARRAYS:
                found = from_npy(path, shape, dtype)
            else:
                found = from_image(path, shape, dtype)
        except InputError as error:
            skipped.append({"file": str(path), "why": str(error)})
            continue
        for number, image in enumerate(found):
            names.append(str(path) if len(found) == 1 else f"{path}[{number}]")
            yield image


def _row(name: str, answer: Answer, labels: Sequence[str]) -> dict[str, Any]:
    import numpy as np

    scores = np.asarray(list(answer.outputs.values())[-1])
    timing = answer.timing
    return {
        "file": name,
        "classes": top_classes(scores[np.newaxis], labels)[0],
        "cycles": answer.cycles,
        "seconds": {
            "accelerator": answer.accelerator_seconds,
            "processor": timing.processor,
            "transfers": timing.transfers,
            "end to end": timing.end - timing.begin,
        },
    }


def _most_frames(answers: Sequence[Answer]) -> float | None:
    """Return the images a second that the accelerator takes if it never waits for the processor."""
    total = 0.0
    for answer in answers:
        if not answer.accelerator_seconds:
            return None
        total += answer.accelerator_seconds / answer.images
    return len(answers) / total


def _median(rows: Sequence[dict[str, Any]], part: str) -> float | None:
    values = [row["seconds"][part] for row in rows if row["seconds"][part] is not None]
    return median(values) if values else None


def show_stream(report: Mapping[str, Any]) -> None:
    """Print what `stream_images` makes of a folder: classes image by image, and times."""
    for row in report["images"]:
        typer.echo(f"{row['file']}: {class_words(row['classes'])}")
    typer.echo()
    columns = ["ms an image", "median", "least", "most"]
    table = []
    for part in PARTS:
        values = [row["seconds"][part] for row in report["images"]]
        if None in values or not any(values):
            continue
        table.append([part, *(f"{1e3 * figure(values):,.2f}" for figure in (median, min, max))])
    show_table(columns, table, text_columns=1)
    from vdla.runtime.devices import PROCESSOR, parts_of

    accelerator, gpu = parts_of(report["device"])
    if accelerator == PROCESSOR:
        where = "processor" if gpu is None else "GPU"
        typer.echo(f"\n{report['frames_per_second']:.2f} frames a second on the {where}")
    elif report["frames_per_second"] is not None:
        typer.echo(
            f"\n{report['frames_per_second']:.2f} frames a second, {report['config']} at "
            f"{report['clock_mhz']:g} MHz"
        )
    elif report["accelerator_frames_per_second"]:
        typer.echo(
            f"\n{report['accelerator_frames_per_second']:.1f} frames a second at most, by the "
            f"accelerator's cycles on {report['config']} at {report['clock_mhz']:g} MHz; the other "
            "times are this computer's, beside a simulator"
        )
