"""VDLA: a tensor accelerator for FPGAs, with its compiler, simulators and runtime.

The names below resolve on first use, so that ``import vdla`` loads nothing heavier than numpy::

    import vdla

    net = vdla.compile("resnet8_int8.tflite", config=vdla.PYNQ_Z1)
    run = net.run(images, device="cycle")
    run.outputs, run.cycles, run.layers
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vdla.config import (
        AUP_ZU3,
        KV260,
        PAPER,
        PYNQ_Z1,
        PYNQ_Z2,
        TINY,
        ULTRA96,
        ZCU104,
        Config,
    )
    from vdla.errors import VdlaError
    from vdla.runtime.api import compile, load
    from vdla.runtime.sweep import sweep
    from vdla.runtime.tune.run import tune

__version__ = "0.1.0"

_LAZY = {
    "AUP_ZU3": "vdla.config",
    "KV260": "vdla.config",
    "PAPER": "vdla.config",
    "PYNQ_Z1": "vdla.config",
    "PYNQ_Z2": "vdla.config",
    "TINY": "vdla.config",
    "ULTRA96": "vdla.config",
    "ZCU104": "vdla.config",
    "Config": "vdla.config",
    "VdlaError": "vdla.errors",
    "compile": "vdla.runtime.api",
    "load": "vdla.runtime.api",
    "sweep": "vdla.runtime.sweep",
    "tune": "vdla.runtime.tune.run",
}

__all__ = [
    "AUP_ZU3",
    "KV260",
    "PAPER",
    "PYNQ_Z1",
    "PYNQ_Z2",
    "TINY",
    "ULTRA96",
    "ZCU104",
    "Config",
    "VdlaError",
    "__version__",
    "compile",
    "load",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import the module that defines `name` and keep the value, so the next use is direct."""
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'vdla' has no attribute {name!r}") from None
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
