"""A whole network through pynq and the gateware, against LiteRT's scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vdla
from tests.pynq.board import RtlBoard
from tests.pynq.overlays import write_overlay
from vdla.compiler.graph import Graph, import_tflite
from vdla.config import PYNQ_Z1, TINY
from vdla.runtime.network import Network

IMAGES = 10


@pytest.fixture(scope="module")
def resnet8(shared_data: Path) -> Network:
    """Without its last node, whose input the stored logits are."""
    graph = import_tflite(shared_data / "mlperf_tiny" / "resnet8_int8.tflite")
    nodes, last = graph.nodes[:-1], graph.nodes[-1]
    return vdla.compile(Graph(graph.name, graph.tensors, nodes, graph.inputs, last.inputs))


@pytest.fixture
def overlay(board: RtlBoard, name: str, tmp_path: Path) -> Path:
    """The PYNQ-Z1's accelerator on either board: the gateware is built once for both pynqs."""
    return write_overlay(tmp_path / "overlays" / name, PYNQ_Z1, board=name)


def test_resnet8_on_ten_images(overlay: Path, resnet8: Network, shared_data: Path) -> None:
    data = np.load(shared_data / "images" / "cifar10_test_500.npz")
    images = (data["images"][:IMAGES].astype(np.int16) - 128).astype(np.int8)
    resnet8.to("pynq")
    answers = list(resnet8.stream(images))
    resnet8.close()
    found = [next(iter(answer.outputs.values())).reshape(-1) for answer in answers]
    np.testing.assert_array_equal(found, data["resnet8_int8_litert_logits"][:IMAGES])
    cycles = {answer.cycles for answer in answers}
    assert len(cycles) == 1  # an image's values change no time
    assert cycles == {resnet8.run(images[:1], device="rtl").cycles}


def test_every_layer_is_checked_on_the_board(board: RtlBoard, name: str, tmp_path: Path) -> None:
    write_overlay(tmp_path / "overlays" / name, TINY, board=name)
    network = vdla.compile("digits", config=TINY)
    images = np.zeros((2, *network.input_shape[1:]), network.input_dtype)
    assert network.run(images, device="pynq", check=True).bit_exact
