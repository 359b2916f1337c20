"""Turning what a user hands over - a picture, an array, or nothing - into an input tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vdla.errors import InputError
from vdla.runtime.cli.output import note
from vdla.runtime.inputs import SEED, random_input

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["from_image", "from_npy", "from_npz", "given_inputs"]


class _Taken(Protocol):
    """What an input takes: of a compiled network, or of a graph."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


def from_npy(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Read an input tensor; a leading axis may hold any number of images.

    Parameters
    ----------
    path : Path
        A ``.npy`` file.
    shape : tuple of int
        What the network takes, batch first.
    dtype : dtype
        What the network takes.

    Returns
    -------
    numpy.ndarray
        Of shape ``(n, *shape[1:])`` and of `dtype`.

    Raises
    ------
    InputError
        The file is no array, or one of another shape or dtype.
    """
    import tokenize
    import zipfile

    import numpy as np

    try:
        array: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (
        OSError,
        ValueError,
        EOFError,
        MemoryError,
        SyntaxError,
        tokenize.TokenError,  # numpy parses the header as Python
        zipfile.BadZipFile,  # what begins like a zip archive, numpy takes for an .npz
    ) as error:
        raise InputError(
            f"--input must be a .npy file: {path}: {error}; write one with numpy.save"
        ) from None
    if not isinstance(array, np.ndarray):  # an .npz archive
        raise InputError(
            f"--input must hold one array, not an archive of several: {path}; "
            "write it with numpy.save"
        )
    expected = np.dtype(dtype)
    if array.shape == shape[1:]:
        array = array[None]
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        wanted = ", ".join(["n", *map(str, shape[1:])])
        raise InputError(
            f"--input must have the shape ({wanted}), not {array.shape}: {path}; "
            "scale, cut or transpose the images"
        )
    if array.dtype != expected:
        raise InputError(
            f"--input must be of dtype {expected}, not {array.dtype}: {path}; "
            "convert it by the scale and zero point of the network"
        )
    return array


def from_npz(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Read an array for each of several inputs.

    Raises
    ------
    InputError
        The file is no archive of arrays, or holds others than `names`.
    """
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"--input must be a .npz file: {path}: {error}; write one with numpy.savez"
        ) from None
    if set(arrays) != set(names):
        raise InputError(
            f"--input must hold the arrays {', '.join(names)}, not {', '.join(arrays)}: {path}"
        )
    return arrays


def from_image(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Read a picture, scale its shorter side to the input, cut the middle and quantize it.

    It is turned as its EXIF orientation says; transparency is ignored.

    A network's input type spans the pixel's range, whatever real numbers its scale gives that
    range, so pixel 0 is the lowest value of the type and pixel 255 the highest.

    Parameters
    ----------
    path : Path
        Any file Pillow can read.
    shape : tuple of int
        ``(n, height, width, channels)``, or channels first, with 1 or 3 channels.
    dtype : dtype
        int8 (pixel - 128) or uint8 (pixel).

    Returns
    -------
    numpy.ndarray
        Of shape ``(1, *shape[1:])`` and of `dtype`.

    Raises
    ------
    InputError
        The file is no picture, or the input takes none.
    """
    import numpy as np
    from PIL import Image, ImageOps, UnidentifiedImageError

    kind = np.dtype(dtype)
    first = len(shape) == 4 and shape[3] not in (1, 3)
    channels = shape[1 if first else 3] if len(shape) == 4 else 0
    if channels not in (1, 3) or kind not in (np.int8, np.uint8):
        raise InputError(
            f"--image needs a network whose input is int8 or uint8 of 1 or 3 channels, "
            f"not {kind} of shape {shape}; give the tensor itself with --input FILE.npy"
        )
    height, width = shape[2:] if first else shape[1:3]
    try:
        with Image.open(path) as opened:
            deep = opened.mode.startswith(("I", "F"))
            upright = ImageOps.exif_transpose(opened)
            picture = upright.convert("RGB" if channels == 3 else "L")
    except (
        OSError,
        SyntaxError,
        ValueError,
        UnidentifiedImageError,
        Image.DecompressionBombError,
    ) as error:
        raise InputError(
            f"--image must be a picture Pillow can read: {path}: {error}; "
            "save it anew as PNG or JPEG"
        ) from None
    if deep:  # Pillow would clip it at 255
        raise InputError(
            f"--image must have 8 bits a channel, not more: {path}; save it with 8 bits"
        )
    if picture.size != (width, height):
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    pixels: npt.NDArray[np.int16] = np.asarray(picture, dtype=np.int16)
    lowest = int(np.iinfo(kind).min)
    shifted: npt.NDArray[Any] = (pixels + lowest).astype(kind)
    pixels_last = shifted.reshape(1, height, width, channels)
    return pixels_last.transpose(0, 3, 1, 2) if first else pixels_last


def given_inputs(
    tensors: Mapping[str, _Taken], image: Path | None, input_file: Path | None
) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """Return what a network runs on: a picture, a file of arrays, or noise.

    Parameters
    ----------
    tensors : mapping of str to TensorInfo or Tensor
        What the network takes.
    image, input_file : Path, optional
        What the options name.

    Returns
    -------
    numpy.ndarray or dict
        An array for the one input, or one for each of several by name.

    Raises
    ------
    InputError
        The file is not what the network takes.
    """
    if len(tensors) > 1:
        if image is not None or input_file is not None and input_file.suffix != ".npz":
            raise InputError(
                f"A network with several inputs takes --input FILE.npz with an array for each of "
                f"{', '.join(tensors)}; write it with numpy.savez"
            )
        if input_file is not None:
            return from_npz(input_file, list(tensors))
        note(f"no --input: running on random noise (seed {SEED})")
        return {name: random_input(t.shape, t.dtype) for name, t in tensors.items()}
    (tensor,) = tensors.values()
    if image is not None:
        return from_image(image, tensor.shape, tensor.dtype)
    if input_file is not None:
        return from_npy(input_file, tensor.shape, tensor.dtype)
    note(f"neither --image nor --input: running on random noise (seed {SEED})")
    return random_input(tensor.shape, tensor.dtype)
