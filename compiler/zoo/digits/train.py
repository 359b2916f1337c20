"""Training the digits network: ``python -m vdla.compiler.zoo.digits.train``.

Reads scikit-learn's digits (E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten
Digits", UCI Machine Learning Repository, 1998), trains on three quarters of them with numpy
alone, quantizes, and writes the two files beside this one.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Graph
from vdla.compiler.onnx import export_onnx
from vdla.compiler.quantize import Range, quantize
from vdla.compiler.reference import Interpreter

from ..builder import RELU, Builder
from . import HELD_OUT, MODEL, digits_held_out, int8_pixels

__all__ = ["Split", "main", "split", "train"]

Array = npt.NDArray[Any]

_SEED = 0
_HELD_OUT = 450
_CALIBRATION = 300
_EPOCHS = 60
_BATCH = 32
_RATE = 2e-3
_DECAY = 1e-4
_MOMENTS = (0.9, 0.999)  # Adam's, as its authors recommend


class Split(NamedTuple):
    """Shades 0..16, uint8 (n, 8, 8), and labels uint8 (n,), of either part."""

    train_images: Array
    train_labels: Array
    held_out_images: Array
    held_out_labels: Array


def split() -> Split:
    """Return the digits, shuffled once: 1,347 to train on, 450 held out."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(_SEED).permutation(len(labels))
    shades = images.reshape(-1, 8, 8).astype(np.uint8)[order]
    labels = labels.astype(np.uint8)[order]
    return Split(shades[_HELD_OUT:], labels[_HELD_OUT:], shades[:_HELD_OUT], labels[:_HELD_OUT])


def train(images: Array, labels: Array) -> Graph:
    """Return the float network after training.

    Parameters
    ----------
    images : float (n, 8, 8, 1)
        0..1.
    labels : integers (n,)
    """
    net = Builder("digits", (1, 8, 8, 1))
    x = net.conv("conv1", "input", 16, 3, 1, RELU)
    x = net.conv("conv2", x, 32, 3, 2, RELU)
    x = net.conv("conv3", x, 64, 3, 2, RELU)
    graph = net.finish(net.dense("dense", net.mean("mean", x), 10))
    weights = {
        name: tensor.data.astype(np.float64)
        for name, tensor in graph.tensors.items()
        if tensor.data is not None
    }
    moments = {name: (np.zeros_like(w), np.zeros_like(w)) for name, w in weights.items()}
    source, step = np.random.default_rng(_SEED), 0
    for epoch in range(_EPOCHS):
        rate = _RATE * (1 + np.cos(np.pi * epoch / _EPOCHS)) / 2
        order = source.permutation(len(images))
        for first in range(0, len(order), _BATCH):
            some = order[first : first + _BATCH]
            step += 1
            gradients = _gradients(weights, _shifted(images[some], source), labels[some])
            for name, gradient in gradients.items():
                _adam(weights[name], moments[name], gradient, rate, step)
    tensors = {
        name: replace(t, data=weights[name].astype(np.float32)) if name in weights else t
        for name, t in graph.tensors.items()
    }
    return Graph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)


def main() -> None:
    """Train, quantize, and write the network and the held-out images."""
    parts = split()
    pixels = parts.train_images[..., np.newaxis] / 16
    real = train(pixels, parts.train_labels)
    quantized = quantize(
        real, pixels[:_CALIBRATION], known={"input": Range(0.0, 1.0)}, report=False
    ).graph
    export_onnx(quantized, MODEL)
    np.savez_compressed(HELD_OUT, images=parts.held_out_images, labels=parts.held_out_labels)
    shown = {
        "float": Interpreter(real).run(
            (parts.held_out_images[..., np.newaxis] / 16).astype(np.float32)
        ),
        "int8": Interpreter(quantized).run(digits_held_out().images),
        "int8, trained on": Interpreter(quantized).run(int8_pixels(parts.train_images)),
    }
    for what, outputs in shown.items():
        labels = parts.train_labels if "trained" in what else parts.held_out_labels
        right = float((outputs["dense.out"].argmax(axis=1) == labels).mean())
        sys.stdout.write(f"{what}: {100 * right:.2f} % right\n")


def _shifted(images: Array, source: np.random.Generator) -> Array:
    """Return images moved by up to one pixel, black coming in."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    places = source.integers(0, 3, (len(images), 2))
    return np.stack([p[i : i + 8, j : j + 8] for p, (i, j) in zip(padded, places, strict=True)])


def _gradients(weights: dict[str, Array], images: Array, labels: Array) -> dict[str, Array]:
    """Return the gradients of the mean cross-entropy, by weight."""
    x, kept = images, []
    for name, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2)):
        patches = _patches(x, stride)
        weight = weights[f"{name}.weight"]
        y = np.maximum(patches @ weight.reshape(len(weight), -1).T + weights[f"{name}.bias"], 0)
        kept.append((name, stride, x.shape, patches, y))
        x = y
    features = x.mean(axis=(1, 2))
    logits = features @ weights["dense.weight"].T + weights["dense.bias"]
    power = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = power / power.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    found = {"dense.weight": error.T @ features, "dense.bias": error.sum(axis=0)}
    places = x.shape[1] * x.shape[2]
    back = (error @ weights["dense.weight"])[:, None, None, :] / places * np.ones(x.shape)
    for name, stride, shape, patches, y in reversed(kept):
        back = back * (y > 0)
        weight = weights[f"{name}.weight"]
        flat = back.reshape(-1, back.shape[-1])
        found[f"{name}.weight"] = (flat.T @ patches.reshape(len(flat), -1)).reshape(weight.shape)
        found[f"{name}.bias"] = flat.sum(axis=0)
        back = _gathered(back @ weight.reshape(len(weight), -1), shape, stride)
    return found


def _patches(x: Array, stride: int) -> Array:
    """Return what each 3 x 3 window sees: (n, h, w, c) to (n, oh, ow, 9 c), padded by 1."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    chosen = windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
    return chosen.reshape(*chosen.shape[:3], -1)


def _gathered(patches: Array, shape: tuple[int, ...], stride: int) -> Array:
    """Add up what the windows of `_patches` hold for each element: its transpose."""
    n, height, width, channels = shape
    padded = np.zeros((n, height + 2, width + 2, channels))
    rows, columns = patches.shape[1:3]
    taps = patches.reshape(n, rows, columns, 3, 3, channels)
    for i in range(3):
        for j in range(3):
            padded[
                :,
                i : i + stride * (rows - 1) + 1 : stride,
                j : j + stride * (columns - 1) + 1 : stride,
            ] += taps[:, :, :, i, j]
    return padded[:, 1:-1, 1:-1]


def _adam(
    weight: Array, moments: tuple[Array, Array], gradient: Array, rate: float, step: int
) -> None:
    """Move a weight in place: Adam with decoupled weight decay."""
    for moment, share, value in zip(moments, _MOMENTS, (gradient, gradient**2), strict=True):
        moment += (1 - share) * (value - moment)
    mean, square = (m / (1 - share**step) for m, share in zip(moments, _MOMENTS, strict=True))
    weight -= rate * (mean / (np.sqrt(square) + 1e-8) + _DECAY * weight)


if __name__ == "__main__":
    main()
