"""Reading calibration images, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from vdla.compiler.graph import Graph, Tensor
from vdla.compiler.quantize import Preprocessing, quantize, read_samples
from vdla.errors import InputError, ModelError

from .networks import FloatDraft, images, residual

PIXELS = np.arange(5 * 8 * 8 * 3, dtype=np.uint8).reshape(5, 8, 8, 3)


@pytest.fixture(scope="module")
def graph():
    return residual()


@pytest.fixture(scope="module")
def channels_first():
    net = FloatDraft((1, 3, 8, 8))
    return net.finish(net.relu("relu", "input"))


def test_a_folder_of_pictures(graph, channels_first, tmp_path):
    for index, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(tmp_path / f"{index}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    assert np.array_equal(read_samples(tmp_path, graph).values["input"], PIXELS)
    assert np.array_equal(
        read_samples(tmp_path, channels_first).values["input"], PIXELS.transpose(0, 3, 1, 2)
    )
    assert read_samples(tmp_path, graph).ranges == {"input": (0, 255)}
    assert np.array_equal(read_samples(tmp_path, graph, limit=2).values["input"], PIXELS[[0, 2]])


def test_preprocessing_of_pixels(graph, channels_first, tmp_path):
    np.save(tmp_path / "a.npy", PIXELS)
    ready = Preprocessing(scale=1 / 255, mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.4))
    found = read_samples(tmp_path / "a.npy", graph, ready).values["input"]
    pixel = PIXELS[1, 2, 3] / 255
    expected = [(pixel[0] - 0.4) / 0.1, (pixel[1] - 0.5) / 0.2, (pixel[2] - 0.6) / 0.4]
    np.testing.assert_allclose(found[1, 2, 3], expected)
    # 0 in the last channel is least, 255 in the first is most.
    known = read_samples(tmp_path / "a.npy", graph, ready).ranges["input"]
    assert known == pytest.approx((-4, 6))
    turned = replace(ready, layout="nhwc")
    first = read_samples(tmp_path / "a.npy", channels_first, turned).values["input"]
    np.testing.assert_allclose(first, found.transpose(0, 3, 1, 2))


def test_arrays(graph, tmp_path):
    np.save(tmp_path / "one.npy", PIXELS[0].astype(np.float32))
    one = read_samples(tmp_path / "one.npy", graph)
    assert one.values["input"].shape == (1, 8, 8, 3)
    assert one.ranges == {}
    np.save(tmp_path / "first.npy", PIXELS.transpose(0, 3, 1, 2))
    nchw = Preprocessing(layout="nchw")
    assert np.array_equal(read_samples(tmp_path / "first.npy", graph, nchw).values["input"], PIXELS)
    for names in ("input", "images", "arr_0"):
        np.savez(tmp_path / "a.npz", **{names: PIXELS})
        assert np.array_equal(read_samples(tmp_path / "a.npz", graph).values["input"], PIXELS)
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=np.arange(5))
    assert np.array_equal(read_samples(tmp_path / "a.npz", graph).values["input"], PIXELS)


def refused(message):
    return pytest.raises(InputError, match=re.escape(message))


def test_what_cannot_be_read(graph, tmp_path):
    with refused(f"{tmp_path} holds none"):
        read_samples(tmp_path, graph)
    with refused("not nowhere, which does not exist"):
        read_samples("nowhere", graph)
    (tmp_path / "a.png").write_bytes(b"no picture")
    with refused("A calibration picture must be one that Pillow can read"):
        read_samples(tmp_path, graph)
    (tmp_path / "a.npy").write_bytes(b"no array")
    with refused("must be what numpy.save or numpy.savez wrote"):
        read_samples(tmp_path / "a.npy", graph)
    np.savez(tmp_path / "a.npz", labels=PIXELS)
    with refused(f"images; {tmp_path / 'a.npz'} holds labels. Rename its arrays."):
        read_samples(tmp_path / "a.npz", graph)
    np.savez(tmp_path / "a.npz", x=PIXELS, y=PIXELS)
    with refused("an array for each input of 'draft' (input), or one called images"):
        read_samples(tmp_path / "a.npz", graph)


def test_arrays_that_do_not_fit(graph, tmp_path):
    np.save(tmp_path / "a.npy", PIXELS[:, :4])
    with refused("must have the shape (n, 8, 8, 3) with n at least 1, not (5, 4, 8, 3)"):
        read_samples(tmp_path / "a.npy", graph)
    np.save(tmp_path / "a.npy", PIXELS.transpose(0, 3, 1, 2))
    with refused("Say --layout nchw."):
        read_samples(tmp_path / "a.npy", graph)
    np.save(tmp_path / "a.npy", PIXELS)
    with refused("mean must have 1 value or one for each of 3 channels, not 2."):
        read_samples(tmp_path / "a.npy", graph, Preprocessing(mean=(1, 2)))
    with refused("Standard deviations must be above 0, not 0.0."):
        Preprocessing(std=(0.0,))
    with refused("layout must be one of model, nhwc, nchw, not 'chwn'."):
        Preprocessing(layout="chwn")


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 8, 8, 4)), "must have the shape (n, 8, 8, 3) with n at least 1, not (2, "),
        (np.zeros((0, 8, 8, 3)), "must have the shape (n, 8, 8, 3) with n at least 1, not (0, "),
        (np.full((1, 8, 8, 3), "a"), "must hold numbers, not <U1"),
        (np.full((1, 8, 8, 3), np.nan), "must be finite; 192 of its values are NaN"),
        ({"image": np.zeros((1, 8, 8, 3))}, "must be input, not image"),
        ({}, "must be input, not none"),
    ],
)
def test_samples_that_do_not_fit(graph, samples, message):
    with refused(message):
        quantize(graph, samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration": "mode"}, "must be one of minmax, percentile, entropy, not 'mode'."),
        ({"percentile": 40}, "percentile must be above 50 and at most 100, not 40."),
        ({"ends": "uint8"}, "ends must be one of float, int8, not 'uint8'."),
    ],
)
def test_unknown_options(graph, options, message):
    with refused(message):
        quantize(graph, images(graph), **options)


def test_a_quantized_network(graph):
    quantized = quantize(graph, images(graph)).graph
    with pytest.raises(ModelError, match="tensor 'input' of 'draft' is int8 with a scale already"):
        quantize(quantized, images(graph))


def with_weight(graph: Graph, name: str, value: float) -> Graph:
    old = graph.tensors[name]
    data = old.data.copy()
    data.ravel()[0] = value
    new = Tensor(name, old.shape, old.dtype, None, data)
    return Graph(graph.name, {**graph.tensors, name: new}, graph.nodes, ["input"], graph.outputs)


def test_weights_and_activations_that_are_not_numbers(graph):
    with pytest.raises(ModelError, match=r"1 of 216 values of tensor 'stem.weight' are NaN"):
        quantize(with_weight(graph, "stem.weight", np.nan), images(graph))
    # Finite weights whose products are not.
    net = FloatDraft((1, 8, 8, 3))
    x = net.node("log", "log", (net.conv("conv", "input", 2),), (1, 8, 8, 2), {})
    with (
        pytest.raises(ModelError, match=r"Activations must be finite; 'log' \(log\) of 'draft'"),
        np.errstate(invalid="ignore"),
    ):
        quantize(net.finish(x), images(graph))


def test_a_network_without_a_float_input():
    tensors = [
        Tensor("input", (1, 4), np.dtype(np.int32)),
        Tensor("out", (4,), np.dtype(np.int32)),
    ]
    from vdla.compiler.graph import Node

    graph = Graph(
        "ids",
        tensors,
        [Node("r", "reshape", ("input",), ("out",), {"shape": (4,)})],
        ["input"],
        ["out"],
    )
    with pytest.raises(ModelError, match="must take float images; 'ids' takes int32"):
        quantize(graph, np.zeros((1, 4), np.int32))
