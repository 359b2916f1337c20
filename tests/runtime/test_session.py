"""A network loaded on a device: what is written when, and what runs beside what."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

import vdla
from tests.networks import images_for, residual
from vdla.compiler.reference import Interpreter
from vdla.config import PYNQ_Z1, TINY
from vdla.errors import DeviceError, InputError
from vdla.module import Launch, Unpack
from vdla.program import Program
from vdla.runtime.device import Bytes
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.network import Network
from vdla.runtime.session import Session

GRAPH = residual()
IMAGES = images_for(GRAPH, 4)
EXPECTED = Interpreter(GRAPH).run(IMAGES)[GRAPH.outputs[0]]


class Recorded(FunctionalDevice):
    """Computes in `wait`, as hardware does after `launch`; fails at a chosen launch."""

    def __init__(self, config: vdla.Config, fail_at: int | None = None) -> None:
        super().__init__(config)
        self.log: list[str] = []
        self.fail_at = fail_at
        self.pending: tuple[Program, int] | None = None

    def write(self, address: int, data: Bytes) -> None:
        assert self.pending is None, "memory was written while a program ran"
        self.log.append(f"write {data.shape[-1]}")
        super().write(address, data)

    def read(self, address: int, nbytes: int) -> Bytes:
        assert self.pending is None, "memory was read while a program ran"
        self.log.append("read")
        return super().read(address, nbytes)

    def launch(self, program: Program, base: int = 0) -> None:
        assert self.pending is None, "a program was started while one ran"
        self.log.append("launch")
        self.pending = program, base

    def wait(self) -> None:
        assert self.pending is not None
        self.log.append("wait")
        pending, self.pending = self.pending, None
        if self.log.count("wait") == self.fail_at:
            raise DeviceError("It burns.")
        super().launch(*pending)

    def close(self) -> None:
        self.log.append("close")


@pytest.fixture(scope="module")
def network() -> Network:
    return vdla.compile(GRAPH)


def inputs(log: list[str], images: np.ndarray = IMAGES) -> Iterator[dict[str, np.ndarray]]:
    for image in images:
        log.append("take")
        yield {"input": image[np.newaxis]}
    log.append("no more")


def scores(session: Session, passes: Iterator[dict[str, np.ndarray]]) -> Iterator[np.ndarray]:
    for outcome in session.stream(passes):
        yield outcome.values[GRAPH.outputs[0]]


def test_weights_are_written_once_and_images_are_prepared_while_the_device_computes(
    network: Network,
) -> None:
    device = Recorded(PYNQ_Z1)
    with Session(network.module, device) as session:
        weights = device.log.copy()
        found = list(scores(session, inputs(device.log)))
    np.testing.assert_array_equal(np.concatenate(found), EXPECTED)
    launches = sum(isinstance(step, Launch) for step in network.module.steps)
    reads = sum(isinstance(step, Unpack) for step in network.module.steps)
    assert (launches, reads) == (1, 1)
    one = [word for word in device.log[len(weights) :] if word.startswith("write")][0]
    assert device.log == [
        *weights,
        "take",
        *[one, "launch", "take", "wait", "read"] * 3,
        *[one, "launch", "no more", "wait", "read"],
        "close",
    ]


def test_timing_covers_each_pass(network: Network) -> None:
    with Session(network.module, Recorded(PYNQ_Z1)) as session:
        timings = [outcome.timing for outcome in session.stream(inputs([]))]
    for timing in timings:
        assert timing.begin < timing.end
        assert min(timing.processor, timing.transfers, timing.device) > 0
    assert all(a.begin < b.begin < a.end < b.end for a, b in pairwise(timings))


def test_an_input_that_cannot_be_read_comes_after_the_answers_before_it(network: Network) -> None:
    def broken() -> Iterator[dict[str, np.ndarray]]:
        yield from ({"input": image[np.newaxis]} for image in IMAGES[:2])
        raise InputError("It is torn.")

    found = []
    with Session(network.module, Recorded(PYNQ_Z1)) as session:
        with pytest.raises(InputError, match="torn"):
            found.extend(scores(session, broken()))
        np.testing.assert_array_equal(np.concatenate(found), EXPECTED[:2])
        again = session.run({"input": IMAGES[3:]})  # nothing of it is left on the device
    np.testing.assert_array_equal(again.values[GRAPH.outputs[0]], EXPECTED[3:])


def test_a_device_that_fails_keeps_the_answers_before_it(network: Network) -> None:
    device, found = Recorded(PYNQ_Z1, fail_at=3), []
    with Session(network.module, device) as session:
        with pytest.raises(DeviceError, match="burns"):
            found.extend(scores(session, inputs(device.log)))
        np.testing.assert_array_equal(np.concatenate(found), EXPECTED[:2])
        again = session.run({"input": IMAGES[:1]})
    np.testing.assert_array_equal(again.values[GRAPH.outputs[0]], EXPECTED[:1])


def test_a_stream_that_is_left_leaves_no_program_running(network: Network) -> None:
    device = Recorded(PYNQ_Z1)
    with Session(network.module, device) as session:
        for _ in session.stream(inputs(device.log)):
            break
        assert device.pending is None


def test_layers_on_the_processor_between_programs() -> None:
    network = vdla.compile(GRAPH, place={"body": "cpu"})
    device = Recorded(PYNQ_Z1)
    with Session(network.module, device) as session:
        found = list(scores(session, inputs(device.log)))
    assert device.log.count("launch") == 2 * len(IMAGES)
    np.testing.assert_array_equal(np.concatenate(found), EXPECTED)


def test_a_network_without_a_program() -> None:
    nodes = {node.name: "cpu" for node in GRAPH.nodes}
    network = vdla.compile(GRAPH, place=nodes)
    assert not network.programs
    device = Recorded(PYNQ_Z1)
    with Session(network.module, device) as session:
        found = list(scores(session, inputs(device.log)))
    np.testing.assert_array_equal(np.concatenate(found), EXPECTED)


def test_no_input_gives_no_answer(network: Network) -> None:
    with Session(network.module, Recorded(PYNQ_Z1)) as session:
        assert list(session.stream(iter(()))) == []


def test_more_images_than_memories_are_refused(network: Network) -> None:
    rule = r"A pass must hold at most the 1 images .* not 4: run them in several\."
    with (
        Session(network.module, Recorded(PYNQ_Z1)) as session,
        pytest.raises(DeviceError, match=rule),
    ):
        session.run({"input": IMAGES})


def test_a_device_that_has_no_room_is_closed(network: Network) -> None:
    class Full(Recorded):
        def allocate(self, nbytes: int, align: int = 4096) -> int:
            raise DeviceError("It is full.")

    device = Full(PYNQ_Z1)
    with pytest.raises(DeviceError, match="full"):
        network.to(device)
    assert device.log == ["close"]
    assert network.device is None


@pytest.mark.parametrize("batch", [1, 2])
def test_calling_a_network(batch: int) -> None:
    config = PYNQ_Z1.replace(batch=batch, inp_bytes=batch * 32 << 10, acc_bytes=batch * 128 << 10)
    network = vdla.compile(GRAPH, config=config).to("functional")
    many = network(IMAGES[:3])
    assert isinstance(many, np.ndarray)
    np.testing.assert_array_equal(many, EXPECTED[:3])
    np.testing.assert_array_equal(network(IMAGES[0]), EXPECTED[0])
    answers = list(network.stream(IMAGES[:3]))
    assert [answer.images for answer in answers] == ([1, 1, 1] if batch == 1 else [2, 2, 1])
    rows = [answer.outputs[GRAPH.outputs[0]] for answer in answers]
    np.testing.assert_array_equal(np.stack(rows), EXPECTED[:3])
    network.close()


def test_a_network_that_nobody_placed_runs_on_the_cycle_model(network: Network) -> None:
    network.close()
    answer = next(network.stream(IMAGES))
    assert answer.cycles == network.run(IMAGES[0], device="cycle").cycles
    assert type(network.device).__name__ == "CycleDevice"
    network.close()
    assert network.device is None


def test_loading_another_device_closes_the_first(network: Network) -> None:
    first = Recorded(PYNQ_Z1)
    network.to(first).to("functional")
    assert first.log[-1] == "close"
    np.testing.assert_array_equal(network.run(IMAGES).outputs[GRAPH.outputs[0]], EXPECTED)
    with pytest.raises(InputError, match=r"A check must open the device itself"):
        network.run(IMAGES, check=True)
    assert network.run(IMAGES, device="functional", check=True).bit_exact
    network.close()


def test_a_device_of_another_configuration_is_refused(network: Network) -> None:
    with Session(network.module, Recorded(TINY)) as session, pytest.raises(DeviceError) as error:
        session.run({"input": IMAGES[:1]})
    assert "pynq-z1" in str(error.value)
    assert "tiny" in str(error.value)


def test_labels_stay_with_a_network(network: Network, tmp_path) -> None:
    names = tuple(f"class {index}" for index in range(EXPECTED.shape[1]))
    network.labelled(names).save(tmp_path / "net.vdla")
    assert vdla.load(tmp_path / "net.vdla").labels == names
    assert network.labels == ()
    with pytest.raises(InputError, match=rf"as many as the classes of .*, {len(names)}, not 2"):
        network.labelled(["cat", "dog"])


def test_images_of_a_pass_must_have_one_shape() -> None:
    network = vdla.compile("digits", config=TINY.replace(batch=2)).to("functional")
    image = np.zeros(network.input_shape[1:], network.input_dtype)
    answers = network.stream([image, image, image, image[:2]])
    assert len([next(answers), next(answers)]) == 2
    with pytest.raises(InputError, match=r"must have one shape, \(8, 8, 1\), not \(2, 8, 1\) and"):
        next(answers)
