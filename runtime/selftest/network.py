"""A whole network on a device beside the functional model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.errors import VdlaError
from vdla.module import Module, TensorInfo
from vdla.runtime.device import Device
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.run import cycles_of
from vdla.runtime.session import Outcome as Ran
from vdla.runtime.session import Session

from .report import FAILED, PASSED, Outcome

__all__ = ["network_outcome", "run_once"]

_GRADE = "network"


def network_outcome(device: Device, module: Module, *, exact: bool) -> Outcome:
    """Run a network on drawn inputs, and compare outputs, and cycles where both have them."""
    expected = run_once(module, FunctionalDevice(module.config)).values
    try:
        outcome = run_once(module, device)
    except VdlaError as error:
        return Outcome(_GRADE, module.name, FAILED, str(error))
    cycles = cycles_of(outcome.counters)
    model = None if cycles is None else _model_cycles(module, device)
    wrong = _first_difference(module, expected, outcome.values)
    if wrong is None and exact and model is not None and cycles != model:
        wrong = f"it must take {model} cycles, not {cycles}"
    return Outcome(_GRADE, module.name, FAILED if wrong else PASSED, wrong or "", cycles, model)


def run_once(module: Module, device: Device) -> Ran:
    """Run a network on drawn inputs, and leave the device open."""
    inputs = {name: _drawn(module.tensors[name]) for name in module.inputs}
    return Session(module, _Kept(device)).run(inputs)


class _Kept:
    """A device that a session does not close."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def close(self) -> None:
        """Leave the device open: its owner closes it."""


def _drawn(info: TensorInfo) -> NDArray[Any]:
    random, dtype = np.random.default_rng(0), np.dtype(info.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = max(limits.min, -128), min(limits.max, 255)
        return random.integers(low, high + 1, info.shape).astype(dtype)
    return random.standard_normal(info.shape).astype(dtype)


def _model_cycles(module: Module, device: Device) -> int | None:
    try:
        from vdla.runtime.devices.cycle import CycleDevice
    except ModuleNotFoundError:
        return None
    return cycles_of(run_once(module, CycleDevice(device.config)).counters)


def _first_difference(
    module: Module, expected: Mapping[str, Any], found: Mapping[str, Any]
) -> str | None:
    for name in module.outputs:
        if module.tensors[name].data is not None:
            continue
        wrong = np.argwhere(expected[name] != found[name])
        if len(wrong):
            at = tuple(wrong[0].tolist())
            return (
                f"output {name} must be {expected[name][at]} at {list(at)}, not {found[name][at]} "
                f"(and {len(wrong) - 1} more)"
            )
    return None
