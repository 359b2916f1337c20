"""``vdla run --images``: real pictures through the digits network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import vdla
from vdla.compiler.zoo import digits_held_out
from vdla.errors import DeviceError
from vdla.runtime.devices.functional import FunctionalDevice

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine, 9")
IMAGES, LABELS = digits_held_out()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "digits.vdla"
    vdla.compile("digits").save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pictures, one of them in a folder of its own, and two images in an array."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for index, name in enumerate(("a.png", "deep/b.png")):
        pixels = (IMAGES[index, :, :, 0].astype(np.int16) + 128).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "in" / name)
    np.save(tmp_path / "in" / "c.npy", IMAGES[2:4])
    (tmp_path / "in" / "notes.txt").write_text("no picture")
    return tmp_path / "in"


def shown(row: dict[str, Any]) -> str:
    return row["file"].rpartition("in/")[2]


def test_every_image_with_its_classes_and_times(vdla_command: Any, net: Path, folder: Path) -> None:
    outcome = vdla_command("run", net, "--images", folder, "--json")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert [shown(row) for row in report["images"]] == [
        "a.png",
        "c.npy[0]",
        "c.npy[1]",
        "deep/b.png",
    ]
    run = vdla.compile("digits").run(IMAGES[:4], device="cycle")
    scores = next(iter(run.outputs.values()))
    for row, index in zip(report["images"], (0, 2, 3, 1), strict=True):
        best = row["classes"][0]
        assert (best["class"], best["score"]) == (scores[index].argmax(), scores[index].max())
        assert len(row["classes"]) == 5
        assert row["cycles"] == run.cycles
        assert row["seconds"]["accelerator"] == pytest.approx(run.cycles / 100e6)
        assert row["seconds"]["end to end"] > row["seconds"]["processor"] > 0
    assert report["accelerator_frames_per_second"] == pytest.approx(100e6 / run.cycles)
    assert report["frames_per_second"] is None  # a simulator's own
    assert report["skipped"] == []
    assert (report["config"], report["clock_mhz"]) == ("pynq-z1", 100)


def test_labels_come_from_a_file_or_from_the_compiled_one(
    vdla_command: Any, net: Path, folder: Path, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(NAMES) + "\n")
    outcome = vdla_command("run", net, "--images", folder / "a.png", "--labels", labels)
    assert outcome.code == 0
    assert f"a.png: {NAMES[LABELS[0]].split(',')[0]} (" in outcome.out
    assert "frames a second at most" in outcome.out
    kept = tmp_path / "kept.vdla"
    assert vdla_command("compile", "digits", "-o", kept, "--labels", labels).code == 0
    outcome = vdla_command("run", kept, "--image", folder / "a.png", "--json")
    assert json.loads(outcome.out)["classes"][0][0]["label"] == NAMES[LABELS[0]]


def test_what_cannot_be_read_is_left_out_and_named(
    vdla_command: Any, net: Path, folder: Path
) -> None:
    (folder / "aa.png").write_bytes(b"no picture")
    np.save(folder / "wide.npy", np.zeros((9, 9, 1), np.int8))
    outcome = vdla_command("run", net, "--images", folder, "--device", "functional", "--json")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert len(report["images"]) == 4
    assert [Path(one["file"]).name for one in report["skipped"]] == ["aa.png", "wide.npy"]
    assert "aa.png: --image must be a picture" in outcome.err.replace("\n", " ")
    assert report["images"][0]["seconds"]["accelerator"] is None  # no time


def test_a_device_that_fails_in_the_middle_loses_nothing(
    vdla_command: Any, net: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(FunctionalDevice):
        launched = 0

        def launch(self, *program: Any) -> None:
            self.launched += 1
            if self.launched == 3:
                raise DeviceError("The board is gone.")
            super().launch(*program)

    monkeypatch.setattr(
        "vdla.runtime.network.open_device", lambda name, config, **_: Failing(config)
    )
    outcome = vdla_command("run", net, "--images", folder, "--device", "functional")
    assert outcome.code == 2
    assert [line.split(":")[0][-8:] for line in outcome.out.splitlines()[:2]] == [
        "in/a.png",
        "c.npy[0]",
    ]
    assert "stopped after 2 images" in outcome.err
    assert "The board is gone." in outcome.err


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--images", "nowhere"], "--images must be a folder or a file, and nowhere is neither"),
        (["--images", "."], "--images must hold pictures (.bmp, "),
        (["--images", ".", "--image", "a.png"], "exclude each other"),
        (["--images", ".", "--check"], "--images goes with neither --check nor waves"),
        (["--device", "board"], "A device must be one of"),
        (["--labels", "nowhere"], "--labels must be a text file that can be read: nowhere"),
    ],
)
def test_bad_options(
    vdla_command: Any,
    net: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    rule: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = vdla_command("run", net, *arguments)
    assert outcome.code == 2
    assert rule in " ".join(outcome.err.replace("│", " ").split())


def test_a_folder_of_broken_pictures(vdla_command: Any, net: Path, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"")
    outcome = vdla_command("run", net, "--images", tmp_path)
    assert outcome.code == 2
    assert "must hold an image that can be read" in " ".join(outcome.err.split())


def test_labels_of_another_network(vdla_command: Any, net: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    outcome = vdla_command("run", net, "--labels", tmp_path / "labels.txt")
    assert outcome.code == 2
    assert "as many as the classes of digits, 10, not 2" in " ".join(outcome.err.split())
    (tmp_path / "labels.txt").write_text("\n")
    outcome = vdla_command("run", net, "--labels", tmp_path / "labels.txt")
    assert "is empty" in " ".join(outcome.err.split())
