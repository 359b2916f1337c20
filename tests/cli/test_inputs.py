from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vdla.errors import InputError
from vdla.runtime.cli.inputs import from_image, from_npy
from vdla.runtime.inputs import random_input

SHAPE = (1, 4, 6, 3)


def test_npy_is_taken_as_it_is(tmp_path: Path) -> None:
    images = np.arange(2 * 4 * 6 * 3, dtype=np.int8).reshape(2, 4, 6, 3)
    np.save(tmp_path / "a.npy", images)
    assert np.array_equal(from_npy(tmp_path / "a.npy", SHAPE, np.int8), images)


def test_npy_of_one_image_may_leave_out_the_batch(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(SHAPE[1:], np.int8))
    assert from_npy(tmp_path / "a.npy", SHAPE, np.int8).shape == SHAPE


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.zeros((1, 6, 4, 3), np.int8),
            "--input must have the shape (n, 4, 6, 3), not (1, 6, 4, 3): ",
        ),
        (np.zeros((3, 4), np.int8), "--input must have the shape (n, 4, 6, 3), not (3, 4): "),
        (np.zeros(SHAPE, np.float32), "--input must be of dtype int8, not float32: "),
    ],
)
def test_npy_of_another_form_is_refused(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=re.escape(message) + ".*a.npy"):
        from_npy(tmp_path / "a.npy", SHAPE, np.int8)


def test_what_is_no_npy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_text("not numbers")
    with pytest.raises(InputError, match=r"^--input must be a \.npy file: .*a\.npy: "):
        from_npy(tmp_path / "a.npy", SHAPE, np.int8)
    with pytest.raises(InputError, match=r"^--input must be a \.npy file: .*b\.npy: "):
        from_npy(tmp_path / "b.npy", SHAPE, np.int8)
    np.savez(tmp_path / "c.npz", a=np.zeros(1), b=np.zeros(1))
    with pytest.raises(InputError, match="^--input must hold one array, not an archive"):
        from_npy(tmp_path / "c.npz", SHAPE, np.int8)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY\x01\x00v\x00{{{",
        b"\x93NUMPY\x01\x00\x08\x00{{'descr'",
        b"PK\x03\x04 and no more",
        b"\x93NUMPY\x01\x00\x50\x00"
        + b"{'descr': '|i1', 'fortran_order': False, 'shape': (99999999999999, 999), }".ljust(79)
        + b"\n",
    ],
    ids=["empty", "cut", "header", "zip", "huge"],
)
def test_a_damaged_npy_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(InputError, match=r"^--input must be a \.npy file: .*; write one with"):
        from_npy(tmp_path / "a.npy", SHAPE, np.int8)


@pytest.mark.parametrize(("dtype", "shift"), [(np.int8, 128), (np.uint8, 0)])
def test_pixels_span_the_input_type(tmp_path: Path, dtype: type, shift: int) -> None:
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3) + 180  # wraps: 180..251
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = from_image(tmp_path / "a.png", SHAPE, dtype)
    assert found.dtype == dtype
    assert np.array_equal(found, (pixels.astype(int) - shift)[None])


def test_a_wide_picture_loses_its_sides(tmp_path: Path) -> None:
    pixels = np.zeros((8, 32, 3), np.uint8)
    pixels[:, 10:22] = 255  # the middle 12 columns, which is 8 high scaled to 6 x 4
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert (from_image(tmp_path / "a.png", SHAPE, np.int8)[0, :, 1:-1] == 127).all()


def test_a_picture_is_turned_upright(tmp_path: Path) -> None:
    picture = Image.fromarray(np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3))
    turned = picture.getexif()
    turned[274] = 6  # Orientation: show it a quarter turn clockwise
    picture.save(tmp_path / "a.png", exif=turned)
    found = from_image(tmp_path / "a.png", SHAPE, np.uint8)
    assert np.array_equal(found[0], np.rot90(np.asarray(picture), -1))


def test_a_colour_picture_turns_grey_for_one_channel(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 6, 3), 100, np.uint8)).save(tmp_path / "a.png")
    assert (from_image(tmp_path / "a.png", (1, 4, 6, 1), np.int8) == 100 - 128).all()


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("not pixels")
    with pytest.raises(InputError, match=r"^--image must be a picture Pillow can read: .*a\.png"):
        from_image(tmp_path / "a.png", SHAPE, np.int8)


def test_a_picture_too_large_to_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (60, 40)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match=r"^--image must be a picture Pillow can read: .*exceeds"):
        from_image(tmp_path / "a.png", SHAPE, np.int8)


def test_a_picture_of_more_than_8_bits_is_refused_not_clipped(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 6), 1000, np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"^--image must have 8 bits a channel, not more: "):
        from_image(tmp_path / "a.png", SHAPE, np.int8)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 4, 6, 16), np.int8), ((1, 10), np.int8), (SHAPE, np.float32)]
)
def test_an_input_that_takes_no_picture_says_what_to_do(
    tmp_path: Path, shape: tuple[int, ...], dtype: type
) -> None:
    with pytest.raises(InputError, match=r"give the tensor itself with --input FILE\.npy$"):
        from_image(tmp_path / "a.png", shape, dtype)


def test_noise_is_the_same_every_time_and_spans_the_type() -> None:
    noise = random_input((1, 64, 64, 3), np.int8)
    assert noise.dtype == np.int8
    assert (noise.min(), noise.max()) == (-128, 127)
    assert np.array_equal(noise, random_input((1, 64, 64, 3), np.int8))


def test_noise_of_floats_has_mean_0_and_deviation_1() -> None:
    noise = random_input((1, 64, 64, 3), np.float32)
    assert noise.dtype == np.float32
    assert abs(noise.mean()) < 0.05
    assert abs(noise.std() - 1) < 0.05


def test_noise_is_made_of_numbers_only() -> None:
    with pytest.raises(InputError, match="^Noise must go into an input of numbers, not of bool"):
        random_input(SHAPE, np.bool_)


def test_a_picture_goes_into_an_input_of_channels_first(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = from_image(tmp_path / "a.png", (1, 3, 4, 6), np.uint8)
    np.testing.assert_array_equal(found[0], pixels.transpose(2, 0, 1))
