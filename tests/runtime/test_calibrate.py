"""Calibration finds the memory that a device has, and refuses what no memory explains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from vdla.config import PYNQ_Z1, TINY, ULTRA96, Config
from vdla.errors import DeviceError, InputError
from vdla.runtime.calibrate import benchmarks, fit
from vdla.runtime.device import Counters
from vdla.runtime.devices import open_device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

MEMORIES = ((47, 0.6625), (250, 0.75), (3, 0.05), (12, 1.0))
"""Latency, and what share of the bus moves."""


def with_memory(config: Config, latency: int, share: float) -> Config:
    return config.replace(
        name=config.name,
        dram_latency_cycles=latency,
        dram_bytes_per_cycle=share * config.axi_bytes,
    )


@pytest.mark.parametrize(
    ("config", "latency", "share"),
    [*((TINY, *memory) for memory in MEMORIES), (PYNQ_Z1, 47, 0.6625), (ULTRA96, 90, 0.27)],
    ids=str,
)
def test_the_memory_of_the_cycle_model_is_found(config: Config, latency: int, share: float) -> None:
    found = fit(CycleDevice(with_memory(config, latency, share)), config=config)
    assert found.config.dram_latency_cycles == latency
    assert found.config.dram_bytes_per_cycle == pytest.approx(share * config.axi_bytes, rel=0.01)
    assert max(abs(one.error_after) for one in found.timed) < 0.001
    assert found.config.hash == config.hash
    assert found.before is config


def test_a_memory_as_assumed_changes_nothing() -> None:
    found = fit(CycleDevice(TINY))
    assert found.config.dram_latency_cycles == 30
    assert found.config.dram_pace == (1, 1)
    assert {one.error_before for one in found.timed} == {0.0}


class Counting(CycleDevice):
    """Counts something else."""

    def __init__(self, config: Config, factors: tuple[float, ...]) -> None:
        super().__init__(config)
        self.factors = list(factors)

    def counters(self) -> Counters:
        counted = super().counters()
        assert counted.cycles is not None
        return Counters(round(counted.cycles * self.factors.pop(0)))


def test_what_no_memory_explains_is_refused_with_the_residual() -> None:
    names = [benchmark.name for benchmark in benchmarks(TINY)]
    factors = tuple(2.0 if name == "long stores" else 1.0 for name in names)
    with pytest.raises(DeviceError) as error:
        fit(Counting(TINY, factors), config=TINY)
    assert "A fit must explain every program to within 3.0%" in str(error.value)
    assert "vdla selftest" in str(error.value)


def test_the_median_of_runs_counts() -> None:
    """One run in three is disturbed."""
    count = len(benchmarks(TINY))
    found = fit(Counting(TINY, (1.0, 1.7, 1.0) * count), config=TINY, repeats=3)
    assert found.config.dram_latency_cycles == 30


def test_a_device_without_time_is_refused() -> None:
    with pytest.raises(DeviceError, match="A device must count cycles to be calibrated"):
        fit(FunctionalDevice(TINY))


def test_a_tolerance_is_a_fraction() -> None:
    with pytest.raises(InputError, match=r"A tolerance must be a fraction in \(0, 1\)"):
        fit(CycleDevice(TINY), tolerance=3)


def test_hidden_bandwidth_is_told_as_a_bound() -> None:
    """With one burst of one beat in flight, a memory of any bandwidth waits for latency alone."""
    alone = TINY.replace(axi_outstanding=1, axi_burst_beats=1, dram_latency_cycles=60)
    found = fit(CycleDevice(alone.replace(dram_bytes_per_cycle=5)), config=alone)
    assert found.config.dram_latency_cycles == 60
    assert found.timed
    assert found.error < 0.02


@pytest.mark.rtl
class TestRtl:
    @pytest.fixture
    def machine(self) -> Iterator[Any]:
        pytest.importorskip("amaranth", reason="install it with: pip install 'vdla[hw]'")
        try:
            device = open_device("rtl", with_memory(TINY, 47, 0.6625))
        except DeviceError as error:
            pytest.skip(str(error))
        yield device
        device.close()

    def test_the_memory_of_the_gateware_is_found(self, machine: Any) -> None:
        from vdla.runtime import api

        network = api.compile("digits", config=TINY).module
        found = fit(machine, config=TINY, network=network)
        assert found.config.dram_latency_cycles == pytest.approx(47, rel=0.02)
        assert found.config.dram_bytes_per_cycle == pytest.approx(5.3, rel=0.02)
        by_name = {one.name: one for one in found.timed}
        for name in ("short rows", "loads beside stores", "digits"):
            assert not by_name[name].fitted
            assert abs(by_name[name].error_after) < 0.01
            assert abs(by_name[name].error_before) > 0.02
