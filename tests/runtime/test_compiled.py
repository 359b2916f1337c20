"""Machine code in a session: the same results as numpy, one call a run, numpy where it cannot."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import vdla
from tests.handmade_native import floats, with_native
from tests.networks import images_for, residual
from vdla.compiler.reference import Interpreter
from vdla.compiler.targets.cpu import LEVELS, Target, host_target
from vdla.errors import InputError, ModuleError, VdlaWarning
from vdla.module import Module
from vdla.processor import architecture
from vdla.runtime.devices.compiled import CompiledRun
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.network import Network
from vdla.runtime.session import Session

RUN = ["exp", "mul", "add"]
GRAPH = floats()
IMAGES = np.random.default_rng(0).normal(0, 1, (5, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def plain() -> Module:
    return vdla.compile(GRAPH, place=dict.fromkeys(RUN, "cpu")).module


@pytest.fixture(scope="module")
def module(plain: Module) -> Module:
    return with_native(plain, RUN)


def scores(module: Module, images: np.ndarray, **options: object) -> np.ndarray:
    device = FunctionalDevice(module.config, len(images))
    with Session(module, device, **options) as session:  # type: ignore[arg-type]
        return session.run({"input": images}).values["c"]


@pytest.mark.parametrize("threads", [None, 1, 2, 4])
def test_compiled_layers_give_what_numpy_gives(
    plain: Module, module: Module, threads: int | None
) -> None:
    got = scores(module, IMAGES, threads=threads, pin=threads == 2)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, scores(plain, IMAGES), rtol=1e-6)


def test_a_run_takes_the_place_of_its_layers(module: Module) -> None:
    with Session(module, FunctionalDevice(module.config)) as session:
        (step,) = (*session.head, *session.body, *session.tail)
        outcome = session.run({"input": IMAGES[:1]})
    assert isinstance(step, CompiledRun)
    assert sorted(outcome.values) == ["c", "input"]  # what lies within the run stays there
    assert outcome.timing.processor > 0


def test_every_layer_is_told_of(module: Module) -> None:
    told: list[tuple[int, int, str]] = []
    Network(module).run(IMAGES, progress=lambda *step: told.append(step), max_images_at_once=5)
    assert told == [(0, 3, "exp"), (1, 3, "mul"), (2, 3, "add")]


def test_inputs_may_lie_anyhow(module: Module) -> None:
    wide = np.zeros((5, 13), np.float32)
    wide[:, 1::2] = IMAGES
    np.testing.assert_array_equal(scores(module, wide[:, 1::2]), scores(module, IMAGES))
    raw = np.zeros(IMAGES.nbytes + 1, np.uint8)
    moved = raw[1:].view(np.float32).reshape(IMAGES.shape)
    moved[...] = IMAGES
    np.testing.assert_array_equal(scores(module, moved), scores(module, IMAGES))


def test_results_are_the_callers(module: Module) -> None:
    with Session(module, FunctionalDevice(module.config)) as session:
        first, second = (session.run({"input": IMAGES[k : k + 1]}).values["c"] for k in (0, 1))
    assert not np.array_equal(first, second)


def test_between_programs_of_the_accelerator() -> None:
    graph = residual()
    compiled = vdla.compile(graph, place={"stem": "cpu", "body": "cpu", "dense": "cpu"}).module
    layers = [layer.name for layer in compiled.layers if layer.device == "cpu"]
    module = with_native(compiled, ["stem", "body"], layers[2:])
    images = images_for(graph, 4)
    network = Network(module)
    for count in (1, 4):
        run = network.run(images[:count], device="functional", check=True)
        assert run.bit_exact, run.first_difference
        expected = Interpreter(graph).run(images[:count])
        for name, array in expected.items():
            np.testing.assert_array_equal(run.outputs[name], array)
    network.to("functional", threads=2)
    answers = list(network.stream(images))
    np.testing.assert_array_equal(
        np.stack([a.outputs[graph.outputs[0]] for a in answers]),
        Interpreter(graph).run(images)[graph.outputs[0]],
    )
    network.close()


def test_a_check_finds_what_the_code_does_wrong(module: Module) -> None:
    assert Network(module).run(IMAGES, check=True).bit_exact
    assert module.native is not None
    constants = module.native.constants.copy()
    constants.view(np.float32)[4] += 1
    wrong = replace(module, native=replace(module.native, constants=constants))
    run = Network(wrong).run(IMAGES, check=True)
    assert run.bit_exact is False
    assert run.first_difference is not None
    assert run.first_difference.startswith("add at (0, 4): ")


def test_images_that_cannot_share_a_pass(module: Module) -> None:
    alone = replace(module, per_image=False)
    got = Network(alone).run(IMAGES[:, None]).outputs["c"]
    np.testing.assert_array_equal(got, scores(module, IMAGES))


def test_code_for_another_processor_is_left_to_numpy_with_a_warning(plain: Module) -> None:
    other = next(one for one in LEVELS.values() if one.architecture != architecture())
    module = with_native(plain, RUN, target=other)
    message = (
        rf"^floats has code for the processor at level {other.level}, and its layers run in numpy, "
        r"which is slower: A library must be for this machine's architecture, "
    )
    with pytest.warns(VdlaWarning, match=message) as warned:
        got = scores(module, IMAGES)
    assert len(warned) == 1
    np.testing.assert_array_equal(got, scores(plain, IMAGES))


def test_no_warning_where_all_is_well(plain: Module, module: Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores(plain, IMAGES)
        scores(module, IMAGES)


def test_code_of_another_network_is_refused(module: Module) -> None:
    assert module.native is not None
    run = replace(module.native.runs[0], name="run_7")
    wrong = replace(module, native=replace(module.native, runs=(run,)))
    device = FunctionalDevice(module.config)
    with pytest.raises(ModuleError, match=r"run_7 is not: .*one of run_0.* Compile the network"):
        Session(wrong, device)
    fewer = replace(module.native, constants=module.native.constants[:8])
    with pytest.raises(ModuleError, match=r"run_0 is not: Argument 2 of run_0 must have the shape"):
        Session(replace(module, native=fewer), device)


def test_a_library_cut_short_is_refused(module: Module) -> None:
    assert module.native is not None
    library = module.native.library[: len(module.native.library) // 2]
    wrong = replace(module, native=replace(module.native, library=library))
    with pytest.raises(ModuleError, match=r"A library must be whole"):
        Session(wrong, FunctionalDevice(module.config))


def test_threads_are_a_number(module: Module) -> None:
    with pytest.raises(InputError, match=r"Threads must be .* not 0"):
        Session(module, FunctionalDevice(module.config), threads=0)
    with pytest.raises(InputError, match=r"Threads must be .* not 0"):
        Network(module).run(IMAGES, threads=0)


def test_the_target_of_the_tests_is_this_machine(module: Module) -> None:
    assert module.native is not None
    assert Target.named(module.native.level) == host_target()
