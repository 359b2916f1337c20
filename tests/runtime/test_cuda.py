"""The CUDA device over a stand-in for the driver: what is called, with what, and what is said."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compiler.gpu.cases import CASES
from tests.runtime.cuda_standin import CUresult, Driver
from tests.runtime.test_gpu_network import check_outputs, two_outputs
from vdla.compiler.gpu import compile_network, operator_kernel
from vdla.compiler.gpu.code import kernel_code
from vdla.errors import DeviceError, InputError
from vdla.runtime import api, cuda
from vdla.runtime.cuda import CudaDevice, CudaError
from vdla.runtime.gpu import open_gpu
from vdla.runtime.gpu_network import place_network


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Driver:
    """Return a driver of two GPUs whose modules are source."""
    made = Driver(tmp_path / "modules", "NVIDIA A100-SXM4", "NVIDIA H100 PCIe")
    monkeypatch.setattr(cuda, "_bindings", {"driver": made}.__getitem__)
    monkeypatch.setattr(cuda, "compile_source", lambda source, architecture: source.encode())
    return made


@pytest.mark.parametrize("name", ["dense 7x13x5", "conv stride 2", "matmul batch"])
def test_a_kernel_is_launched_on_what_lies_in_its_memory(name: str, driver: Driver) -> None:
    case = CASES[name]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    run = CudaDevice().build(made.kernel)
    arrays = (*case.inputs, *made.constants.values())
    for _ in range(2):
        (found,) = run(*arrays)
        case.check(found)
    assert driver.launched == [(made.kernel.grid, made.kernel.block)] * 2
    gc.collect()
    assert driver.allocated == {}  # all of it freed, and nothing written beside it


def test_a_network_is_what_it_is_on_every_device(driver: Driver) -> None:
    check_outputs(CudaDevice())


@pytest.mark.parametrize("target", ["cuda", "ptx"])
def test_a_compiled_network_runs_there(
    target: str, driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api.compile(two_outputs(), target=target, cache=False).save(tmp_path / "net.vdla")
    network = api.load(tmp_path / "net.vdla")
    assert (network.gpu_target, network.usual_device) == ("cuda", "cuda")
    gpu = network.module.gpu
    assert gpu is not None
    assert all(bool(kernel.ptx) == (target == "ptx") for kernel in gpu.kernels)
    by_entry = {f".visible .entry {kernel.entry}(": kernel.source for kernel in gpu.kernels}

    def loaded(image: int) -> tuple[Any, ...]:
        text = ctypes.string_at(image).decode()
        # What stands for the driver runs CUDA C alone: that of the same kernel.
        sources = [source for entry, source in by_entry.items() if entry in text]
        return CUresult.CUDA_SUCCESS, *(sources or [text])

    monkeypatch.setattr(driver, "cuModuleLoadData", loaded)
    a, b = np.random.default_rng(2).normal(size=(2, 2, 3)).astype(np.float32)
    found = network.run({"a": a, "b": b}, device="cuda:1").outputs
    np.testing.assert_allclose(found["y"], np.exp(a), 1e-6)
    np.testing.assert_allclose(found["z"], np.exp(a) + b, 1e-6, 1e-6)
    np.testing.assert_array_equal(found["a"], a)
    np.testing.assert_array_equal(found["held"], [0, 1, 2])


def test_a_number_or_a_part_of_the_name_finds_a_device(driver: Driver) -> None:
    assert CudaDevice().name == "NVIDIA A100-SXM4 (CUDA, sm_90)"
    assert CudaDevice("1").name == "NVIDIA H100 PCIe (CUDA, sm_90)"
    assert CudaDevice("h100").name == "NVIDIA H100 PCIe (CUDA, sm_90)"
    assert open_gpu("cuda", "1").name == "NVIDIA H100 PCIe (CUDA, sm_90)"
    with pytest.raises(
        DeviceError,
        match=r"A CUDA device must be one of 0: NVIDIA A100.*; 1: NVIDIA H100.*, and none is "
        r"called '2': name a number or a part of one of these\.$",
    ):
        CudaDevice("2")


def test_a_machine_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(
        DeviceError,
        match=r"CUDA needs the package cuda-bindings, and it cannot be imported \(.*\): "
        r"pip install 'vdla\[cuda\]'$",
    ):
        CudaDevice()


def test_a_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(flags: int) -> Any:
        raise RuntimeError("cuda is\nnot there")  # as cuda-bindings has it

    bindings = ModuleType("driver")
    monkeypatch.setattr(bindings, "cuInit", none, raising=False)
    monkeypatch.setattr(cuda, "_bindings", {"driver": bindings}.__getitem__)
    with pytest.raises(
        DeviceError,
        match=r"CUDA needs a GPU of NVIDIA's and its driver, and there is none \(cuda is not "
        r"there\): install the driver, or run the network on another device\.$",
    ):
        CudaDevice()


def test_a_machine_without_a_gpu(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_names", ())
    with pytest.raises(DeviceError, match=r"CUDA needs a GPU of NVIDIA's, and its driver finds no"):
        CudaDevice()
    monkeypatch.setattr(driver, "cuInit", lambda flags: (CUresult.CUDA_ERROR_NO_DEVICE,))
    with pytest.raises(DeviceError, match=r"there is none \(CUDA_ERROR_NO_DEVICE in cuInit\): "):
        CudaDevice()


def test_what_the_driver_reports(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["dense 7x13x5"]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    arrays = (*case.inputs, *made.constants.values())
    device = CudaDevice()
    run = device.build(made.kernel)
    with pytest.raises(InputError, match=r"dense must be given 3 arrays \(.*\), not 1\."):
        run(*case.inputs)
    driver.fails = True
    with pytest.raises(
        DeviceError,
        match=r"dense must run to its end, and the device says CUDA_ERROR_LAUNCH_FAILED in "
        r"cuStreamSynchronize: try another device, or a smaller tile\.",
    ):
        run(*arrays)
    monkeypatch.setattr(driver, "_left", 8)
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_OUT_OF_MEMORY in cuMemAlloc: try another"):
        run(*arrays)

    def refused(source: str, architecture: int) -> bytes:
        assert architecture == 90
        raise CudaError("kernel.cu(7): error: identifier is undefined")

    monkeypatch.setattr(cuda, "compile_source", refused)
    with pytest.raises(
        DeviceError,
        match=r"The source of a kernel must be what the device's compiler takes, and .*A100.* "
        r"refuses dense: kernel\.cu\(7\): error: identifier is undefined$",
    ):
        device.load(kernel_code(made.kernel, "cuda"))


def test_a_block_that_the_device_has_no_room_for(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    monkeypatch.setitem(driver._attributes, which, 4)
    case = CASES["dense 65x33x129"]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    with pytest.raises(
        DeviceError, match=r"A block must have at most 4 threads, 1024 x 1024 x 64, on NVIDIA A100"
    ):
        CudaDevice().build(made.kernel)


def test_ptx_goes_to_the_driver_as_it_is(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["dense 7x13x5"]()
    made = operator_kernel(case.graph, case.graph.nodes[0])
    code = kernel_code(made.kernel, "ptx")
    assert f".visible .entry {code.entry}(" in code.ptx
    assert code.source == kernel_code(made.kernel, "cuda").source

    images = []

    def held(image: int) -> tuple[Any, ...]:
        images.append(ctypes.string_at(image).decode())  # up to the zero behind it
        return CUresult.CUDA_SUCCESS, code.source

    monkeypatch.setattr(driver, "cuModuleLoadData", held)
    (found,) = CudaDevice().load(code)(*case.inputs, *made.constants.values())
    case.check(found)
    assert images == [code.ptx]


def test_what_is_recorded_runs_in_one_call_and_is_timed_by_events(driver: Driver) -> None:
    device = CudaDevice()
    run = place_network(compile_network(two_outputs()), device)
    a, b = np.random.default_rng(2).normal(size=(2, 2, 3)).astype(np.float32)
    want = run.run({"a": a, "b": b})
    again = device.recorded(run.enqueue)
    assert len(driver.launched) == len(run.code.calls)  # recording runs nothing
    run.write({"a": -a, "b": b})
    assert device.seconds(again, 3) == pytest.approx(2e-3 * len(run.code.calls))
    assert len(driver.launched) == 4 * len(run.code.calls)
    found = run.read()
    np.testing.assert_allclose(found["y"], 1 / want["y"], 1e-5)
    np.testing.assert_allclose(found["z"], found["y"] + b, 1e-5)


@pytest.mark.gpu
def test_a_kernel_on_a_gpu() -> None:
    try:
        device = CudaDevice()
    except DeviceError as error:
        pytest.skip(str(error))
    for make in CASES.values():
        case = make()
        made = operator_kernel(case.graph, case.graph.nodes[0])
        (found,) = device.build(made.kernel)(*case.inputs, *made.constants.values())
        case.check(found)
    check_outputs(device)
